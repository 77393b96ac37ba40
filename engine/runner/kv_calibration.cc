#include "engine/runner/kv_calibration.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "engine/model/attention_shapes.h"
#include "kernels/base/float8.h"
#include "kernels/base/half.h"
#include "kernels/base/status_macros.h"
#include "kvcache/kv_arena.h"

namespace quire {
namespace {

// Values of other tokens may be up to twice as large before they saturate. A floating-point cache
// loses nothing by this.
constexpr float kHeadroom = 2;

float LargestFinite(DType kv_dtype) {
  Float8E4M3 e4m3;
  e4m3.bits = Float8E4M3::kMaxFiniteBits;
  Float8E5M2 e5m2;
  e5m2.bits = Float8E5M2::kMaxFiniteBits;
  return kv_dtype == DType::kF8E4M3 ? static_cast<float>(e4m3) : static_cast<float>(e5m2);
}

// One step of one sequence and what it leaves in a cache of its own.
class CalibrationStep {
 public:
  CalibrationStep(Backend& backend, const ModelConfig& model, const KvCalibration& calibration)
      : backend_(backend),
        model_(model),
        num_tokens_(calibration.num_tokens),
        num_blocks_(CeilDiv<int64_t>(num_tokens_, calibration.block_size)),
        layout_(MakeKvLayout(model, calibration.dtype, calibration.block_size)),
        num_groups_(static_cast<int64_t>(layout_.groups.size())) {}

  absl::Status Run(AttentionBackend& prefill, const KvCalibration& calibration, Decoder& decoder) {
    ASSIGN_OR_RETURN(stream_, backend_.device().CreateStream());
    ASSIGN_OR_RETURN(KvArena arena,
                     KvArena::Allocate(backend_.device(), layout_, num_groups_ * num_blocks_));
    arena_ = std::make_unique<KvArena>(std::move(arena));
    ASSIGN_OR_RETURN(const auto plans,
                     prefill.CreatePlans(MakeGeometries(model_, layout_, calibration.dtype),
                                         {.max_num_seqs = 1,
                                          .max_num_batched_tokens = num_tokens_,
                                          .max_blocks_per_seq = num_blocks_}));
    ASSIGN_OR_RETURN(
        states_, StateArena::Allocate(backend_.device(),
                                      MakeStateLayout(model_, calibration.dtype, DType::kF32), 1));
    RETURN_IF_ERROR(UploadMetadata());
    DecoderInputs inputs = {.num_tokens = num_tokens_,
                            .input_ids = input_ids_.as<int32_t>(),
                            .row_last_token = input_ids_.as<int32_t>(),
                            .positions = positions_.as<int64_t>(),
                            .slot_mapping = {},
                            .plans = {},
                            .logits_indices = nullptr,
                            .num_logit_rows = 0,
                            .states = {.num_seqs = 1,
                                       .num_decodes = 0,
                                       .cu_seqlens_q = seq_.as<int32_t>(),
                                       .seq_lens = seq_.as<int32_t>() + 1,
                                       .sequences = state_.as<StateAccess>(),
                                       .snapshots = nullptr}};
    for (int64_t group = 0; group < num_groups_; ++group) {
      const auto* seq = seq_.as<int32_t>();
      plans[group]->PlanStep(*stream_, {.num_seqs = 1,
                                        .num_tokens = static_cast<int32_t>(num_tokens_),
                                        .num_decodes = 0,
                                        .cu_seqlens_q = seq,
                                        .seq_lens = seq + 1,
                                        .seq_rows = seq,
                                        .block_tables = blocks_.as<BlockId>() + group * num_blocks_,
                                        .block_table_stride = num_blocks_});
      inputs.slot_mapping.push_back(slots_.as<int64_t>() + group * num_tokens_);
      inputs.plans.push_back(plans[group].get());
    }
    decoder.Forward(*stream_, inputs, *arena_, states_);
    return stream_->Synchronize();
  }

  // The largest magnitude that the cache got for each KV head of a layer: keys, then values.
  absl::StatusOr<std::vector<float>> LargestOf(int layer) {
    const KvCacheView& view = arena_->LayerView(layer);
    const int64_t bytes = num_groups_ * num_blocks_ * view.k.block_stride * DTypeBytes(view.dtype);
    ASSIGN_OR_RETURN(const DeviceBuffer pinned, backend_.device().AllocatePinned(bytes));
    stream_->CopyToHost(pinned.data(), view.k.data, bytes);
    RETURN_IF_ERROR(stream_->Synchronize());
    std::vector<float> largest(2 * view.num_kv_heads);
    for (int64_t token = 0; token < num_tokens_; ++token) {
      const int64_t slot = SlotOf(arena_->GroupOf(layer), token);
      for (int64_t i = 0; i < 2 * view.num_kv_heads; ++i) {
        const HeadsView& heads = i < view.num_kv_heads ? view.k : view.v;
        const int64_t first = (static_cast<char*>(heads.data) - static_cast<char*>(view.k.data)) /
                              DTypeBytes(view.dtype);
        const int64_t head = first + slot / view.block_size * heads.block_stride +
                             slot % view.block_size * heads.token_stride +
                             i % view.num_kv_heads * heads.head_stride;
        for (int64_t d = 0; d < heads.head_dim; ++d) {
          largest[i] = std::max(largest[i], std::fabs(At(pinned, view.dtype, head + d)));
        }
      }
    }
    return largest;
  }

