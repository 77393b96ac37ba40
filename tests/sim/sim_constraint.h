// SimConstraints: the constraint of a simulated request, an automaton that every token moves. Its
// masks differ after each token, so a mask of another moment shows in the tokens. Each
// continuation has a log of the calls that its constraint got. The oracle runs the automaton by
// itself.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "scheduler/token_constraint.h"

namespace quire::sim {

class Automaton {
 public:
  explicit Automaton(uint64_t seed) : state_(seed) {}

  std::vector<uint32_t> Mask() const;  // [MaskWords(kVocabSize)]; never empty
  bool Refuses(TokenId token) const;   // although the mask may allow it
  void Take(TokenId token);            // one that it does not refuse
  bool is_at_end() const { return is_at_end_; }

 private:
  bool Allows(TokenId token) const;

  uint64_t state_;
  bool is_at_end_ = false;
};

// The calls that the constraint of one continuation got.
struct ConstraintLog {
  std::vector<TokenId> accepted;
  bool has_refused = false;
  bool is_alive = true;
  std::string misuse;  // a call that must not come
};

class SimConstraints : public TokenConstraintSource {
 public:
  explicit SimConstraints(uint64_t seed) : seed_(seed) {}

  std::unique_ptr<TokenConstraint> New() const override;
  Automaton NewAutomaton() const { return Automaton(seed_); }
  // In the order of New, which is that of the continuations.
  const std::vector<std::shared_ptr<ConstraintLog>>& logs() const { return logs_; }

 private:
  const uint64_t seed_;
  mutable std::vector<std::shared_ptr<ConstraintLog>> logs_;
};

}  // namespace quire::sim
