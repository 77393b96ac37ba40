// GatedDelta on a GPU: which kernels compute which sequences.
#include "kernels/base/check.h"
#include "kernels/base/types.h"
#include "kernels/cuda/runtime/free_ops.h"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/state/gated_delta_kernels.h"

namespace quire::cuda {

namespace {

// All elements are read and written by eights.
void CheckAlignment(const GatedDeltaArgs& args) {
  constexpr int64_t kBytes = 16;
  for (const Tensor* tensor : {&args.qkvz, &args.conv_out, &args.out}) {
    CHECK_EQ(reinterpret_cast<uintptr_t>(tensor->data()) % kBytes, 0u);
    CHECK_EQ(tensor->row_stride() * DTypeBytes(tensor->dtype()) % kBytes, 0);
  }
  CHECK_EQ(args.state.conv_stride_bytes % kBytes, 0);
  CHECK_EQ(args.state.recurrent_stride_bytes % kBytes, 0);
}

GatedDeltaParams ParamsOf(const GatedDeltaArgs& args) {
  return {.shape = args.shape,
          .state = args.state,
          .batch = args.batch,
          .dtype = args.qkvz.dtype(),
          .num_tokens = static_cast<int>(args.qkvz.dim(0)),
          .num_channels = static_cast<int>(args.shape.num_channels()),
          .qkvz = args.qkvz.data(),
          .ba = args.ba.data(),
          .y = args.conv_out.data(),
          .out = args.out.data(),
          .qkvz_stride = args.qkvz.row_stride(),
          .ba_stride = args.ba.row_stride(),
          .y_stride = args.conv_out.row_stride(),
          .out_stride = args.out.row_stride(),
          .conv_weight = args.conv_weight.as<float>(),
          .a_log = args.a_log.as<float>(),
          .dt_bias = args.dt_bias.as<float>(),
          .norm_weight = args.norm_weight.as<float>(),
          .norm_eps = args.norm_eps,
          .first_unit_seq = args.batch.num_seqs};
}

// Prompts, in passes that share the room.
void LaunchPasses(const GatedDeltaParams& params, const Tensor& room, cudaStream_t stream) {
  CHECK_GE(room.empty() ? 0 : room.num_bytes(),
           GatedDeltaRoomBytes(params.shape, params.num_tokens, DeviceKind::kCuda));
  const int num_heads = params.shape.num_v_heads;
  const int64_t pass_tiles = int64_t{kGatedDeltaTilesPerPass} * num_heads;
  const int64_t carry_size = int64_t{num_heads} * kDeltaHeadDim * kDeltaHeadDim;
  auto* tiles = static_cast<TileRoom*>(room.data());
  auto* carries = reinterpret_cast<float*>(tiles + 2 * pass_tiles);
  // As FirstSlot counts, if all tokens are of prompts.
  const int num_prompts = params.batch.num_seqs - params.batch.num_decodes;
  const int num_tokens = params.num_tokens - params.batch.num_decodes;
  const int num_slots = (num_tokens + num_prompts * 2 * (kTileTokens - 1)) / kTileTokens;
  for (int pass = 0; pass * kGatedDeltaTilesPerPass < num_slots; ++pass) {
    const PassRoom place = {.tiles = tiles + pass % 2 * pass_tiles,
                            .carry_in = carries + pass % 2 * carry_size,
                            .carry_out = carries + (pass + 1) % 2 * carry_size,
                            .first_slot = pass * kGatedDeltaTilesPerPass};
    LaunchDeltaTiles(params, place, pass == 0, stream);
    LaunchDeltaScan(params, place, stream);
  }
}

// Whether all of a decode is one kernel (LaunchDeltaDecode).
bool IsOneKernel(const GatedDeltaParams& params) {
  constexpr int kCtasPerSm = 2;  // of it
  return IsHopper() && params.shape.num_v_heads <= kMaxHeadsOfKey * params.shape.num_k_heads &&
         params.batch.num_decodes * params.shape.num_v_heads <= kCtasPerSm * NumSms();
}

}  // namespace

void LaunchGatedDelta(const GatedDeltaArgs& args, cudaStream_t stream) {
  CheckAlignment(args);
  GatedDeltaParams params = ParamsOf(args);
  if (params.num_tokens == 0 || params.batch.num_seqs == 0) return;
  if (!params.shape.has_tiles()) {
    LaunchDeltaConv(params, 0, stream);
    return LaunchDeltaRule(params, 0, stream);
  }
  const int num_decodes = params.batch.num_decodes;
  const bool has_passes = DTypeBytes(params.dtype) == 2 && IsHopper();
  if (has_passes) params.first_unit_seq = num_decodes;
  const bool has_prompts = num_decodes < params.batch.num_seqs;
  if (IsOneKernel(params)) {
    if (has_prompts) LaunchDeltaConv(params, num_decodes, stream);
    if (num_decodes > 0) LaunchDeltaDecode(params, stream);
  } else {
    LaunchDeltaConv(params, 0, stream);
    if (num_decodes > 0) LaunchDeltaDecodeAfterConv(params, stream);
  }
  if (!has_prompts) return;
  if (has_passes) {
    LaunchPasses(params, args.room, stream);
  } else {
    LaunchDeltaRule(params, num_decodes, stream);
  }
}

}  // namespace quire::cuda
