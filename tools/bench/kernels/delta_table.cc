#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/base/status_macros.h"
#include "kernels/base/types.h"
#include "kernels/gated_delta.h"
#include "nlohmann/json.hpp"
#include "tools/bench/interrupt.h"
#include "tools/bench/kernels/attention_case.h"
#include "tools/bench/kernels/op_table.h"

namespace quire::bench {

namespace {

// Qwen3.5-27B.
constexpr GatedDeltaShape kShape = {
    .num_k_heads = 16, .num_v_heads = 48, .k_head_dim = 128, .v_head_dim = 128, .conv_width = 4};
constexpr int32_t kNumQHeads = 24, kNumKvHeads = 4, kHeadDim = 256;  // of its attention
constexpr DType kDType = DType::kBF16;                               // of activations

struct DeltaBatch {
  std::string name;
  int32_t num_seqs;
  int32_t seq_len;  // tokens of each in the step
  DType state_dtype = DType::kF32;

  bool is_decode() const { return seq_len == 1; }
  int64_t num_tokens() const { return int64_t{num_seqs} * seq_len; }
};

std::vector<DeltaBatch> DeltaBatches(DeviceKind device) {
  const bool is_cpu = device == DeviceKind::kCpu;
  const std::vector<int32_t> decodes =
      is_cpu ? std::vector<int32_t>{1, 8} : std::vector<int32_t>{1, 8, 16, 64, 256};
  const std::vector<int32_t> prompts =
      is_cpu ? std::vector<int32_t>{512} : std::vector<int32_t>{2048, 8192, 16384, 65536, 131072};
  std::vector<DeltaBatch> batches;
  batches.reserve(decodes.size() + prompts.size() + 2);
  for (const int32_t num_seqs : decodes) {
    batches.push_back({absl::StrCat("decode ", num_seqs), num_seqs, 1});
  }
  if (!is_cpu) batches.push_back({"decode 256, bfloat16 states", 256, 1, DType::kBF16});
  for (const int32_t len : prompts) batches.push_back({absl::StrCat("prefill 1 x ", len), 1, len});
  if (!is_cpu) batches.push_back({"prefill 16 x 1024", 16, 1024});
  return batches;
}

// One batch's arguments, with states and inputs that take turns.
class DeltaCase {
 public:
  static absl::StatusOr<std::unique_ptr<DeltaCase>> Create(GraphTimer& timer,
                                                           const DeltaBatch& batch, uint64_t seed) {
    std::unique_ptr<DeltaCase> result(new DeltaCase(timer, batch));
    RETURN_IF_ERROR(result->MakeParameters(seed));
    RETURN_IF_ERROR(result->MakeRotating(seed));
    RETURN_IF_ERROR(result->UploadBatches());
    return result;
  }

  // What a call must read and write.
  double bytes() const {
    const double token_bytes = static_cast<double>(
        (RowSize() + 2 * kShape.num_v_heads + kShape.v_size()) * DTypeBytes(kDType));
    return token_bytes * static_cast<double>(batch_.num_tokens()) +
           2.0 * static_cast<double>((ConvBytes() + RecurrentBytes()) * batch_.num_seqs);
  }
  // Counts the rule, token after token: S^T k, S + k d^T and S^T q.
  double flops() const {
    return 6.0 * static_cast<double>(kShape.v_size() * kShape.k_head_dim * batch_.num_tokens());
  }

  absl::StatusOr<double> Us() {
    return timer_.MedianColdUs(static_cast<int64_t>(bytes()), num_buffers_, [&](int buffer) {
      timer_.backend().ops().GatedDelta(timer_.stream(), ArgsOf(buffer));
    });
  }

 private:
  static int64_t RowSize() { return kShape.num_channels() + kShape.v_size(); }

  DeltaCase(GraphTimer& timer, const DeltaBatch& batch) : timer_(timer), batch_(batch) {
    num_buffers_ = timer.NumColdBuffers(static_cast<int64_t>(bytes()));
  }

  int64_t ConvBytes() const {
    return (kShape.conv_width - 1) * kShape.num_channels() * DTypeBytes(kDType);
  }
  int64_t RecurrentBytes() const {
    return kShape.v_size() * kShape.k_head_dim * DTypeBytes(batch_.state_dtype);
  }

