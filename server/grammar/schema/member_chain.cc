#include "server/grammar/schema/member_chain.h"

#include <algorithm>
#include <utility>

namespace quire {

namespace {

// Members times counts: each is a few terms.
constexpr size_t kMaxCells = 200'000;
// Members whose names begin an alternation; those behind it are in a rule of their own. Otherwise
// the alternations would grow with the square of the members.
constexpr size_t kBlockSize = 64;

}  // namespace

bool MemberChain::Add(ExprId text, bool is_required) {
  if (text == ExprStore::kNothing) return !is_required;
  members_.push_back({text, is_required});
  return true;
}

ExprId MemberChain::Others(uint32_t count) const {
  if (count >= max_) return ExprStore::kNothing;
  if (some_ != ExprStore::kEmpty) return some_;  // counts beside it are refused in Finish
  const ExprId next = store_.Concat(comma_, other_);
  const uint32_t left = max_ == kUnbounded ? kUnbounded : max_ - count - 1;
  const uint32_t needed = min_ > count + 1 ? min_ - count - 1 : 0;
  return store_.Concat(other_, store_.Repeat(next, needed, left));
}

ExprId MemberChain::Finish(ExprId other, ExprId some, bool* may_be_empty) {
  other_ = other;
  some_ = some;
  const size_t size = members_.size();
  const uint32_t num_required = static_cast<uint32_t>(std::count_if(
      members_.begin(), members_.end(), [](const Member& member) { return member.is_required; }));
  const bool needs_some = some != ExprStore::kEmpty;
  if (min_ <= num_required || (min_ == 1 && needs_some)) min_ = 0;  // they see to it
  const bool counts_max = max_ != kUnbounded && (other != ExprStore::kNothing || max_ < size);
  const uint32_t limit = counts_max ? max_ + 1 : min_;  // counts from here on are all the same
  if ((size + 1) * (size_t{limit} + 1) > kMaxCells || (needs_some && (min_ > 0 || counts_max))) {
    status_ = absl::ResourceExhaustedError("minProperties or maxProperties with too many members");
    return ExprStore::kNothing;
  }
  // By the number of members there are, from the last member back: the texts of at least one more
  // member, and whether there may be none.
  std::vector<std::vector<ExprId>> more(size_t{limit} + 1);
  bool may_end = !needs_some;
  for (uint32_t count = 0; count <= limit; ++count) more[count] = {Others(count)};
  const auto may_end_at = [&](uint32_t count) { return may_end && count >= min_ && count <= max_; };
  for (size_t i = size; i-- > 0;) {
    std::vector<std::vector<ExprId>> longer(more.size());
    std::vector<ExprId> tails(more.size());
    for (uint32_t count = 0; count <= limit; ++count) {
      tails[count] = store_.Concat(comma_, store_.Or(more[count]));
      if (may_end_at(count)) tails[count] = store_.Optional(tails[count]);
    }
    for (uint32_t count = 0; count <= limit; ++count) {
      if (!members_[i].is_required) {
        longer[count] = std::move(more[count]);
        if (i % kBlockSize == 0 && longer[count].size() > kBlockSize / 2) {
          longer[count] = {store_.Rule(grammar_.AddRule(store_.Or(longer[count])))};
        }
      }
      longer[count].push_back(store_.Concat(members_[i].text, tails[std::min(count + 1, limit)]));
    }
    may_end = may_end && !members_[i].is_required;
    more = std::move(longer);
  }
  *may_be_empty = may_end_at(0);
  return store_.Or(more[0]);
}

}  // namespace quire
