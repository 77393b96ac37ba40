// Ids to text, at once and as a stream, after a prompt or not: any ids, also those that the
// vocabulary lacks. Input: a byte for the length of the prompt; then two bytes per id.
#include <algorithm>

#include "kernels/base/check.h"
#include "server/text/tokenizer/stream_decoder.h"
#include "server/text/utf8.h"
#include "tests/fuzz/target.h"
#include "tests/fuzz/test_models.h"
#include "tests/fuzz/tokenizer_properties.h"

namespace quire::fuzz {
namespace {

void CheckContinuation(const std::shared_ptr<const Tokenizer>& tokenizer,
                       const std::vector<TokenId>& ids, size_t num_prompt) {
  StreamDecoder stream(tokenizer, /*skip_special_tokens=*/true);
  stream.StartAfter(absl::MakeConstSpan(ids).first(num_prompt));
  for (size_t i = num_prompt; i < ids.size(); ++i) {
    const std::string_view piece = stream.Append(ids[i]);
    CHECK(!FindInvalidUtf8(piece).has_value()) << piece;
  }
  CHECK(!FindInvalidUtf8(stream.Flush()).has_value());
}

std::string Seed(uint8_t num_prompt, const std::vector<TokenId>& ids) {
  std::string seed(1, static_cast<char>(num_prompt));
  for (const TokenId id : ids) {
    seed += static_cast<char>(id & 0xFF);
    seed += static_cast<char>(id >> 8 & 0xFF);
  }
  return seed;
}

}  // namespace

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  for (const auto& tokenizer : TestTokenizers()) {
    const auto ids =
        tokenizer->Encode("Some words, 日本語 and 👩‍👩‍👧 emoji</s><|im_end|>\n");
    CHECK(ids.ok()) << ids.status();
    seeds.push_back(Seed(0, *ids));
    seeds.push_back(Seed(3, *ids));
  }
  std::vector<TokenId> bytes;
  for (TokenId id = 0; id < 400; ++id) bytes.push_back(id * 7 % 261);
  seeds.push_back(Seed(5, bytes));
  return seeds;
}

std::vector<std::string> Dictionary() {
  using std::string_literals::operator""s;
  return {"\xFF\xFF", "\xFF\x07", "\0\x08"s, "\xFD\x07", "\x01\0"s};
}

}  // namespace quire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;  // NOLINT(build/namespaces)
  fuzz::InputReader input(data, size);
  const size_t prompt_limit = input.TakeByte();
  std::vector<TokenId> ids;
  while (!input.rest().empty()) {
    // 0xFFFF stands for -1, the id of nothing.
    const uint8_t low = input.TakeByte();
    ids.push_back(static_cast<int16_t>(low | input.TakeByte() << 8));
  }
  ++fuzz::num_accepted;
  for (const auto& tokenizer : fuzz::TestTokenizers()) {
    fuzz::CheckDecoding(tokenizer, ids);
    fuzz::CheckContinuation(tokenizer, ids, std::min(prompt_limit, ids.size()));
  }
  return 0;
}