  absl::Status MakeParameters(uint64_t seed) {
    const int64_t num_tokens = batch_.num_tokens();
    const std::vector<float> ones(std::max(kShape.num_v_heads, kShape.v_head_dim), 1.0f);
    ASSIGN_OR_RETURN(conv_weight_,
                     timer_.Random(DType::kF32, kShape.num_channels() * kShape.conv_width, seed));
    ASSIGN_OR_RETURN(ones_, timer_.Upload(ones));
    Device& device = timer_.backend().device();
    const int64_t element = DTypeBytes(kDType);
    ASSIGN_OR_RETURN(conv_out_, device.Allocate(num_tokens * kShape.num_channels() * element));
    ASSIGN_OR_RETURN(out_, device.Allocate(num_tokens * kShape.v_size() * element));
    ASSIGN_OR_RETURN(
        room_, device.Allocate(GatedDeltaRoomBytes(kShape, num_tokens, timer_.device_kind())));
    return absl::OkStatus();
  }

  absl::Status MakeRotating(uint64_t seed) {
    const int64_t rows = batch_.num_tokens() * num_buffers_;
    const int64_t slots = int64_t{batch_.num_seqs} * num_buffers_;
    ASSIGN_OR_RETURN(qkvz_, timer_.Random(kDType, rows * RowSize(), seed + 1));
    ASSIGN_OR_RETURN(ba_, timer_.Random(kDType, rows * 2 * kShape.num_v_heads, seed + 2));
    ASSIGN_OR_RETURN(conv_states_,
                     timer_.Random(kDType, slots * ConvBytes() / DTypeBytes(kDType), seed + 3));
    ASSIGN_OR_RETURN(
        recurrent_states_,
        timer_.Random(batch_.state_dtype, slots * RecurrentBytes() / DTypeBytes(batch_.state_dtype),
                      seed + 4));
    return absl::OkStatus();
  }

  // Each sequence's state stays in its slot.
  absl::Status UploadBatches() {
    std::vector<int32_t> cu_seqlens = {0};
    for (int32_t i = 0; i < batch_.num_seqs; ++i) {
      cu_seqlens.push_back(cu_seqlens.back() + batch_.seq_len);
    }
    std::vector<StateAccess> sequences;
    sequences.reserve(batch_.num_seqs * num_buffers_);
    for (int32_t slot = 0; slot < batch_.num_seqs * num_buffers_; ++slot) {
      sequences.push_back({.read = slot, .write = slot});
    }
    ASSIGN_OR_RETURN(cu_seqlens_, timer_.Upload(cu_seqlens));
    ASSIGN_OR_RETURN(seq_lens_,
                     timer_.Upload(std::vector<int32_t>(batch_.num_seqs, batch_.seq_len)));
    ASSIGN_OR_RETURN(sequences_, timer_.Upload(sequences));
    return absl::OkStatus();
  }

  GatedDeltaArgs ArgsOf(int buffer) const {
    const int64_t num_tokens = batch_.num_tokens(), row = num_tokens * buffer;
    const int64_t num_v_heads = kShape.num_v_heads;
    const Tensor qkvz(qkvz_.data(), kDType, {num_tokens * num_buffers_, RowSize()});
    const Tensor ba(ba_.data(), kDType, {num_tokens * num_buffers_, 2 * num_v_heads});
    const int64_t room_bytes = room_.size_bytes();
    return {.shape = kShape,
            .qkvz = qkvz.Rows(row, num_tokens),
            .ba = ba.Rows(row, num_tokens),
            .conv_weight = Tensor(conv_weight_.data(), DType::kF32,
                                  {kShape.num_channels(), kShape.conv_width}),
            .a_log = Tensor(ones_.data(), DType::kF32, {num_v_heads}),
            .dt_bias = Tensor(ones_.data(), DType::kF32, {num_v_heads}),
            .norm_weight = Tensor(ones_.data(), DType::kF32, {kShape.v_head_dim}),
            .norm_eps = 1e-6f,
            .state = {.conv = conv_states_.data(),
                      .recurrent = recurrent_states_.data(),
                      .conv_stride_bytes = ConvBytes(),
                      .recurrent_stride_bytes = RecurrentBytes(),
                      .dtype = batch_.state_dtype},
            .batch = {.num_seqs = batch_.num_seqs,
                      .num_decodes = batch_.is_decode() ? batch_.num_seqs : 0,
                      .cu_seqlens_q = cu_seqlens_.as<int32_t>(),
                      .seq_lens = seq_lens_.as<int32_t>(),
                      .sequences = sequences_.as<StateAccess>() + buffer * batch_.num_seqs,
                      .snapshots = nullptr},
            .conv_out = Tensor(conv_out_.data(), kDType, {num_tokens, kShape.num_channels()}),
            .room = Tensor(room_.data(), DType::kU8, {room_bytes}),
            .out = Tensor(out_.data(), kDType, {num_tokens, kShape.v_size()})};
  }

