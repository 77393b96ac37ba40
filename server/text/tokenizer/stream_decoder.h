// Turns one sequence's token ids into text as they come. The texts add up to exactly the text that
// Tokenizer::Decode gives for all the ids at once, wherever they are cut; none ends inside a
// character. O(1) per token. One thread at a time.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "kernels/base/types.h"
#include "server/text/tokenizer/stages/decoder.h"
#include "server/text/tokenizer/tokenizer.h"

namespace quire {

class StreamDecoder {
 public:
  // `shown` are special tokens that are not skipped.
  StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special_tokens,
                std::vector<TokenId> shown = {});

  // Sets the text before the sequence: a generated text goes on where its prompt ends, so its first
  // token keeps the blank that Decode would drop at the start of a text. Before the first Append.
  void StartAfter(absl::Span<const TokenId> prompt);

  // The part of a prompt that StartAfter looks at.
  static std::vector<TokenId> EndOf(absl::Span<const TokenId> prompt);

  // Takes the next id and returns the text that is certain by now, often all of it, sometimes none.
  // Valid until the next call. An id without a token adds nothing.
  std::string_view Append(TokenId id);

  // Ends the sequence and returns the text that was held back. Nothing may be appended after it.
  std::string_view Flush();

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  const bool skip_special_tokens_;
  const std::vector<TokenId> shown_;
  DecodeChain chain_;
  std::string text_;
};

}  // namespace quire
