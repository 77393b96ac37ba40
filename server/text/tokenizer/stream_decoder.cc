#include "server/text/tokenizer/stream_decoder.h"

#include <algorithm>
#include <utility>

namespace quire {

StreamDecoder::StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special_tokens,
                             std::vector<TokenId> shown)
    : tokenizer_(std::move(tokenizer)),
      skip_special_tokens_(skip_special_tokens),
      shown_(std::move(shown)),
      chain_(tokenizer_->decoder()) {}

void StreamDecoder::StartAfter(absl::Span<const TokenId> prompt) {
  for (const TokenId id : EndOf(prompt)) Append(id);
}

// What a decoder remembers is whether a token came before, and an unfinished character: a few
// tokens say both, unless they are special ones that are skipped.
std::vector<TokenId> StreamDecoder::EndOf(absl::Span<const TokenId> prompt) {
  constexpr size_t kNumTokens = 16;
  const absl::Span<const TokenId> end =
      prompt.subspan(prompt.size() - std::min(prompt.size(), kNumTokens));
  return {end.begin(), end.end()};
}

std::string_view StreamDecoder::Append(TokenId id) {
  text_.clear();
  const bool skips =
      skip_special_tokens_ && std::find(shown_.begin(), shown_.end(), id) == shown_.end();
  const std::string_view token = tokenizer_->TextToDecode(id, skips);
  if (!token.empty()) chain_.Push(token, &text_);
  return text_;
}

std::string_view StreamDecoder::Flush() {
  text_.clear();
  chain_.Finish(&text_);
  return text_;
}

}  // namespace quire
