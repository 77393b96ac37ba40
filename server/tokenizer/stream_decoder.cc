#include "server/tokenizer/stream_decoder.h"

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
  // What a decoder remembers is whether a token came before, and an unfinished character: a few
  // tokens say both, unless they are special ones that are skipped.
  constexpr size_t kNumTokens = 16;
  const size_t skipped = prompt.size() > kNumTokens ? prompt.size() - kNumTokens : 0;
  for (const TokenId id : prompt.subspan(skipped)) Append(id);
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
