#include "tests/engine/model/sequence_runner.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/model/attention_shapes.h"
#include "engine/runner/kv_calibration.h"
#include "kernels/base/check.h"
#include "kernels/base/status_macros.h"

namespace quire {

namespace {

constexpr int32_t kBlockSize = 16;
constexpr int64_t kMaxLen = 2048;
constexpr int64_t kMaxBlocks = kMaxLen / kBlockSize;
constexpr int kMaxGroups = 8;
constexpr int64_t kNumStateSlots = 2;
constexpr int32_t kStateSlot = 1;

// Logits to natural-log probabilities, in place.
void LogSoftmax(absl::Span<float> row) {
  const double max = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (float logit : row) sum += std::exp(logit - max);
  for (float& logit : row) logit = static_cast<float>(logit - max - std::log(sum));
}

}  // namespace

struct SequenceRunner::Metadata {
  int32_t input_ids[kMaxLen];
  int32_t row_last_token[1];
  int64_t positions[kMaxLen];
  int64_t slot_mapping[kMaxGroups][kMaxLen];
  BlockId block_tables[kMaxGroups][kMaxBlocks];
  int32_t cu_seqlens_q[2];
  int32_t seq_lens[1];
  int32_t seq_rows[1];
  StateAccess state[1];
  int32_t logit_indices[kMaxLen];
};

absl::StatusOr<std::unique_ptr<SequenceRunner>> SequenceRunner::Create(
    const std::string& folder, const SequenceRunnerOptions& options) {
  std::unique_ptr<SequenceRunner> runner(new SequenceRunner);
  RETURN_IF_ERROR(runner->Open(folder, options));
  return runner;
}

absl::Status SequenceRunner::Open(const std::string& folder, const SequenceRunnerOptions& options) {
  if (options.max_len < 1 || options.max_len > kMaxLen) {
    return absl::InvalidArgumentError(absl::StrCat("max_len must be between 1 and ", kMaxLen));
  }
  max_len_ = options.max_len;
  replay_decodes_ = options.replay_decodes;
  ASSIGN_OR_RETURN(config_, LoadModelConfig(folder));
  if (options.adjust) options.adjust(config_);
  ASSIGN_OR_RETURN(backend_, OpenBackend({.kind = options.device}));
  ASSIGN_OR_RETURN(stream_, backend_->device().CreateStream());
  ASSIGN_OR_RETURN(Weights weights,
                   Weights::Load(*backend_, config_, folder,
                                 {.format = options.format, .dtype = options.dtype}));
  weights_ = std::make_unique<Weights>(std::move(weights));
  RETURN_IF_ERROR(OpenAttention(options));
  ASSIGN_OR_RETURN(decoder_, Decoder::Create(*backend_, config_, *weights_, options.dtype,
                                             {.max_num_batched_tokens = max_len_,
                                              .max_logit_rows = max_len_,
                                              .max_model_len = max_len_,
                                              .device = options.device}));
  ASSIGN_OR_RETURN(pinned_, backend_->device().AllocatePinned(sizeof(Metadata)));
  ASSIGN_OR_RETURN(device_, backend_->device().Allocate(sizeof(Metadata)));
  ASSIGN_OR_RETURN(
      host_out_, backend_->device().AllocatePinned(max_len_ * config_.vocab_size * sizeof(float)));
  return absl::OkStatus();
}

absl::Status SequenceRunner::OpenAttention(const SequenceRunnerOptions& options) {
  std::vector<DType> kv_dtypes = options.kv_dtypes;
  kv_dtypes.resize(config_.layers.size(), options.kv_dtype.value_or(options.dtype));
  const KvLayout layout = MakeKvLayout(config_, kv_dtypes, kBlockSize);
  const int num_groups = static_cast<int>(layout.groups.size());
  CHECK_LE(num_groups, kMaxGroups);
  ASSIGN_OR_RETURN(KvArena arena,
                   KvArena::Allocate(backend_->device(), layout, num_groups * kMaxBlocks));
  arena_ = std::make_unique<KvArena>(std::move(arena));
  ASSIGN_OR_RETURN(
      states_, StateArena::Allocate(backend_->device(),
                                    MakeStateLayout(config_, options.dtype, options.state_dtype),
                                    kNumStateSlots));
  AttentionBackend* attention = backend_->attention(options.path);
  if (attention == nullptr) return absl::InvalidArgumentError("the device lacks this path");
  ASSIGN_OR_RETURN(plans_, attention->CreatePlans(MakeGeometries(config_, layout, options.dtype),
                                                  {.max_num_seqs = 1,
                                                   .max_num_batched_tokens = max_len_,
                                                   .max_blocks_per_seq = kMaxBlocks}));
  return absl::OkStatus();
}

absl::Status SequenceRunner::CalibrateKvScales(DType dtype, int64_t num_tokens) {
  return quire::CalibrateKvScales(*backend_, *backend_->attention(AttentionPath::kNative), config_,
                                  {.dtype = dtype,
                                   .kv_dtype = arena_->LayerView(0).dtype,
                                   .block_size = kBlockSize,
                                   .num_tokens = num_tokens},
                                  *decoder_, *weights_);
}

// Blocks in descending order, so that nothing works by accident because they follow each other.
BlockId SequenceRunner::BlockOf(int group, int64_t index) const {
  return static_cast<BlockId>(arena_->num_blocks() - 1 - (group * kMaxBlocks + index));
}

void SequenceRunner::FillMetadata(absl::Span<const TokenId> tokens) {
  Metadata& m = *pinned_.as<Metadata>();
  const int num_tokens = static_cast<int>(tokens.size());
  // As in serving: a decode step finds its token where the sampler left it.
  const bool sampled_on_device = num_tokens == 1;
  m.row_last_token[0] = tokens[0];
  for (int i = 0; i < num_tokens; ++i) {
    const int64_t position = num_computed_ + i;
    m.input_ids[i] = sampled_on_device ? ~0 : tokens[i];
    m.positions[i] = position;
    m.logit_indices[i] = num_tokens - 1 - i;
    for (size_t g = 0; g < plans_.size(); ++g) {
      m.slot_mapping[g][i] =
          int64_t{BlockOf(g, position / kBlockSize)} * kBlockSize + position % kBlockSize;
    }
  }
  for (size_t g = 0; g < plans_.size(); ++g) {
    for (int64_t i = 0; i < kMaxBlocks; ++i) m.block_tables[g][i] = BlockOf(g, i);
  }
  m.cu_seqlens_q[0] = 0;
  m.cu_seqlens_q[1] = num_tokens;
  m.seq_lens[0] = static_cast<int32_t>(num_computed_ + num_tokens);
  m.seq_rows[0] = 0;
  m.state[0] = {.read = num_computed_ > 0 ? kStateSlot : -1, .write = kStateSlot};
}

std::vector<float> SequenceRunner::Append(absl::Span<const TokenId> tokens) {
  return AppendWanting(tokens.size(), tokens);
}

// A step of tokens whose metadata is on the device; returns the logits of its last num_rows tokens.
Tensor SequenceRunner::EnqueueStep(int64_t num_tokens, int64_t num_rows) {
  const Metadata& m = *device_.as<Metadata>();
  DecoderInputs inputs = {.num_tokens = num_tokens,
                          .input_ids = m.input_ids,
                          .row_last_token = m.row_last_token,
                          .positions = m.positions,
                          .slot_mapping = {},
                          .plans = {},
                          .logits_indices = m.logit_indices,
                          .num_logit_rows = num_rows,
                          .states = {.num_seqs = 1,
                                     .num_decodes = num_tokens == 1 ? 1 : 0,
                                     .cu_seqlens_q = m.cu_seqlens_q,
                                     .seq_lens = m.seq_lens,
                                     .sequences = m.state,
                                     .snapshots = nullptr}};
  for (size_t g = 0; g < plans_.size(); ++g) {
    plans_[g]->PlanStep(*stream_, {.num_seqs = 1,
                                   .num_tokens = static_cast<int32_t>(num_tokens),
                                   .num_decodes = num_tokens == 1 ? 1 : 0,
                                   .cu_seqlens_q = m.cu_seqlens_q,
                                   .seq_lens = m.seq_lens,
                                   .seq_rows = m.seq_rows,
                                   .block_tables = m.block_tables[g],
                                   .block_table_stride = kMaxBlocks});
    inputs.slot_mapping.push_back(m.slot_mapping[g]);
    inputs.plans.push_back(plans_[g].get());
  }
  decoder_->Forward(*stream_, inputs, *arena_, states_);
  return num_rows > 0 ? decoder_->Logits(*stream_, 0, num_rows) : Tensor();
}

Tensor SequenceRunner::ReplayDecode() {
  if (decode_graph_ == nullptr) {
    stream_->BeginCapture();
    decode_logits_ = EnqueueStep(1, 1);
    auto graph = stream_->EndCapture();
    CHECK(graph.ok()) << graph.status();
    decode_graph_ = std::move(*graph);
  }
  stream_->Launch(*decode_graph_);
  return decode_logits_;
}

std::vector<float> SequenceRunner::AppendWanting(int64_t num_rows,
                                                 absl::Span<const TokenId> tokens) {
  const int64_t num_tokens = tokens.size();
  CHECK_LE(num_computed_ + num_tokens, max_len_);
  FillMetadata(tokens);
  stream_->CopyToDevice(device_.data(), pinned_.data(), sizeof(Metadata));
  const bool replays = replay_decodes_ && num_tokens == 1 && num_rows == 1;
  const Tensor logits = replays ? ReplayDecode() : EnqueueStep(num_tokens, num_rows);
  if (num_rows > 0) stream_->CopyToHost(host_out_.data(), logits.data(), logits.num_bytes());
  CHECK(stream_->Synchronize().ok());
  num_computed_ += num_tokens;

  std::vector<float> logprobs;
  for (int64_t i = 0; i < num_rows; ++i) {  // rows were asked for from the last to the first
    const float* row = host_out_.as<float>() + (num_rows - 1 - i) * config_.vocab_size;
    logprobs.insert(logprobs.end(), row, row + config_.vocab_size);
    LogSoftmax(absl::MakeSpan(logprobs).last(config_.vocab_size));
  }
  return logprobs;
}

std::vector<float> SequenceRunner::AppendInChunks(absl::Span<const TokenId> tokens, int64_t chunk) {
  std::vector<float> logprobs;
  for (size_t begin = 0; begin < tokens.size(); begin += chunk) {
    const std::vector<float> rows = Append(tokens.subspan(begin, chunk));
    logprobs.insert(logprobs.end(), rows.begin(), rows.end());
  }
  return logprobs;
}

std::vector<float> SequenceRunner::AppendPromptAndDecodes(absl::Span<const TokenId> tokens,
                                                          size_t num_prompt) {
  std::vector<float> logprobs = Append(tokens.first(num_prompt));
  const std::vector<float> decoded = AppendInChunks(tokens.subspan(num_prompt), /*chunk=*/1);
  logprobs.insert(logprobs.end(), decoded.begin(), decoded.end());
  return logprobs;
}

}  // namespace quire
