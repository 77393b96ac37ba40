// A parser with a bug, to show that the driver finds one: it believes a length in its input. Input:
// a two-byte length, the rest.
#include "kernels/base/check.h"
#include "tests/fuzz/target.h"

namespace quire::fuzz {

std::vector<std::string> Seeds() {
  using std::string_literals::operator""s;
  return {"\x05\0hello"s};
}

std::vector<std::string> Dictionary() { return {}; }

}  // namespace quire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  quire::fuzz::InputReader input(data, size);
  const size_t low = input.TakeByte();
  const size_t length = low | static_cast<size_t>(input.TakeByte()) << 8;
  if (input.rest().size() < 4) return 0;
  ++quire::fuzz::num_accepted;
  CHECK_LE(length, input.rest().size() + 40000) << "the planted bug";
  return 0;
}
