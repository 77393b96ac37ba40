// Simulation: the production Scheduler and BlockManager against FakeRunner, one thread, everything
// from one seed. Every step it checks the scheduler's own invariants, the contract of its output,
// each slot that is read, and each event against the stream that the sequence would produce alone.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "scheduler/scheduler.h"
#include "tests/sim/fake_runner.h"
#include "tests/sim/oracle.h"
#include "tests/sim/workload.h"

namespace quire::sim {

struct SimulationOptions {
  uint64_t seed = 1;
  int64_t num_steps = 400;  // with arrivals; then everything is run to its end
  bool cancels = true;
  bool pauses = true;
  Fault fault = Fault::kNone;
};

// What a run has covered: a green run that met none of these would prove nothing.
struct Coverage {
  int64_t steps = 0;
  int64_t lookahead_steps = 0;  // scheduled while another was in flight
  int64_t tokens = 0;
  int64_t chunks = 0;
  int64_t preemptions = 0;
  int64_t prefix_hit_tokens = 0;
  int64_t generated_hits = 0;  // resumed or continued sequences that found their own blocks
  int64_t evictions = 0;
  int64_t window_steps = 0;     // steps of configurations with a windowed group
  int64_t collision_steps = 0;  // steps with a truncated hash
  int64_t inputs_on_device = 0;
  int64_t refused_queue_full = 0;
  int64_t refused_never_fits = 0;
  int64_t finished_stop = 0;
  int64_t finished_length = 0;
  int64_t stops_before_min_tokens = 0;
  int64_t prompt_logprobs = 0;
  int64_t pauses = 0;
  int64_t cancelled_waiting = 0;
  int64_t cancelled_mid_prompt = 0;
  int64_t cancelled_decoding = 0;
  int64_t cancelled_final_step = 0;  // with the last sample in flight
  int64_t cancelled_preempted = 0;
  int64_t cancelled_in_flight = 0;
  int64_t cancelled_paused = 0;
  int64_t dropped_results = 0;

  void Add(const Coverage& other);
  std::string ToString() const;
};

class Simulation {
 public:
  explicit Simulation(const SimulationOptions& options);
  Simulation(const SimulationOptions& options, const Scenario& scenario);

  // The first violation, or nothing.
  std::optional<std::string> Run();

  const Coverage& coverage() const { return coverage_; }
  std::string Describe() const;  // the scenario, for the report of a violation

 private:
  // What the outside knows of one continuation.
  struct Tracked {
    std::shared_ptr<const Request> request;
    ExpectedStream expected;
    int64_t num_seen = 0;  // tokens delivered, prompt included
    int64_t num_prompt_scored = 0;
    int64_t num_submitted = 0;  // of the last epoch
    uint64_t epoch = 0;
    bool scheduled = false;  // in some step
    bool started = false;
    bool paused = false;
    bool cancelled = false;
    bool finished = false;
  };

  void Step();
  void Arrive();
  void CancelSomebody();
  void PauseSomebody();
  void NoteCancel(const SequenceKey& key, const Tracked& tracked);
  bool ScheduleAndSubmit();
  void NoteScheduled(const ScheduledSequence& scheduled);
  void CommitOldest();
  void TakeEvents();
  void CheckEvent(const SequenceEvent& event);
  void CheckToken(const SequenceEvent& event, Tracked* tracked);
  void CheckPromptLogprobs(const SequenceEvent& event, Tracked* tracked);
  void CheckFinished(const SequenceEvent& event, Tracked* tracked);
  void Forget();
  void Drain();
  void CheckEmpty();
  const SequenceKey* AnyKey();
  bool SomebodyCanRun() const;
  void Fail(std::string what);

  const SimulationOptions options_;
  Random random_;
  Scenario scenario_;
  Workload workload_;
  Scheduler scheduler_;
  FakeRunner runner_;
  absl::flat_hash_map<SequenceKey, Tracked> tracked_;
  std::vector<SequenceKey> live_;   // unfinished ones, in order of arrival
  std::vector<SequenceKey> ended_;  // finished, perhaps still in flight
  Coverage coverage_;
  int64_t now_ = 0;
  std::optional<std::string> violation_;
};

}  // namespace quire::sim
