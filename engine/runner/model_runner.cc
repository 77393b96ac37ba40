#include "engine/runner/model_runner.h"

#include <algorithm>
#include <utility>

#include "kernels/base/check.h"
#include "kernels/base/status_macros.h"

namespace quire {

ModelRunner::ModelRunner(Backend& backend, Decoder& decoder, KvArena& kv_arena,
                         const StateArena& state_arena, const ModelRunnerConfig& config)
    : backend_(backend),
      decoder_(decoder),
      kv_arena_(kv_arena),
      state_arena_(state_arena),
      config_(config),
      metadata_bytes_(BatchLayout(MaxShape(config.limits)).size_bytes()),
      builder_(config.limits, UniformSizes(config.captured_query_lens, config.limits)),
      token_masks_(TokenMasks::UsefulThreads(backend.device().info().num_threads)) {}

ModelRunner::~ModelRunner() {
  if (stream_ != nullptr) stream_->Synchronize().IgnoreError();
}

absl::StatusOr<std::unique_ptr<ModelRunner>> ModelRunner::Create(
    Backend& backend, const AttentionPaths& attention, Decoder& decoder, KvArena& kv_arena,
    const StateArena& state_arena, const ModelRunnerConfig& config) {
  std::unique_ptr<ModelRunner> runner(
      new ModelRunner(backend, decoder, kv_arena, state_arena, config));
  ASSIGN_OR_RETURN(runner->stream_, backend.device().CreateStream());
  RETURN_IF_ERROR(runner->AllocateDeviceMemory());
  RETURN_IF_ERROR(runner->AllocateStepBuffers());
  if (config.trace != nullptr) {
    ASSIGN_OR_RETURN(runner->trace_origin_, backend.device().CreateEvent(/*timed=*/true));
    runner->stream_->Record(*runner->trace_origin_);
  }
  RETURN_IF_ERROR(runner->CreatePlans(attention));
  RETURN_IF_ERROR(runner->CaptureSteps());
  RETURN_IF_ERROR(runner->stream_->Synchronize());
  return runner;
}

absl::Status ModelRunner::CreatePlans(const AttentionPaths& attention) {
  const AttentionLimits limits = {.max_num_seqs = config_.limits.max_num_seqs,
                                  .max_num_batched_tokens = config_.limits.max_num_batched_tokens,
                                  .max_blocks_per_seq = config_.limits.max_blocks_per_seq};
  ASSIGN_OR_RETURN(plans_,
                   CreatePhasedPlans(backend_.device(), attention, config_.attention, limits));
  return absl::OkStatus();
}

absl::Status ModelRunner::CaptureSteps() {
  const std::vector<UniformSize>& sizes = builder_.uniform_sizes();
  if (sizes.empty()) return absl::OkStatus();
  // The first step has only padding: libraries load code at their first call, and a graph must not
  // capture that.
  StepBuffers& buffers = step_buffers_[0];
  const BatchMetadata padding = builder_.BuildPadding(/*index=*/0, buffers.metadata.data());
  stream_->CopyToDevice(metadata_.data(), buffers.metadata.data(),
                        BatchLayout(padding.shape).size_bytes());
  EnqueueUniform(sizes[0]);
  EnqueueSampling(FullUniformBatch(config_.limits, sizes[0]));
  RETURN_IF_ERROR(stream_->Synchronize());
  return graphs_.CaptureAtStart(
      backend_.device(), *stream_, sizes, [this](UniformSize size) { EnqueueUniform(size); },
      config_.progress);
}

int64_t ModelRunner::OutputBytes(const BatchLimits& limits) {
  return limits.max_logit_rows() * 4 * (3 + 2 * kMaxLogprobs);
}

// Room for the tokens of one whole sequence and for a full buffer of block updates, and so much
// that the new rows of a usual step travel without a wait.
int64_t ModelRunner::StagingBytes(const ModelRunnerConfig& config) {
  constexpr int64_t kUsualBytes = int64_t{4} << 20;
  const int64_t sequence_bytes = config.max_model_len * int64_t{sizeof(TokenId)};
  const int64_t updates_bytes =
      config.limits.max_block_updates * static_cast<int64_t>(sizeof(BlockTableUpdate));
  const int64_t all_bytes = config.limits.max_num_seqs * sequence_bytes + updates_bytes;
  return std::max({sequence_bytes, updates_bytes, std::min(kUsualBytes, all_bytes)});
}

int64_t ModelRunner::BytesFor(const ModelRunnerConfig& config) {
  const BatchLimits& limits = config.limits;
  return BatchLayout(MaxShape(limits)).size_bytes() + OutputBytes(limits) +
         4 * (limits.num_groups * limits.max_num_seqs * limits.max_blocks_per_seq +
              limits.max_num_seqs + limits.max_num_seqs * config.vocab_size +
              limits.max_num_seqs * MaskWords(config.vocab_size)) +
         StagingBytes(config);
}

int64_t ModelRunner::PinnedBytesFor(const ModelRunnerConfig& config) {
  return kMaxInFlight *
         (BatchLayout(MaxShape(config.limits)).size_bytes() + OutputBytes(config.limits) +
          StagingBytes(config) + 4 * config.limits.max_num_seqs * MaskWords(config.vocab_size));
}

int64_t ModelRunner::size_bytes() const {
  return metadata_.size_bytes() + block_tables_.size_bytes() + row_last_token_.size_bytes() +
         token_counts_.size_bytes() + masks_.size_bytes() + staging_.size_bytes() +
         outputs_.size_bytes();
}

absl::Status ModelRunner::AllocateDeviceMemory() {
  Device& device = backend_.device();
  const BatchLimits& limits = config_.limits;
  ASSIGN_OR_RETURN(metadata_, device.Allocate(metadata_bytes_));
  ASSIGN_OR_RETURN(outputs_, device.Allocate(OutputBytes(limits)));
  ASSIGN_OR_RETURN(block_tables_, device.Allocate(4 * limits.num_groups * limits.max_num_seqs *
                                                  limits.max_blocks_per_seq));
  ASSIGN_OR_RETURN(row_last_token_, device.Allocate(4 * limits.max_num_seqs));
  ASSIGN_OR_RETURN(token_counts_, device.Allocate(4 * limits.max_num_seqs * config_.vocab_size));
  ASSIGN_OR_RETURN(masks_, device.Allocate(limits.max_num_seqs * MaskBytes()));
  ASSIGN_OR_RETURN(staging_, device.Allocate(StagingBytes(config_)));
  stream_->FillZero(row_last_token_.data(), row_last_token_.size_bytes());
  return absl::OkStatus();
}

absl::Status ModelRunner::AllocateStepBuffers() {
  Device& device = backend_.device();
  step_buffers_.resize(kMaxInFlight);
  for (StepBuffers& buffers : step_buffers_) {
    ASSIGN_OR_RETURN(buffers.metadata, device.AllocatePinned(metadata_bytes_));
    RETURN_IF_ERROR(buffers.staging.Allocate(device, staging_.size_bytes()));
    ASSIGN_OR_RETURN(buffers.masks, device.AllocatePinned(masks_.size_bytes()));
    ASSIGN_OR_RETURN(buffers.outputs, device.AllocatePinned(outputs_.size_bytes()));
    if (!decoder_.expert_counts().empty()) {
      ASSIGN_OR_RETURN(buffers.expert_counts, device.AllocatePinned(ExpertCountBytes()));
    }
    ASSIGN_OR_RETURN(buffers.done, device.CreateEvent(/*timed=*/config_.trace != nullptr));
    if (config_.trace != nullptr) {
      ASSIGN_OR_RETURN(buffers.begun, device.CreateEvent(/*timed=*/true));
    }
  }
  return absl::OkStatus();
}

ModelRunner::OutputArrays ModelRunner::OutputsAt(void* base) const {
  const int64_t rows = config_.limits.max_logit_rows();
  auto* words = static_cast<int32_t*>(base);
  OutputArrays arrays;
  arrays.ids = words;
  arrays.logprobs = reinterpret_cast<float*>(words + rows);
  arrays.ranks = words + 2 * rows;
  arrays.top_ids = words + 3 * rows;
  arrays.top_logprobs = reinterpret_cast<float*>(words + (3 + kMaxLogprobs) * rows);
  return arrays;
}

void ModelRunner::Submit(const SchedulerOutput& output) {
  CHECK_LT(num_in_flight_, kMaxInFlight);
  StepBuffers& buffers = step_buffers_[next_buffers_];
  next_buffers_ = (next_buffers_ + 1) % kMaxInFlight;
  ++num_in_flight_;
  buffers.step = output.step;
  StepClock stage(config_.trace);
  buffers.staging.Reset();
  buffers.batch = builder_.Build(
      output, buffers.metadata.data(), [&](absl::Span<const BlockTableUpdate> updates) {
        UpdateBlockTables(buffers.staging.Send(*stream_, updates, staging_),
                          static_cast<int64_t>(updates.size()));
      });
  stage.End(output.step, StepStage::kBuild);
  if (buffers.begun != nullptr) stream_->Record(*buffers.begun);
  ResetNewRows(output, buffers);
  const BatchLayout layout(buffers.batch.shape);
  stream_->CopyToDevice(metadata_.data(), buffers.metadata.data(), layout.size_bytes());
  const int size = buffers.batch.uniform_size;
  const ExecGraph* graph = graphs_.Find(size);
  if (graph != nullptr) {
    stream_->Launch(*graph);
  } else if (size >= 0) {
    EnqueueUniform(builder_.uniform_sizes()[size]);
  } else {
    EnqueueForward(buffers.batch);
  }
  stage.End(output.step, StepStage::kSubmit);
}

void ModelRunner::Sample() {
  StepBuffers& buffers = step_buffers_[(next_buffers_ + kMaxInFlight - 1) % kMaxInFlight];
  StepClock stage(config_.trace);
  SendMasks(buffers);
  EnqueueSampling(buffers.batch);
  CopyOutputs(buffers);
  stream_->Record(*buffers.done);
  // Only now, so that the device has the whole step to run meanwhile.
  const int size = buffers.batch.uniform_size;
  if (size >= 0 && graphs_.Find(size) == nullptr) {
    graphs_.CaptureLate(*stream_, size, builder_.uniform_sizes()[size],
                        [this](UniformSize uniform) { EnqueueUniform(uniform); });
  }
  stage.End(buffers.step, StepStage::kSample);
}

void ModelRunner::SendMasks(StepBuffers& buffers) {
  const absl::Span<TokenConstraint* const> constraints = buffers.batch.constraints;
  if (constraints.empty()) return;
  token_masks_.Fill(constraints, buffers.masks.as<uint32_t>(), MaskWords(config_.vocab_size));
  stream_->CopyToDevice(masks_.data(), buffers.masks.data(),
                        static_cast<int64_t>(constraints.size()) * MaskBytes());
}

void ModelRunner::ResetNewRows(const SchedulerOutput& output, StepBuffers& buffers) {
  for (const ScheduledSequence& sequence : output.sequences) {
    const SamplingParams& sampling = sequence.request->sampling;
    SamplingRow row;
    row.repetition_penalty = sampling.repetition_penalty;
    row.presence_penalty = sampling.presence_penalty;
    row.frequency_penalty = sampling.frequency_penalty;
    if (!sequence.row_is_new || !UsesPenalties(row)) continue;
    backend_.ops().ResetTokenCounts(
        *stream_, {.row = sequence.row,
                   .tokens = buffers.staging.Send(*stream_, sequence.tokens, staging_),
                   .num_tokens = static_cast<int64_t>(sequence.tokens.size()),
                   .num_prompt_tokens = sequence.num_prompt_tokens,
                   .token_counts = token_counts_.as<int32_t>(),
                   .vocab_size = config_.vocab_size});
  }
}

void ModelRunner::UpdateBlockTables(const BlockTableUpdate* device_updates, int64_t num_updates) {
  if (num_updates == 0) return;
  backend_.ops().UpdateBlockTables(*stream_,
                                   {.updates = device_updates,
                                    .num_updates = num_updates,
                                    .block_tables = block_tables_.as<BlockId>(),
                                    .max_num_seqs = config_.limits.max_num_seqs,
                                    .max_blocks_per_seq = config_.limits.max_blocks_per_seq});
}

void ModelRunner::EnqueueForward(const BatchMetadata& batch) {
  const BatchLimits& limits = config_.limits;
  const BatchArrays arrays = BatchLayout(batch.shape).At(metadata_.data());
  UpdateBlockTables(arrays.block_updates, batch.num_block_updates);
  DecoderInputs inputs = {.num_tokens = batch.num_tokens,
                          .input_ids = arrays.input_ids,
                          .row_last_token = row_last_token_.as<int32_t>(),
                          .positions = arrays.positions,
                          .slot_mapping = {},
                          .plans = {},
                          .logits_indices = arrays.logits_indices,
                          .num_logit_rows = batch.num_logit_rows,
                          .states = {.num_seqs = batch.num_seqs,
                                     .num_decodes = batch.num_decodes,
                                     .cu_seqlens_q = arrays.cu_seqlens_q,
                                     .seq_lens = arrays.seq_lens,
                                     .sequences = arrays.states,
                                     .snapshots = arrays.snapshots}};
  SharedPrefixes prefixes;
  if (batch.shape.num_prefix_groups > 0) {
    prefixes = {.num_groups = static_cast<int32_t>(batch.shape.num_prefix_groups),
                .cu_seqlens_q = arrays.prefix_cu_seqlens_q,
                .prefix_lens = arrays.prefix_lens,
                .prefix_rows = arrays.prefix_rows,
                .first_blocks = arrays.first_blocks,
                .seq_lens = arrays.rest_lens};
  }
  for (int group = 0; group < limits.num_groups; ++group) {
    plans_[group]->PlanStep(
        *stream_, {.num_seqs = batch.num_seqs,
                   .num_tokens = batch.num_tokens,
                   .num_decodes = batch.num_decodes,
                   .cu_seqlens_q = arrays.cu_seqlens_q,
                   .seq_lens = arrays.seq_lens,
                   .seq_rows = arrays.seq_rows,
                   .block_tables = block_tables_.as<BlockId>() +
                                   group * limits.max_num_seqs * limits.max_blocks_per_seq,
                   .block_table_stride = limits.max_blocks_per_seq,
                   .prefixes = prefixes});
    inputs.slot_mapping.push_back(arrays.slot_mapping + group * batch.shape.num_tokens);
    inputs.plans.push_back(plans_[group].get());
  }
  decoder_.Forward(*stream_, inputs, kv_arena_, state_arena_);
  if (batch.num_logit_rows > 0) decoder_.Logits(*stream_, 0, LogitTile(batch, 0));
}

void ModelRunner::EnqueueSampling(const BatchMetadata& batch) {
  const BatchArrays arrays = BatchLayout(batch.shape).At(metadata_.data());
  const OutputArrays outputs = OutputsAt(outputs_.data());
  // Rows that score, behind those that sample, take turns with the logits' memory.
  for (int64_t first = 0; first < batch.num_logit_rows; first += config_.limits.max_num_seqs) {
    const int64_t num_rows = LogitTile(batch, first);
    const Tensor logits =
        first == 0 ? decoder_.logits(num_rows) : decoder_.Logits(*stream_, first, num_rows);
    backend_.ops().Sample(*stream_, {.logits = logits,
                                     .rows = arrays.sampling + first,
                                     .bias = arrays.bias,
                                     .token_masks = masks_.as<uint32_t>(),
                                     .token_counts = token_counts_.as<int32_t>(),
                                     .row_last_token = row_last_token_.as<int32_t>(),
                                     .sampled_ids = outputs.ids + first,
                                     .sampled_logprobs = outputs.logprobs + first,
                                     .sampled_ranks = outputs.ranks + first,
                                     .top_ids = outputs.top_ids + first * kMaxLogprobs,
                                     .top_logprobs = outputs.top_logprobs + first * kMaxLogprobs});
  }
}

int64_t ModelRunner::ExpertCountBytes() const {
  return decoder_.expert_counts().num_elements() * static_cast<int64_t>(sizeof(int64_t));
}

void ModelRunner::CopyOutputs(StepBuffers& buffers) {
  if (const Tensor& counts = decoder_.expert_counts(); !counts.empty()) {
    stream_->CopyToHost(buffers.expert_counts.data(), counts.data(), ExpertCountBytes());
  }
  const int64_t rows = buffers.batch.num_logit_rows;
  if (rows == 0) return;
  const OutputArrays device = OutputsAt(outputs_.data());
  const OutputArrays host = OutputsAt(buffers.outputs.data());
  stream_->CopyToHost(host.ids, device.ids, 4 * rows);
  if (!buffers.batch.any_logprobs) return;
  stream_->CopyToHost(host.logprobs, device.logprobs, 4 * rows);
  stream_->CopyToHost(host.ranks, device.ranks, 4 * rows);
  stream_->CopyToHost(host.top_ids, device.top_ids, 4 * rows * kMaxLogprobs);
  stream_->CopyToHost(host.top_logprobs, device.top_logprobs, 4 * rows * kMaxLogprobs);
}

TokenLogprobs ModelRunner::LogprobsOfRow(const OutputArrays& outputs, int32_t row,
                                         int32_t num_top) const {
  TokenLogprobs logprobs;
  logprobs.logprob = outputs.logprobs[row];
  logprobs.rank = outputs.ranks[row];
  const int64_t first = int64_t{row} * kMaxLogprobs;
  const int64_t count = std::min<int64_t>({num_top, kMaxLogprobs, config_.vocab_size});
  for (int64_t i = 0; i < count; ++i) {
    logprobs.top.emplace_back(outputs.top_ids[first + i], outputs.top_logprobs[first + i]);
  }
  return logprobs;
}

SequenceResult ModelRunner::ResultOf(const LogitRows& rows, const SamplingRow* sampling,
                                     const OutputArrays& outputs) const {
  SequenceResult result;
  const int32_t* scored = outputs.ids + rows.first_scored;
  if ((rows.sampled >= 0 && outputs.ids[rows.sampled] == kBrokenLogitsId) ||
      std::find(scored, scored + rows.num_scored, kBrokenLogitsId) != scored + rows.num_scored) {
    result.is_broken = true;
    return result;
  }
  if (rows.sampled >= 0) {
    SampledToken& sample = result.samples.emplace_back();
    sample.id = outputs.ids[rows.sampled];
    const int32_t num_top = sampling[rows.sampled].num_logprobs;
    if (num_top >= 0) {
      sample.logprobs =
          std::make_unique<TokenLogprobs>(LogprobsOfRow(outputs, rows.sampled, num_top));
    }
  }
  for (int32_t row = rows.first_scored; row < rows.first_scored + rows.num_scored; ++row) {
    result.prompt_logprobs.emplace_back(sampling[row].target,
                                        LogprobsOfRow(outputs, row, sampling[row].num_logprobs));
  }
  return result;
}

void ModelRunner::TraceDevice(const StepBuffers& buffers) {
  StepTiming& timing = config_.trace->At(buffers.step);
  timing.num_seqs = buffers.batch.num_seqs;
  timing.num_tokens = buffers.batch.num_tokens;
  timing.device_begin_us = buffers.begun->MicrosecondsSince(*trace_origin_);
  timing.device_end_us = buffers.done->MicrosecondsSince(*trace_origin_);
}

absl::StatusOr<StepResult> ModelRunner::Wait() {
  CHECK_GT(num_in_flight_, 0);
  StepBuffers& buffers =
      step_buffers_[(next_buffers_ + kMaxInFlight - num_in_flight_) % kMaxInFlight];
  --num_in_flight_;
  RETURN_IF_ERROR(buffers.done->Wait());
  if (config_.trace != nullptr) TraceDevice(buffers);
  if (!decoder_.expert_counts().empty()) expert_counts_ = buffers.expert_counts.as<int64_t>();
  const OutputArrays outputs = OutputsAt(buffers.outputs.data());
  const BatchArrays staged = BatchLayout(buffers.batch.shape).At(buffers.metadata.data());
  StepResult result;
  result.step = buffers.step;
  result.sequences.reserve(buffers.batch.logit_rows.size());
  for (const LogitRows& rows : buffers.batch.logit_rows) {
    result.sequences.push_back(ResultOf(rows, staged.sampling, outputs));
  }
  return result;
}

}  // namespace quire
