#include "tests/sim/fairness_check.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/sim/workload.h"

namespace quire::sim {
namespace {

VirtualTime Cost(uint64_t flow, int64_t num_tokens) {
  return num_tokens * FlowState::kVirtualToken / WeightOf(flow);
}

}  // namespace

void FairnessCheck::BeforeStep(const Scheduler& scheduler) {
  const FairQueue& fair = scheduler.fairness();
  num_preemptions_before_ = scheduler.stats().num_preemptions;
  forgotten_.reset();
  for (const auto& [id, served] : served_after_) {
    const bool had_to_go = served <= fair.start() || fair.num_flows() > FairQueue::kMaxIdleFlows;
    if (fair.Find(id) == nullptr && !had_to_go) forgotten_ = id;
  }
  served_before_.clear();
  scheduler.fairness().ForEach(
      [this](const FlowState& flow) { served_before_[flow.id] = flow.served; });
}

std::optional<std::string> FairnessCheck::AfterStep(const Scheduler& scheduler,
                                                    const SchedulerOutput& output,
                                                    const absl::flat_hash_set<uint64_t>& wanting) {
  served_after_.clear();
  scheduler.fairness().ForEach(
      [this](const FlowState& flow) { served_after_[flow.id] = flow.served; });
  if (forgotten_.has_value()) return absl::StrCat("flow ", *forgotten_, " was forgotten too early");
  auto violation = CheckCharges(scheduler, output);
  if (!violation.has_value()) violation = CheckLeads(scheduler, wanting);
  wanted_before_ = wanting;
  return violation;
}

// Each flow is charged the tokens of its sequences, by its weight; where somebody was preempted
// perhaps what that one had computed.
std::optional<std::string> FairnessCheck::CheckCharges(const Scheduler& scheduler,
                                                       const SchedulerOutput& output) const {
  absl::flat_hash_map<uint64_t, int64_t> num_tokens;
  for (const ScheduledSequence& scheduled : output.sequences) {
    num_tokens[scheduled.request->flow.id] += scheduled.num_new;
  }
  const FairQueue& fair = scheduler.fairness();
  const int64_t num_preemptions = scheduler.stats().num_preemptions - num_preemptions_before_;
  for (const auto& [id, before] : served_before_) {
    const FlowState* flow = fair.Find(id);
    if (flow == nullptr) {
      if (num_tokens.contains(id)) return absl::StrCat("flow ", id, " is not known");
      continue;
    }
    const auto it = num_tokens.find(id);
    const VirtualTime cost = it == num_tokens.end() ? 0 : Cost(id, it->second);
    const VirtualTime least = (cost > 0 ? std::max(before, fair.now()) : before) + cost;
    const VirtualTime most = std::max(before, fair.now()) + cost +
                             Cost(id, num_preemptions * config_.max_model_len) + num_preemptions;
    if (flow->served < least || flow->served > most) {
      return absl::StrCat("flow ", id, " came from ", before, " to ", flow->served,
                          " with tokens worth ", cost);
    }
  }
  return std::nullopt;
}

// How far another may be ahead of one that wants more. When it was last let in, its time with all
// that it had been let in for was not later than the other's, which counts prompts in at most all
// rows; since then it got one sequence more, what those in its rows generate, and what it paid for
// those it pushed out.
std::optional<std::string> FairnessCheck::CheckLeads(
    const Scheduler& scheduler, const absl::flat_hash_set<uint64_t>& wanting) const {
  const FairQueue& fair = scheduler.fairness();
  VirtualTime furthest = 0;
  fair.ForEach([&](const FlowState& flow) { furthest = std::max(furthest, flow.served); });
  const VirtualTime most =
      FlowState::kVirtualToken * config_.max_model_len * (3 * config_.max_num_seqs + 2);
  if (fair.num_flows() > 0 && fair.start() > std::max(furthest, fair.now())) {
    return absl::StrCat("who comes now begins at ", fair.start(), ", behind all, who are at ",
                        furthest, " at most");
  }
  for (const uint64_t id : wanting) {
    const FlowState* flow = fair.Find(id);
    if (flow == nullptr) return absl::StrCat("flow ", id, " wants more, but was forgotten");
    if (furthest - std::max(flow->served, fair.now()) > most) {
      return absl::StrCat("flow ", id, " has come to ", flow->served, ", another to ", furthest);
    }
    if (wanted_before_.contains(id) && served_before_.contains(id) && flow->served < fair.now() &&
        flow->served == served_before_.at(id)) {
      return absl::StrCat("flow ", id, " is at ", flow->served,
                          ", but nobody is said to be behind ", fair.now());
    }
  }
  return std::nullopt;
}

}  // namespace quire::sim
