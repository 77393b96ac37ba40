// What a fuzz target is: one function that feeds bytes from outside to one parser and CHECKs what
// must hold whatever they are, the inputs that mutation starts from, and the words of the format. A
// target is linked with driver.cc (any compiler) or with libFuzzer. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// Returns 0; aborts where the parser breaks a promise.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace quire::fuzz {

// Whole, mostly valid inputs.
std::vector<std::string> Seeds();

// Words that mutation inserts beside the general ones.
std::vector<std::string> Dictionary();

// Inputs that the parser took for good, so that a run can tell whether it got past the first check.
inline uint64_t num_accepted = 0;

// Takes an input apart, from the front; past its end everything is zero or empty.
class InputReader {
 public:
  InputReader(const uint8_t* data, size_t size)
      : rest_(reinterpret_cast<const char*>(data), size) {}

  uint8_t TakeByte() {
    const std::string_view byte = TakeBytes(1);
    return byte.empty() ? 0 : static_cast<uint8_t>(byte[0]);
  }
  std::string_view TakeBytes(size_t size) {
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(taken.size());
    return taken;
  }
  // Up to the next `separator`, which is dropped.
  std::string_view TakeUntil(char separator) {
    const std::string_view taken = TakeBytes(rest_.find(separator));
    TakeBytes(1);
    return taken;
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

}  // namespace quire::fuzz
