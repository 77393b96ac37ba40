// StepTrace: when the host worked on each of the last steps, and when the device did, for
// `quire-bench timeline`. It is a ring made before serving; off (a null pointer in EngineConfig)
// unless a tool owns one. Only the engine's thread writes it; read it when the engine is gone.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace quire {

// In the order of a step's life: the scheduler's decision (with the events it brings), metadata,
// copies and launches, masks and the launches of sampling, waiting for the device, committing the
// results, handing them out.
enum class StepStage : uint8_t { kSchedule, kBuild, kSubmit, kSample, kWait, kCommit, kDeliver };
inline constexpr int kNumStepStages = 7;

struct StepTiming {
  struct Span {
    int64_t begin_ns = 0;  // on the steady clock
    int64_t end_ns = 0;
  };
  bool used = false;
  uint64_t step = 0;
  int64_t num_seqs = 0;
  int64_t num_tokens = 0;
  std::array<Span, kNumStepStages> host = {};
  double device_begin_us = 0;  // since the runner was made
  double device_end_us = 0;
};

class StepTrace {
 public:
  explicit StepTrace(size_t num_steps) : ring_(num_steps) {}

  // The entry of a step, emptied if it belonged to an older step.
  StepTiming& At(uint64_t step) {
    StepTiming& timing = ring_[step % ring_.size()];
    if (!timing.used || timing.step != step) {
      timing = {};
      timing.used = true;
      timing.step = step;
    }
    return timing;
  }
  const std::vector<StepTiming>& ring() const { return ring_; }

 private:
  std::vector<StepTiming> ring_;
};

// The host's stages one after another: each ends where the next begins. Does nothing without a
// trace.
class StepClock {
 public:
  explicit StepClock(StepTrace* trace) : trace_(trace), begin_ns_(Now()) {}
  void End(uint64_t step, StepStage stage) {
    if (trace_ == nullptr) return;
    const int64_t now_ns = Now();
    trace_->At(step).host[static_cast<size_t>(stage)] = {begin_ns_, now_ns};
    begin_ns_ = now_ns;
  }

 private:
  int64_t Now() const {
    if (trace_ == nullptr) return 0;
    return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  }

  StepTrace* const trace_;
  int64_t begin_ns_;
};

}  // namespace quire
