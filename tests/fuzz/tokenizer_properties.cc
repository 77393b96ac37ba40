#include "tests/fuzz/tokenizer_properties.h"

#include "kernels/base/check.h"
#include "server/text/tokenizer/stream_decoder.h"
#include "server/text/utf8.h"

namespace quire::fuzz {
namespace {

bool IsUtf8(std::string_view text) { return !FindInvalidUtf8(text).has_value(); }

}  // namespace

std::vector<TokenId> CheckedEncode(const Tokenizer& tokenizer, std::string_view text) {
  const EncodeOptions plain = {.add_special_tokens = false, .parse_special_tokens = false};
  const absl::StatusOr<std::vector<TokenId>> ids = tokenizer.Encode(text, plain);
  if (!IsUtf8(text)) {
    CHECK(absl::IsInvalidArgument(ids.status())) << ids.status();
    return {};
  }
  if (!ids.ok()) {
    CHECK(absl::IsResourceExhausted(ids.status())) << ids.status();
    return {};
  }
  for (const TokenId id : *ids) {
    CHECK(id >= 0 && id < tokenizer.vocab_size()) << id;
  }
  return *ids;
}

void CheckDecoding(const std::shared_ptr<const Tokenizer>& tokenizer,
                   const std::vector<TokenId>& ids) {
  for (const bool skip_special_tokens : {false, true}) {
    const std::string at_once = tokenizer->Decode(ids, skip_special_tokens);
    CHECK(IsUtf8(at_once)) << at_once;
    StreamDecoder stream(tokenizer, skip_special_tokens);
    std::string streamed;
    for (const TokenId id : ids) {
      const std::string_view piece = stream.Append(id);
      CHECK(IsUtf8(piece)) << piece;
      streamed += piece;
    }
    streamed += stream.Flush();
    CHECK_EQ(streamed, at_once);
  }
}

}  // namespace quire::fuzz
