#include "engine/metrics/expert_tokens.h"

#include <algorithm>
#include <utility>

namespace quire {

ExpertTokens::ExpertTokens(std::vector<int32_t> num_experts)
    : num_experts_(std::move(num_experts)),
      most_(num_experts_.empty() ? 0 : *std::max_element(num_experts_.begin(), num_experts_.end())),
      counts_(
          std::make_unique<Counter[]>(num_experts_.size() * most_)),  // NOLINT(*-avoid-c-arrays)
      totals_(num_experts_.size() * most_) {}

void ExpertTokens::Begin(const int64_t* totals) {
  std::copy_n(totals, totals_.size(), totals_.begin());
}

void ExpertTokens::Update(const int64_t* totals) {
  for (size_t i = 0; i < totals_.size(); ++i) {
    counts_[i].Add(static_cast<uint64_t>(totals[i] - totals_[i]));
    totals_[i] = totals[i];
  }
}

}  // namespace quire
