// MemberChain: the members of an object, in order, some of which may be left out, with commas in
// between and bounds of their number.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "server/grammar/expr/grammar.h"

namespace quire {

class MemberChain {
 public:
  // The grammar outlives this.
  MemberChain(Grammar* grammar, ExprId comma, uint32_t min, uint32_t max)
      : grammar_(*grammar), store_(grammar->store), comma_(comma), min_(min), max_(max) {}

  // The next member; kNothing if there can be none. False if it must be there nevertheless.
  bool Add(ExprId text, bool is_required);

  // All of them, then further ones: any number of `other`, or, unless it is kEmpty, `some`, which
  // has at least one. At least one member: *may_be_empty says whether there may be none as well.
  ExprId Finish(ExprId other, ExprId some, bool* may_be_empty);

  // RESOURCE_EXHAUSTED if there are too many to be counted.
  const absl::Status& status() const { return status_; }

 private:
  struct Member {
    ExprId text;
    bool is_required;
  };

  // At least one further member when there are `count`, without a comma before it.
  ExprId Others(uint32_t count) const;

  Grammar& grammar_;
  ExprStore& store_;
  const ExprId comma_;
  uint32_t min_;
  const uint32_t max_;
  std::vector<Member> members_;
  ExprId other_ = ExprStore::kNothing, some_ = ExprStore::kEmpty;
  absl::Status status_;
};

}  // namespace quire
