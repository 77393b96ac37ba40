// Simulation: the production Scheduler and BlockManager against FakeRunner, one thread, everything
// from one seed. Every step it checks the scheduler's own invariants, the contract of its output,
// each slot that is read, what the window leaves, that the best-ranked sequence gets on, and that
// flows share by their weights. It also checks each event against the stream that the sequence
// would produce by itself.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "scheduler/scheduler.h"
#include "tests/sim/coverage.h"
#include "tests/sim/fairness_check.h"
#include "tests/sim/fake_runner.h"
#include "tests/sim/oracle.h"
#include "tests/sim/sim_constraint.h"
#include "tests/sim/workload.h"

namespace quire::sim {

struct SimulationOptions {
  uint64_t seed = 1;
  int64_t num_rounds = 400;  // with arrivals; then everything is run to its end
  Fault fault = Fault::kNone;
};

class Simulation {
 public:
  explicit Simulation(const SimulationOptions& options);

  // The first violation, or nothing.
  std::optional<std::string> Run();

  const Coverage& coverage() const { return coverage_; }
  bool keeps_states() const { return scenario_.blocks.num_state_slots > 0; }
  bool has_constraints() const { return scenario_.requests.constraint_period > 0; }
  std::string Describe() const;  // the scenario, for the report of a violation

 private:
  // The facts about one continuation that are known outside the scheduler.
  struct Tracked {
    std::shared_ptr<const Request> request;
    ExpectedStream expected;
    std::shared_ptr<const ConstraintLog> constraint;  // null: it has none
    int64_t max_num_tokens = 0;
    int64_t num_seen = 0;  // tokens delivered, prompt included
    int64_t num_prompt_scored = 0;
    int64_t num_submitted = 0;  // of the last epoch
    int64_t num_computed = 0;   // of the last epoch
    uint64_t epoch = 0;
    uint64_t last_step = 0;  // that it was part of
    bool scheduled = false;  // in some step
    bool cut_short = false;  // lost its turn since it was last scheduled
    bool started = false;
    bool paused = false;
    bool finished = false;
    FinishReason end_reason = FinishReason::kNone;  // of its cancellation

    // Whether all that can be submitted before its end is in flight.
    bool AllSubmitted() const { return num_submitted >= max_num_tokens - 1; }
  };

  // simulation.cc: what happens.
  void Round();
  void Arrive();
  void CancelSomebody();
  void CancelNobody();
  const SequenceKey* KeyToCancel();
  void StallSomebody();
  void SetStalled(const SequenceKey& key, bool stalled);
  void FailDevice();
  bool ScheduleAndSubmit();
  void Sample(const SchedulerOutput& output);
  void CommitCompleted(bool scheduled);
  void CommitOldest();
  void Drain();
  const SequenceKey* AnyKey();
  const SequenceKey* AnyKeyWhere(const std::function<bool(const SequenceKey&)>& holds);

  // simulation_checks.cc: what must come of it.
  void CheckVerdict(const Request& request, const absl::Status& status,
                    const SchedulerStats& before, const QueueLoad& held);
  void NoteCancel(const SequenceKey& key, const Tracked& tracked);
  void NoteStep(const SchedulerOutput& output);
  void NoteScheduled(uint64_t step, const ScheduledSequence& scheduled);
  void NoteNewRow(const ScheduledSequence& scheduled, const Tracked& tracked);
  void CheckWindows(const ScheduledSequence& scheduled, const Tracked& tracked);
  void CheckBestGetsOn(const SchedulerOutput& output);
  void NoteLostTurns(const SchedulerOutput& output);
  void CheckFairness(const SchedulerOutput& output);
  void TakeEvents();
  void CheckEvent(const SequenceEvent& event);
  void CheckToken(const SequenceEvent& event, Tracked* tracked);
  void CheckPromptLogprobs(const SequenceEvent& event, Tracked* tracked);
  void CheckFinished(const SequenceEvent& event, Tracked* tracked);
  void CheckStats();
  void CheckConstraint(const SequenceKey& key);
  void Forget();
  bool SomebodyCanRun() const;
  void Fail(const std::string& what);

  const SimulationOptions options_;
  Random random_;
  const Scenario scenario_;
  Workload workload_;
  Scheduler scheduler_;
  FakeRunner runner_;
  FairnessCheck fairness_;
  absl::flat_hash_map<SequenceKey, Tracked> tracked_;
  std::vector<SequenceKey> live_;   // unfinished ones, in order of arrival
  std::vector<SequenceKey> ended_;  // finished, perhaps still in flight
  std::deque<int64_t> ready_at_;    // the rounds in which the steps in flight are complete
  SequenceKey leader_;              // the best-ranked one, if it ran in the last step
  uint64_t newest_step_ = 0;
  bool crashed_ = false;
  Coverage coverage_;
  int64_t now_ = 0;
  std::optional<std::string> violation_;
};

}  // namespace quire::sim
