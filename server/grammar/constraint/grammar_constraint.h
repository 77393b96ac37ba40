// GrammarConstraint: a TokenMatcher as the engine asks for it (scheduler/token_constraint.h).
#pragma once

#include <memory>
#include <utility>

#include "scheduler/token_constraint.h"
#include "server/grammar/match/token_matcher.h"

namespace quire {

class GrammarConstraint : public TokenConstraint {
 public:
  GrammarConstraint(std::shared_ptr<const ConstraintVocabulary> vocabulary,
                    std::shared_ptr<const Automaton> automaton)
      : matcher_(std::move(vocabulary), std::move(automaton)) {}

  void FillMask(absl::Span<uint32_t> mask) override;
  absl::Status Accept(TokenId token) override;
  bool is_at_end() const override { return matcher_.is_at_end(); }
  size_t CountAllowed(absl::Span<const TokenId> tokens) override {
    return matcher_.CountAccepted(tokens);
  }
  void GoBack(size_t num_tokens) override { matcher_.GoBack(num_tokens); }

 private:
  TokenMatcher matcher_;
};

class GrammarConstraintSource : public TokenConstraintSource {
 public:
  GrammarConstraintSource(std::shared_ptr<const ConstraintVocabulary> vocabulary,
                          std::shared_ptr<const Automaton> automaton)
      : vocabulary_(std::move(vocabulary)), automaton_(std::move(automaton)) {}

  std::unique_ptr<TokenConstraint> New() const override {
    return std::make_unique<GrammarConstraint>(vocabulary_, automaton_);
  }
  // It grows while requests use it.
  size_t num_bytes() const { return automaton_->num_bytes(); }
  bool ok() const { return automaton_->ok(); }

 private:
  const std::shared_ptr<const ConstraintVocabulary> vocabulary_;
  const std::shared_ptr<const Automaton> automaton_;
};

}  // namespace quire
