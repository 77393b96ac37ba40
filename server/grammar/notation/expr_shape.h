// Whether an expression is better called as a rule than written out where it is used. One thread.
#pragma once

#include "absl/container/flat_hash_map.h"
#include "server/grammar/expr/expr_store.h"

namespace quire {

class ExprShapes {
 public:
  explicit ExprShapes(const ExprStore* store) : store_(store) {}

  // It has no rules, and some loop of it goes on with most printable characters: the text of a
  // string, a comment. As a rule it keeps its token sets, which are for states without calls behind
  // them, and which all of its callers share.
  bool HasWideLoop(ExprId id);
  // It has few states, so that copies of them, each with another rest, do no harm.
  bool IsSmall(ExprId id) const;

 private:
  ByteSet FirstBytes(ExprId id) const;
  bool TakeStates(ExprId id, uint64_t times, uint64_t* num_states) const;

  const ExprStore* const store_;
  absl::flat_hash_map<ExprId, bool> has_wide_loop_;
};

}  // namespace quire