  Stream& stream() { return *stream_; }

 private:
  static float At(const DeviceBuffer& buffer, DType dtype, int64_t i) {
    if (dtype == DType::kF32) return buffer.as<float>()[i];
    if (dtype == DType::kF16) return static_cast<float>(buffer.as<Float16>()[i]);
    return static_cast<float>(buffer.as<BFloat16>()[i]);
  }

  // Groups share the pool, so each has blocks of its own.
  int64_t SlotOf(int64_t group, int64_t token) const {
    return group * num_blocks_ * layout_.block_size + token;
  }

  absl::Status UploadMetadata() {
    std::vector<int32_t> ids(num_tokens_);
    std::vector<int64_t> positions(num_tokens_), slots;
    std::vector<BlockId> blocks(num_groups_ * num_blocks_);
    // All over the vocabulary: Knuth's multiplicative hash.
    for (int64_t i = 0; i < num_tokens_; ++i) {
      ids[i] = static_cast<int32_t>(static_cast<uint32_t>(i * 2654435761u) % model_.vocab_size);
      positions[i] = i;
    }
    for (int64_t group = 0; group < num_groups_; ++group) {
      for (int64_t i = 0; i < num_tokens_; ++i) slots.push_back(SlotOf(group, i));
    }
    for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<BlockId>(i);
    RETURN_IF_ERROR(Upload(ids, input_ids_));
    RETURN_IF_ERROR(Upload(positions, positions_));
    RETURN_IF_ERROR(Upload(slots, slots_));
    RETURN_IF_ERROR(Upload(blocks, blocks_));
    RETURN_IF_ERROR(Upload(std::vector<StateAccess>{{.read = kNoState, .write = 0}}, state_));
    // cu_seqlens_q, whose 0 is the row, too, and whose end is the length.
    return Upload(std::vector<int32_t>{0, static_cast<int32_t>(num_tokens_)}, seq_);
  }

  template <typename T>
  absl::Status Upload(const std::vector<T>& values, DeviceBuffer& buffer) {
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
    ASSIGN_OR_RETURN(const DeviceBuffer pinned, backend_.device().AllocatePinned(bytes));
    ASSIGN_OR_RETURN(buffer, backend_.device().Allocate(bytes));
    std::memcpy(pinned.data(), values.data(), bytes);
    stream_->CopyToDevice(buffer.data(), pinned.data(), bytes);
    return stream_->Synchronize();
  }

  Backend& backend_;
  const ModelConfig& model_;
  const int64_t num_tokens_;
  const int64_t num_blocks_;  // of a group
  const KvLayout layout_;
  const int64_t num_groups_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<KvArena> arena_;
  StateArena states_;  // one slot
  DeviceBuffer input_ids_, positions_, slots_, blocks_, seq_, state_;
};

}  // namespace

absl::Status CalibrateKvScales(Backend& backend, AttentionBackend& prefill,
                               const ModelConfig& model, const KvCalibration& calibration,
                               Decoder& decoder, Weights& weights) {
  CalibrationStep step(backend, model, calibration);
  RETURN_IF_ERROR(step.Run(prefill, calibration, decoder));
  const float unit = kHeadroom / LargestFinite(calibration.kv_dtype);
  for (int layer = 0; layer < static_cast<int>(model.layers.size()); ++layer) {
    const LayerConfig& config = model.layers[layer];
    if (config.attention != AttentionKind::kGqa || config.gqa.kv_sharing_target) continue;
    ASSIGN_OR_RETURN(const std::vector<float> largest, step.LargestOf(layer));
    const auto num_scales = static_cast<int64_t>(largest.size());
    ASSIGN_OR_RETURN(const DeviceBuffer pinned,
                     backend.device().AllocatePinned(num_scales * int64_t{sizeof(float)}));
    auto* scales = pinned.as<float>();
    for (int64_t i = 0; i < num_scales; ++i) {
      const bool is_usable = std::isfinite(largest[i]) && largest[i] > 0;
      scales[i] = is_usable ? largest[i] * unit : 1.0f;
    }
    const GqaWeights& gqa = weights.layer(layer).gqa;
    const int64_t bytes = gqa.k_scales.num_bytes();
    step.stream().CopyToDevice(gqa.k_scales.data(), scales, bytes);
    step.stream().CopyToDevice(gqa.v_scales.data(), scales + num_scales / 2, bytes);
    RETURN_IF_ERROR(step.stream().Synchronize());
  }
  return absl::OkStatus();
}

}  // namespace quire
