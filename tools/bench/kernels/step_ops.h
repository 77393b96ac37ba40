// StepOps: the operations of one step of a model, recorded from the decoder itself. The step is a
// batch of decodes at a context, or a prefill chunk. Its tokens and its cache are random.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/engine_config.h"
#include "engine/model/decoder.h"
#include "engine/start_plan.h"
#include "kernels/base/progress.h"
#include "tools/bench/kernels/graph_timer.h"
#include "tools/bench/kernels/op_recorder.h"

namespace quire::bench {

struct StepShape {
  int32_t num_seqs;
  int32_t query_len;  // tokens of each in this step
  int32_t seq_len;    // those included
};

class StepOps {
 public:
  // The plan by which the engine would serve the model with random weights. Errors as in
  // Engine::Open.
  static absl::StatusOr<StartPlan> Plan(Backend& backend, EngineConfig config);
  // About the device memory that Create needs: 5 % more than can be counted.
  static int64_t BytesFor(StartPlan plan, const std::vector<StepShape>& shapes);
  // A model for steps up to the largest of `shapes`. `seed` is for their tokens and cache. Errors
  // as in Engine::Open; CANCELLED once Interrupted().
  static absl::StatusOr<std::unique_ptr<StepOps>> Create(GraphTimer& timer,
                                                         const EngineConfig& config,
                                                         const StartPlan& plan,
                                                         const std::vector<StepShape>& shapes,
                                                         uint64_t seed, Progress* progress);
  // Runs the step once. The recorded operations may run again until the next call.
  absl::StatusOr<std::vector<RecordedOp>> Record(const StepShape& shape);
  const ModelConfig& model() const { return plan_.model.config; }
  DType dtype() const { return plan_.model.dtype; }

 private:
  StepOps(GraphTimer& timer, const StartPlan& plan, uint64_t seed, Progress* progress)
      : timer_(timer), plan_(plan), seed_(seed), progress_(progress), recorder_(timer.backend()) {}
  absl::Status Open(const EngineConfig& config, const std::vector<StepShape>& shapes);
  absl::Status OpenCache(const AttentionLimits& limits, int64_t num_blocks);
  absl::Status UploadBatch(const StepShape& shape);
  absl::Status EnqueueSampling(const StepShape& shape);

  GraphTimer& timer_;
  StartPlan plan_;
  const uint64_t seed_;
  Progress* const progress_;  // of making weights and cache
  OpRecorder recorder_;
  int64_t block_table_stride_ = 0;
  std::unique_ptr<Weights> weights_;
  std::unique_ptr<KvArena> arena_;
  StateArena state_arena_;  // a slot for each sequence; what they hold does not matter
  std::vector<std::unique_ptr<AttentionPlan>> plans_;  // per layer group
  std::unique_ptr<Decoder> decoder_;
  // The step's metadata, and what sampling writes.
  DeviceBuffer ids_, last_token_, positions_, slots_, tables_, cu_seqlens_q_, seq_lens_, rows_;
  DeviceBuffer logit_indices_, state_accesses_, sampling_, counts_, sampled_;
};

}  // namespace quire::bench
