#include "engine/metrics/expert_tokens.h"

#include <algorithm>
#include <utility>

namespace quire {

ExpertTokens::ExpertTokens(std::vector<int32_t> num_experts)
    : num_experts_(std::move(num_experts)),
      most_(num_experts_.empty() ? 0 : *std::max_element(num_experts_.begin(), num_experts_.end())),
      counts_(
          std::make_unique<Counter[]>(num_experts_.size() * most_)),  // NOLINT(*-avoid-c-arrays)
      before_(num_experts_.size() * most_) {}

void ExpertTokens::Take(const int64_t* totals, bool counts) {
  for (size_t i = 0; i < before_.size(); ++i) {
    if (totals[i] == before_[i]) continue;
    if (counts) counts_[i].Add(static_cast<uint64_t>(totals[i] - before_[i]));
    before_[i] = totals[i];
  }
}

}  // namespace quire
