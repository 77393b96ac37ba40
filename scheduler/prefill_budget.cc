#include "scheduler/prefill_budget.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <vector>

#include "kernels/base/check.h"
#include "kernels/base/types.h"

namespace quire {
namespace {

// Brings `order`, which is sorted by flow and then as each flow wants it, into the order in which
// the prompts would end if the flows were served at once, each by its weight (weighted fair
// queueing: Demers, Keshav, Shenker, SIGCOMM 1989).
void MergeFlows(absl::Span<const PrefillDemand> demands, std::vector<size_t>* order) {
  std::vector<int64_t> end(demands.size());  // virtual time
  for (size_t i = 0; i < order->size(); ++i) {
    const PrefillDemand& demand = demands[(*order)[i]];
    const bool is_first = i == 0 || demands[(*order)[i - 1]].flow != demand.flow;
    const int64_t start = is_first ? demand.flow_time : end[(*order)[i - 1]];
    end[(*order)[i]] = start + demand.num_wanted * demand.token_time;
  }
  std::stable_sort(order->begin(), order->end(),
                   [&](size_t a, size_t b) { return end[a] < end[b]; });
}

}  // namespace

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
  const auto first = std::min_element(demands.begin(), demands.end(),
                                      [](const PrefillDemand& a, const PrefillDemand& b) {
                                        return std::tuple(!a.is_owed, a.flow_time, a.flow) <
                                               std::tuple(!b.is_owed, b.flow_time, b.flow);
                                      });
  grant(*first, CeilDiv(budget, num_shares));

  std::vector<size_t> order(demands.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::tuple(demands[a].flow, demands[a].priority, demands[a].num_wanted, a) <
           std::tuple(demands[b].flow, demands[b].priority, demands[b].num_wanted, b);
  });
  if (demands[order.front()].flow != demands[order.back()].flow) MergeFlows(demands, &order);
  for (size_t i : order) grant(demands[i], budget);
}

}  // namespace quire