  GraphTimer& timer_;
  const DeltaBatch batch_;
  int num_buffers_ = 0;
  DeviceBuffer conv_weight_, ones_, conv_out_, out_, room_;
  DeviceBuffer qkvz_, ba_, conv_states_, recurrent_states_, cu_seqlens_, seq_lens_, sequences_;
};

// Causal attention to the same tokens, on the fastest path; 0 where it does not fit the memory.
absl::StatusOr<double> AttentionUs(GraphTimer& timer, const DeltaBatch& batch, uint64_t seed,
                                   nlohmann::ordered_json* result) {
  const std::vector<int32_t> lengths(batch.num_seqs, batch.seq_len);
  const AttentionShape shape = {.name = "attention, " + batch.name,
                                .num_q_heads = kNumQHeads,
                                .num_kv_heads = kNumKvHeads,
                                .head_dim = kHeadDim,
                                .block_size = 16,
                                .lengths = {lengths, lengths}};
  ASSIGN_OR_RETURN(const auto attention, AttentionCase::Create(timer, shape, seed, result));
  if (attention == nullptr) return 0.0;
  ASSIGN_OR_RETURN(const std::vector<double> us, attention->RunUs());
  return *std::min_element(us.begin(), us.end());
}

absl::Status MeasureGatedDelta(GraphTimer& timer, const TableRequest& request,
                               nlohmann::ordered_json* result) {
  Limits copied = request.limits;
  copied.bytes_per_s = request.limits.copied_bytes_per_s;
  nlohmann::ordered_json& rows = (*result)[kGatedDeltaTable.list];
  PrintOpHeader("gated delta net, 16/48 heads of 128, bfloat16, cold (share: of a copy's rate)");
  for (const DeltaBatch& batch : DeltaBatches(timer.device_kind())) {
    if (Interrupted()) break;
    if (!absl::StrContains(batch.name, request.cases)) continue;
    double us = 0;
    {
      ASSIGN_OR_RETURN(const auto delta, DeltaCase::Create(timer, batch, request.seed));
      ASSIGN_OR_RETURN(us, delta->Us());
      rows.push_back(
          OpRow("gated_delta", batch.name, 1, us, delta->bytes(), delta->flops(), copied));
    }
    PrintOpRow(rows.back());
    if (batch.is_decode()) continue;
    ASSIGN_OR_RETURN(const double attention_us, AttentionUs(timer, batch, request.seed, result));
    if (attention_us == 0) continue;
    rows.back()["time_over_attention"] = us / attention_us;
    std::printf("%63s of attention's %.1f us: %.3f\n", "", attention_us, us / attention_us);
  }
  std::printf("\n");
  return absl::OkStatus();
}

std::vector<std::string> DeltaNames(DeviceKind device, const EngineConfig&, const ModelConfig&) {
  return NamesOf(DeltaBatches(device));
}

}  // namespace

constinit const KernelTable kGatedDeltaTable = {
    .name = "gated-delta",
    .about = "gated delta nets: decodes beside a copy of their states, prompts beside attention",
    .list = "delta_table",
    .case_names = DeltaNames,
    .measure = MeasureGatedDelta};

}  // namespace quire::bench
