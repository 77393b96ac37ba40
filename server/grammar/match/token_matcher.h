// Where a sequence of tokens stands in a grammar: the mask of the tokens that may come next, one
// step forward for each token, and back. One thread at a time; any number of matchers share a
// grammar's automaton and a vocabulary.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/base/types.h"
#include "server/grammar/match/parser.h"
#include "server/grammar/match/token_set.h"
#include "server/grammar/match/token_trie.h"

namespace quire {

// The data that all constraints of a model share.
struct ConstraintVocabulary {
  ConstraintVocabulary(const std::vector<std::string>& tokens, std::vector<TokenId> ends,
                       size_t max_cache_bytes)
      : trie(tokens), end_tokens(std::move(ends)), token_sets(max_cache_bytes) {}

  const TokenTrie trie;
  const std::vector<TokenId> end_tokens;  // allowed where the text is complete
  mutable TokenSetCache token_sets;
};

class TokenMatcher {
 public:
  TokenMatcher(std::shared_ptr<const ConstraintVocabulary> vocabulary,
               std::shared_ptr<const Automaton> automaton);

  // Sets bit t % 32 of word t / 32 for each token t that may come next, and clears the others.
  // `mask` has (vocab_size + 31) / 32 words, or more, which are cleared, too.
  void FillMask(absl::Span<uint32_t> mask);

  // One step forward. False, and nothing changes, if the token may not come next. An end token is
  // the last; after it nothing follows.
  bool Accept(TokenId token);
  // How many of the tokens may follow one after another.
  size_t CountAccepted(absl::Span<const TokenId> tokens);
  // As if the last `num_tokens` had not been accepted.
  void GoBack(size_t num_tokens);

  // The text so far is in the grammar.
  bool is_complete() const { return position().is_complete; }
  // No text may follow, only the end.
  bool is_at_end() const { return ended_ || position().items_begin == position().items_end; }
  size_t num_tokens() const { return history_.size() - 1; }

  // RESOURCE_EXHAUSTED once the grammar's limits, or the parser's, were reached.
  absl::Status status() const;

 private:
  const Parser::Position& position() const { return history_.back(); }
  void Set(uint32_t token) { mask_[token / 32] |= uint32_t{1} << (token % 32); }
  void UseTokenSet(const TokenSet& set, uint32_t call);
  void Walk(const Parser::Position& position, size_t begin, size_t end);
  void WalkPlain(const Parser::Position& position, Parser::Item item, size_t begin, size_t end);

  const std::shared_ptr<const ConstraintVocabulary> vocabulary_;
  const std::shared_ptr<const Automaton> automaton_;
  Parser parser_;
  std::vector<Parser::Position> history_;  // before the first token, and after each
  bool ended_ = false;                     // the last token was an end
  absl::Span<uint32_t> mask_;              // while it is filled
  std::vector<State> states_;              // by depth, of a walk
};

}  // namespace quire
