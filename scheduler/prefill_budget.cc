#include "scheduler/prefill_budget.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <vector>

#include "kernels/base/check.h"
#include "kernels/base/types.h"

namespace quire {

void DividePrefillBudget(int64_t budget, int64_t max_partial, absl::Span<PrefillDemand> demands) {
  CHECK_GE(budget, 0);
  CHECK_GE(max_partial, 1);
  if (demands.empty()) return;
  const auto grant = [&budget](PrefillDemand& demand, int64_t most) {
    const int64_t granted = std::min({demand.num_wanted - demand.num_granted, most, budget});
    demand.num_granted += granted;
    budget -= granted;
  };

  const int64_t num_shares = std::min<int64_t>(demands.size(), max_partial);
  grant(demands[0], CeilDiv(budget, num_shares));

  std::vector<size_t> order(demands.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::tuple(demands[a].priority, demands[a].num_wanted, a) <
           std::tuple(demands[b].priority, demands[b].num_wanted, b);
  });
  for (size_t i : order) grant(demands[i], budget);
}

}  // namespace quire
