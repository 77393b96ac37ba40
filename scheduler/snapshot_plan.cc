#include "scheduler/snapshot_plan.h"

#include <algorithm>

#include "kernels/base/check.h"

namespace quire {

absl::InlinedVector<int64_t, 2> PlanSnapshots(const SnapshotPolicy& policy,
                                              const SnapshotDemand& demand) {
  absl::InlinedVector<int64_t, 2> boundaries;
  const int64_t grid = policy.grid;
  const int64_t end = demand.start + demand.num_new;
  if (end / grid == demand.start / grid) return boundaries;  // most decodes
  CHECK_EQ(policy.interval % grid, 0);
  const auto add = [&](int64_t boundary) {
    if (boundary <= demand.start || boundary > end) return;
    if (std::find(boundaries.begin(), boundaries.end(), boundary) != boundaries.end()) return;
    boundaries.push_back(boundary);
  };

  add((demand.num_prompt_tokens - 1) / grid * grid);
  add(demand.num_prompt_tokens / grid * grid);
  add(demand.num_shared_tokens / grid * grid);
  if (policy.max_per_sequence <= 0) return boundaries;
  int64_t interval = policy.interval;
  const int64_t num_tokens = std::max(end, demand.num_prompt_tokens);
  while (num_tokens / interval > policy.max_per_sequence) interval *= 2;
  for (int64_t i = demand.start / interval + 1; i * interval <= end; ++i) add(i * interval);
  return boundaries;
}

}  // namespace quire
