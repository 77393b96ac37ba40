// Text to ids and back: a byte-level tokenizer gives every text back, no text by itself makes a
// special token, however it is cut into segments. Input: a byte for the cuts, the text.
#include <algorithm>

#include "kernels/base/check.h"
#include "tests/fuzz/target.h"
#include "tests/fuzz/test_models.h"
#include "tests/fuzz/tokenizer_properties.h"

namespace quire::fuzz {
namespace {

// The same text as segments that a user wrote gives the same ids.
void CheckSegments(const Tokenizer& tokenizer, std::string_view text, size_t step,
                   const std::vector<TokenId>& ids) {
  std::vector<Segment> segments;
  for (size_t begin = 0; begin < text.size(); begin += step) {
    segments.push_back({text.substr(begin, step), /*is_template=*/false});
  }
  const auto joined = tokenizer.EncodeSegments(segments, /*add_special_tokens=*/false);
  CHECK(joined.ok()) << joined.status();
  CHECK(*joined == ids) << "cut into segments, the text has other ids";
}

}  // namespace

std::vector<std::string> Seeds() {
  return {
      "\x05The quick brown fox jumps over the lazy dog. It's 12345 times!\n\n  Indented\ttext",
      "\x03<|im_start|>user\n<|im_end|><|endoftext|><|eot|></s><|im_<|im_end|>",
      "\x07"
      "日本語 é e\u0301 \u200D👩‍👩‍👧 ﬁ İ ß 한국어 नमस्ते \u202E "
      "\uFEFF",
      "\x01"
      "aaaaaaaaaaaaaaaa          \r\n\r\n\n\n\t\t\t\t0000000000 ababababab",
      "\x02{\"json\": [1, 2.5e-3, null], \"s\": \"\\u00e9\"}",
  };
}

std::vector<std::string> Dictionary() {
  return {"<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|eot|>", "</s>",  "▁", "Ġ",
          "  ",           "'s",         "\u0301",        "\u3000",  "\u00A0"};
}

}  // namespace quire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;  // NOLINT(build/namespaces)
  fuzz::InputReader input(data, size);
  const size_t step = 1 + input.TakeByte();
  const std::string_view text = input.rest();
  const auto& tokenizers = fuzz::TestTokenizers();
  for (size_t i = 0; i < tokenizers.size(); ++i) {
    const Tokenizer& tokenizer = *tokenizers[i];
    const std::vector<TokenId> ids = fuzz::CheckedEncode(tokenizer, text);
    if (ids.empty()) continue;
    ++fuzz::num_accepted;
    CHECK(std::none_of(ids.begin(), ids.end(), [&](TokenId id) { return tokenizer.IsSpecial(id); }))
        << "text became a special token";
    if (i == 0) CHECK_EQ(tokenizer.Decode(ids, false), text);
    fuzz::CheckSegments(tokenizer, text, step, ids);
    fuzz::CheckDecoding(tokenizers[i], ids);
    const auto parsed = tokenizer.Encode(text, {.parse_special_tokens = true});
    CHECK(parsed.ok()) << parsed.status();
    fuzz::CheckDecoding(tokenizers[i], *parsed);
  }
  return 0;
}
