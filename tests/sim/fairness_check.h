// FairnessCheck: that what flows are charged is what they were given, and that none which wants
// more is left behind. One per simulation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "scheduler/scheduler.h"

namespace quire::sim {

class FairnessCheck {
 public:
  explicit FairnessCheck(const SchedulerConfig& config) : config_(config) {}

  void BeforeStep(const Scheduler& scheduler);

  // `wanting`: flows that were not given all that they could run. The first violation, or nothing.
  std::optional<std::string> AfterStep(const Scheduler& scheduler, const SchedulerOutput& output,
                                       const absl::flat_hash_set<uint64_t>& wanting);

 private:
  std::optional<std::string> CheckCharges(const Scheduler& scheduler,
                                          const SchedulerOutput& output) const;
  std::optional<std::string> CheckLeads(const Scheduler& scheduler,
                                        const absl::flat_hash_set<uint64_t>& wanting) const;

  const SchedulerConfig config_;
  absl::flat_hash_map<uint64_t, VirtualTime> served_before_;  // the step
  absl::flat_hash_map<uint64_t, VirtualTime> served_after_;   // the one before
  std::optional<uint64_t> forgotten_;                         // between the two
  int64_t num_preemptions_before_ = 0;
  absl::flat_hash_set<uint64_t> wanted_before_;
};

}  // namespace quire::sim
