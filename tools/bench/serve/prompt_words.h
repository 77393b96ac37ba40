// Random prompts as texts, for servers that take no token ids. A word has about one token; with a
// tokenizer, a prompt has exactly the wanted number of tokens. Immutable; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/text/tokenizer/tokenizer.h"

namespace quire::bench {

class PromptWords {
 public:
  // `tokenizer` may be null.
  PromptWords(uint64_t seed, std::shared_ptr<const Tokenizer> tokenizer);

  // A word for each id; equal beginnings stay equal. With a tokenizer, the special tokens that it
  // puts around a text count, too. An error (exit code 64) when no text of that length is found.
  absl::StatusOr<std::string> Text(absl::Span<const int32_t> ids) const;

 private:
  const std::string& Word(int32_t id) const {
    return words_[(static_cast<size_t>(id) ^ seed_) % words_.size()];
  }

  const uint64_t seed_;
  const std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<std::string> words_;
};

// The number of tokens of a text, without special ones; 0 if the bytes are no text.
int64_t CountTokens(const Tokenizer& tokenizer, const std::string& text);

}  // namespace quire::bench
