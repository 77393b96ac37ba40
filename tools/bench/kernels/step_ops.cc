#include "tools/bench/kernels/step_ops.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>

#include "engine/model/attention_shapes.h"
#include "engine/model/linear_groups.h"
#include "engine/state_plan.h"
#include "kernels/base/status_macros.h"
#include "tools/bench/interrupt.h"

namespace quire::bench {

namespace {

// The limits that steps of several shapes, one at a time, need at most.
struct ShapeLimits {
  AttentionLimits attention = {
      .max_num_seqs = 0, .max_num_batched_tokens = 0, .max_blocks_per_seq = 0};
  int64_t num_blocks = 0;
};

// Sets the limits of `plan`, too.
ShapeLimits SetLimits(const std::vector<StepShape>& shapes, StartPlan* plan) {
  ShapeLimits limits;
  AttentionLimits& most = limits.attention;
  plan->model.max_model_len = 0;
  for (const StepShape& shape : shapes) {
    const int64_t num_seqs = shape.num_seqs;
    const int64_t blocks_per_seq = CeilDiv<int64_t>(shape.seq_len, plan->kv_layout.block_size);
    most.max_num_seqs = std::max<int64_t>(most.max_num_seqs, num_seqs);
    most.max_num_batched_tokens =
        std::max<int64_t>(most.max_num_batched_tokens, num_seqs * shape.query_len);
    most.max_blocks_per_seq = std::max<int64_t>(most.max_blocks_per_seq, blocks_per_seq);
    limits.num_blocks = std::max(limits.num_blocks, num_seqs * blocks_per_seq);
    plan->model.max_model_len = std::max<int64_t>(plan->model.max_model_len, shape.seq_len);
  }
  plan->step = {.max_num_seqs = most.max_num_seqs,
                .max_num_batched_tokens = most.max_num_batched_tokens};
  return limits;
}

}  // namespace

absl::StatusOr<StartPlan> StepOps::Plan(Backend& backend, EngineConfig config) {
  config.load_format = LoadFormat::kDummy;
  ASSIGN_OR_RETURN(const DeviceFacts device, FactsOf(backend));
  return PlanStart(config, device);
}

int64_t StepOps::BytesFor(StartPlan plan, const std::vector<StepShape>& shapes) {
  const ShapeLimits limits = SetLimits(shapes, &plan);
  const int64_t bytes = plan.weights.bytes + plan.kv_layout.BlockBytes() * limits.num_blocks +
                        plan.step.max_num_seqs * BytesPerSlot(plan.state_layout) +
                        Decoder::BytesFor(plan.model.config, plan.model.dtype,
                                          DecoderLimitsFor(plan, plan.model.max_model_len));
  return bytes + bytes / 20;
}

absl::StatusOr<std::unique_ptr<StepOps>> StepOps::Create(GraphTimer& timer,
                                                         const EngineConfig& config,
                                                         const StartPlan& plan,
                                                         const std::vector<StepShape>& shapes,
                                                         uint64_t seed, Progress* progress) {
  std::unique_ptr<StepOps> ops(new StepOps(timer, plan, seed, progress));
  RETURN_IF_ERROR(ops->Open(config, shapes));
  return ops;
}

absl::Status StepOps::Open(const EngineConfig& config, const std::vector<StepShape>& shapes) {
  const ShapeLimits shape_limits = SetLimits(shapes, &plan_);
  const AttentionLimits& limits = shape_limits.attention;
  block_table_stride_ = limits.max_blocks_per_seq;
  ASSIGN_OR_RETURN(Weights weights, Weights::Load(recorder_, model(), config.model_folder,
                                                  {.format = LoadFormat::kDummy,
                                                   .dtype = dtype(),
                                                   .seed = config.seed,
                                                   .num_threads = config.num_threads}));
  weights_ = std::make_unique<Weights>(std::move(weights));
  RETURN_IF_ERROR(OpenCache(limits, shape_limits.num_blocks));
  ASSIGN_OR_RETURN(decoder_, Decoder::Create(recorder_, model(), *weights_, dtype(),
                                             DecoderLimitsFor(plan_, plan_.model.max_model_len)));
  return recorder_.weight_store().Tune(
      timer_.stream(), LinearGroups(*weights_, limits.max_num_batched_tokens, limits.max_num_seqs),
      config.progress);
}

absl::Status StepOps::OpenCache(const AttentionLimits& limits, int64_t num_blocks) {
  Device& device = timer_.backend().device();
  const KvLayout& layout = plan_.kv_layout;
  // Any two groups may share blocks: this is about time, not values.
  ASSIGN_OR_RETURN(KvArena arena, KvArena::Allocate(device, layout, num_blocks));
  arena_ = std::make_unique<KvArena>(std::move(arena));
  ASSIGN_OR_RETURN(state_arena_,
                   StateArena::Allocate(device, plan_.state_layout, limits.max_num_seqs));
  const auto num_layers = static_cast<int>(layout.groups[0].layers.size());
  ProgressStage stage(progress_, "filling the KV cache", arena_->size_bytes(),
                      ProgressUnit::kBytes);
  for (int i = 0; i < num_layers; ++i) {
    const KvCacheView view = arena_->LayerView(layout.groups[0].layers[i]);
    timer_.FillRandom(view.k.data, view.dtype, num_blocks * view.k.block_stride, seed_ + i);
    RETURN_IF_ERROR(timer_.stream().Synchronize());
    stage.Add(arena_->size_bytes() / num_layers);
    if (Interrupted()) return absl::CancelledError("interrupted");
  }
  for (const AttentionGeometry& geometry : MakeGeometries(model(), layout, dtype())) {
    ASSIGN_OR_RETURN(auto plan,
                     recorder_.attention(AttentionPath::kNative)->CreatePlan(geometry, limits));
    plans_.push_back(std::move(plan));
  }
  return timer_.stream().Synchronize();
}

absl::Status StepOps::UploadBatch(const StepShape& shape) {
  const int32_t num_tokens = shape.num_seqs * shape.query_len;
  const int64_t stride = block_table_stride_;
  const int32_t block_size = plan_.kv_layout.block_size;
  const int64_t blocks_of_seq = CeilDiv<int64_t>(shape.seq_len, block_size);
  std::mt19937_64 random(seed_);
  std::vector<BlockId> shuffled(shape.num_seqs * blocks_of_seq);
  std::iota(shuffled.begin(), shuffled.end(), 0);
  std::shuffle(shuffled.begin(), shuffled.end(), random);
  std::vector<BlockId> tables(shape.num_seqs * stride, kNoBlock);
  std::vector<int32_t> ids, cu_seqlens_q = {0}, rows, logit_indices;
  std::vector<int64_t> positions, slots;
  for (int32_t i = 0; i < shape.num_seqs; ++i) {
    const BlockId* blocks = shuffled.data() + i * blocks_of_seq;
    std::copy_n(blocks, blocks_of_seq, tables.begin() + i * stride);
    for (int64_t position = shape.seq_len - shape.query_len; position < shape.seq_len; ++position) {
      ids.push_back(static_cast<int32_t>(random() % model().vocab_size));
      positions.push_back(position);
      slots.push_back(int64_t{blocks[position / block_size]} * block_size + position % block_size);
    }
    cu_seqlens_q.push_back((i + 1) * shape.query_len);
    rows.push_back(i);
    logit_indices.push_back((i + 1) * shape.query_len - 1);
  }
  const std::vector<int32_t> seq_lens(shape.num_seqs, shape.seq_len);
  ASSIGN_OR_RETURN(ids_, timer_.Upload(ids));
  ASSIGN_OR_RETURN(positions_, timer_.Upload(positions));
  ASSIGN_OR_RETURN(slots_, timer_.Upload(slots));
  ASSIGN_OR_RETURN(tables_, timer_.Upload(tables));
  ASSIGN_OR_RETURN(cu_seqlens_q_, timer_.Upload(cu_seqlens_q));
  ASSIGN_OR_RETURN(seq_lens_, timer_.Upload(seq_lens));
  ASSIGN_OR_RETURN(rows_, timer_.Upload(rows));
  // Each goes on from its own state.
  std::vector<StateAccess> states;
  states.reserve(rows.size());
  for (const int32_t row : rows) states.push_back({.read = row, .write = row});
  ASSIGN_OR_RETURN(state_accesses_, timer_.Upload(states));
  ASSIGN_OR_RETURN(last_token_, timer_.Upload(rows));
  ASSIGN_OR_RETURN(logit_indices_, timer_.Upload(logit_indices));
  recorder_.SetLengths({std::vector<int32_t>(shape.num_seqs, shape.query_len), seq_lens});
  CHECK_EQ(static_cast<int32_t>(ids.size()), num_tokens);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<RecordedOp>> StepOps::Record(const StepShape& shape) {
  RETURN_IF_ERROR(UploadBatch(shape));
  recorder_.Take();
  DecoderInputs inputs = {.num_tokens = int64_t{shape.num_seqs} * shape.query_len,
                          .input_ids = ids_.as<int32_t>(),
                          .row_last_token = last_token_.as<int32_t>(),
                          .positions = positions_.as<int64_t>(),
                          .slot_mapping = {},
                          .plans = {},
                          .logits_indices = logit_indices_.as<int32_t>(),
                          .num_logit_rows = shape.num_seqs,
                          .states = {.num_seqs = shape.num_seqs,
                                     .num_decodes = shape.query_len == 1 ? shape.num_seqs : 0,
                                     .cu_seqlens_q = cu_seqlens_q_.as<int32_t>(),
                                     .seq_lens = seq_lens_.as<int32_t>(),
                                     .sequences = state_accesses_.as<StateAccess>(),
                                     .snapshots = nullptr}};
  for (const auto& plan : plans_) {
    plan->PlanStep(timer_.stream(), {.num_seqs = shape.num_seqs,
                                     .num_tokens = shape.num_seqs * shape.query_len,
                                     .num_decodes = shape.query_len == 1 ? shape.num_seqs : 0,
                                     .cu_seqlens_q = cu_seqlens_q_.as<int32_t>(),
                                     .seq_lens = seq_lens_.as<int32_t>(),
                                     .seq_rows = rows_.as<int32_t>(),
                                     .block_tables = tables_.as<BlockId>(),
                                     .block_table_stride = block_table_stride_});
    inputs.slot_mapping.push_back(slots_.as<int64_t>());
    inputs.plans.push_back(plan.get());
  }
  decoder_->Forward(timer_.stream(), inputs, *arena_, state_arena_);
  RETURN_IF_ERROR(EnqueueSampling(shape));
  RETURN_IF_ERROR(timer_.stream().Synchronize());
  return recorder_.Take();
}

// Greedy, as in the throughput workloads.
absl::Status StepOps::EnqueueSampling(const StepShape& shape) {
  const int64_t num_rows = shape.num_seqs;
  std::vector<SamplingRow> sampling(num_rows);
  for (int64_t i = 0; i < num_rows; ++i) {
    sampling[i].row = static_cast<int32_t>(i);
    sampling[i].temperature = 0;
  }
  Device& device = timer_.backend().device();
  ASSIGN_OR_RETURN(sampling_, timer_.Upload(sampling));
  ASSIGN_OR_RETURN(counts_, device.Allocate(4));
  ASSIGN_OR_RETURN(sampled_, device.Allocate(num_rows * (4 + 2 * kMaxLogprobs) * 4));
  auto* words = sampled_.as<int32_t>();
  recorder_.ops().Sample(
      timer_.stream(),
      {.logits = decoder_->Logits(timer_.stream(), 0, num_rows),
       .rows = sampling_.as<SamplingRow>(),
       .bias = nullptr,
       .token_masks = nullptr,
       .token_counts = counts_.as<int32_t>(),
       .row_last_token = last_token_.as<int32_t>(),
       .sampled_ids = words,
       .sampled_logprobs = reinterpret_cast<float*>(words + num_rows),
       .sampled_ranks = words + 2 * num_rows,
       .top_ids = words + 3 * num_rows,
       .top_logprobs = reinterpret_cast<float*>(words + (3 + kMaxLogprobs) * num_rows)});
  return absl::OkStatus();
}

}  // namespace quire::bench
