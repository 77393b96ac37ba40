// ModelRunner: carries out the scheduler's decisions. Submit stages a step's metadata, sends it to
// the device in one copy and enqueues the forward pass; Sample enqueues the rest; Wait blocks until
// the results are on the host. Two steps may be submitted before the first is waited for
// (lookahead); sampled ids stay on the device meanwhile. Between Submit and Sample the engine may
// make the step before true: what constrains a row then knows the token before, and its mask is
// made while the device computes. Create allocates all memory, except the memory of graphs that are
// captured late. Engine thread; knows nothing of Sequence or of text.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/decoder.h"
#include "engine/runner/batch.h"
#include "engine/runner/batch_builder.h"
#include "engine/runner/phased_plan.h"
#include "engine/runner/staging_area.h"
#include "engine/runner/step_graphs.h"
#include "engine/runner/step_trace.h"
#include "engine/runner/token_masks.h"
#include "kernels/backend.h"
#include "kvcache/kv_arena.h"
#include "kvcache/state_arena.h"
#include "scheduler/scheduler_output.h"

namespace quire {

struct ModelRunnerConfig {
  BatchLimits limits;
  int64_t max_model_len = 0;
  int64_t vocab_size = 0;
  std::vector<AttentionGeometry> attention;  // of each layer group
  StepTrace* trace = nullptr;                // outlives the runner
  // Uniform steps of these query lengths (ascending) are padded, captured and replayed.
  std::vector<int32_t> captured_query_lens;
  Progress* progress = nullptr;  // of the capture
};

class ModelRunner {
 public:
  static constexpr int kMaxInFlight = 2;

  // RESOURCE_EXHAUSTED when the device has no room. The decoder, the arenas and the attention paths
  // must outlive the runner. The cache's blocks may still be without memory.
  static absl::StatusOr<std::unique_ptr<ModelRunner>> Create(Backend& backend,
                                                             const AttentionPaths& attention,
                                                             Decoder& decoder, KvArena& kv_arena,
                                                             const StateArena& state_arena,
                                                             const ModelRunnerConfig& config);
  // Waits for the stream.
  ~ModelRunner();

  // Enqueues a step's forward pass. At most kMaxInFlight steps may be waiting for Wait.
  void Submit(const SchedulerOutput& output);
  // Makes the masks of the step that was submitted last, and enqueues its sampling.
  void Sample();

  // Results of the oldest submitted step; the status is a device error, after which the runner is
  // dead.
  absl::StatusOr<StepResult> Wait();

  int num_in_flight() const { return num_in_flight_; }

  // Decoder::expert_counts after the last step that Wait has returned; null if nobody counts, or
  // before the first step. Valid until the next Submit.
  const int64_t* expert_counts() const { return expert_counts_; }
  int64_t size_bytes() const;  // device memory of metadata, block tables, sampling state

  // Device memory that graphs captured while serving may take. When it is used up, steps run
  // without graphs.
  int64_t late_bytes() const { return graphs_.late_bytes(); }

  // Device and pinned bytes that Create will allocate, for the memory plan.
  static int64_t BytesFor(const ModelRunnerConfig& config);
  static int64_t PinnedBytesFor(const ModelRunnerConfig& config);

 private:
  // Pinned host memory of one step in flight. The sampling rows in `metadata` also say which
  // logprobs the results owe.
  struct StepBuffers {
    DeviceBuffer metadata;       // BatchLayout, the largest shape
    StagingArea staging;         // for pieces sent ahead of the metadata
    DeviceBuffer masks;          // uint32 [max_num_seqs, MaskWords(vocab_size)]
    DeviceBuffer outputs;        // OutputArrays
    DeviceBuffer expert_counts;  // Decoder::expert_counts
    std::unique_ptr<Event> done;
    std::unique_ptr<Event> begun;  // with a trace: before the step's first operation
    uint64_t step = 0;
    BatchMetadata batch;
  };
  // The outputs of sampling, in one buffer on each side.
  struct OutputArrays {
    int32_t* ids;         // [max_logit_rows]
    float* logprobs;      // [max_logit_rows]
    int32_t* ranks;       // [max_logit_rows]
    int32_t* top_ids;     // [max_logit_rows, kMaxLogprobs]
    float* top_logprobs;  // [max_logit_rows, kMaxLogprobs]
  };

  ModelRunner(Backend& backend, Decoder& decoder, KvArena& kv_arena, const StateArena& state_arena,
              const ModelRunnerConfig& config);
  absl::Status AllocateDeviceMemory();
  absl::Status AllocateStepBuffers();
  absl::Status CreatePlans(const AttentionPaths& attention);
  absl::Status CaptureSteps();
  OutputArrays OutputsAt(void* base) const;
  static int64_t OutputBytes(const BatchLimits& limits);
  static int64_t StagingBytes(const ModelRunnerConfig& config);

  void ResetNewRows(const SchedulerOutput& output, StepBuffers& buffers);
  void UpdateBlockTables(const BlockTableUpdate* device_updates, int64_t num_updates);
  // The forward pass, and the first rows of logits: depends only on shapes and reads everything
  // else from device memory.
  void EnqueueForward(const BatchMetadata& batch);
  // That of a step of this size, with padding if the step has fewer sequences.
  void EnqueueUniform(UniformSize size) { EnqueueForward(FullUniformBatch(config_.limits, size)); }
  void EnqueueSampling(const BatchMetadata& batch);
  void SendMasks(StepBuffers& buffers);
  int64_t MaskBytes() const { return MaskWords(config_.vocab_size) * int64_t{sizeof(uint32_t)}; }
  // Rows of logits that the decoder has room for: enough for every row that samples.
  int64_t LogitTile(const BatchMetadata& batch, int64_t first) const {
    return std::min<int64_t>(config_.limits.max_num_seqs, batch.num_logit_rows - first);
  }
  void CopyOutputs(StepBuffers& buffers);
  int64_t ExpertCountBytes() const;
  void TraceDevice(const StepBuffers& buffers);
  SequenceResult ResultOf(const LogitRows& rows, const SamplingRow* sampling,
                          const OutputArrays& outputs) const;
  TokenLogprobs LogprobsOfRow(const OutputArrays& outputs, int32_t row, int32_t num_top) const;

  Backend& backend_;
  Decoder& decoder_;
  KvArena& kv_arena_;
  const StateArena& state_arena_;
  ModelRunnerConfig config_;
  int64_t metadata_bytes_;  // of the largest shape
  BatchBuilder builder_;
  std::unique_ptr<Stream> stream_;
  std::vector<std::unique_ptr<AttentionPlan>> plans_;  // per layer group
  StepGraphs graphs_;
  TokenMasks token_masks_;

  DeviceBuffer metadata_;        // BatchLayout
  DeviceBuffer block_tables_;    // int32 [num_groups, max_num_seqs, max_blocks_per_seq]
  DeviceBuffer row_last_token_;  // int32 [max_num_seqs]
  DeviceBuffer token_counts_;    // int32 [max_num_seqs, vocab_size]
  DeviceBuffer masks_;           // uint32 [max_num_seqs, MaskWords(vocab_size)]
  DeviceBuffer staging_;         // StagingArea
  DeviceBuffer outputs_;         // OutputArrays

  std::vector<StepBuffers> step_buffers_;  // [kMaxInFlight]
  std::unique_ptr<Event> trace_origin_;
  int next_buffers_ = 0;  // of the next Submit
  int num_in_flight_ = 0;
  const int64_t* expert_counts_ = nullptr;
};

}  // namespace quire
