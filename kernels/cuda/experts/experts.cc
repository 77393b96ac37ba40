#include "kernels/cuda/experts/experts.h"

#include <algorithm>

#include "kernels/base/check.h"
#include "kernels/base/types.h"
#include "kernels/cuda/experts/expert_gemms.h"
#include "kernels/cuda/gemm/quantized/quantized_gemm.h"
#include "kernels/cuda/runtime/free_ops.h"

namespace quire::cuda {

namespace {

// With this many tiles of columns a gemm is faster than a gemv: then the tiles of as many experts
// as may be chosen fill the device.
constexpr int64_t kMinGemmTiles = 300;
constexpr int64_t kTileColumns = 128;  // of the weight's rows

void LaunchGemm(const ExpertGemmArgs& args, cudaStream_t stream) {
  const int64_t num_chosen = std::min(args.routing.num_pairs(), args.routing.num_experts());
  const bool is_few = num_chosen * CeilDiv(args.weight->out_features, kTileColumns) < kMinGemmTiles;
  if (HasExpertGemm(args) && !(is_few && HasExpertGemv(args))) {
    LaunchExpertGemm(args, stream);
  } else if (HasExpertGemv(args)) {
    LaunchExpertGemv(args, stream);
  } else {
    LaunchPlainExpertGemm(args, stream);
  }
}

// Of more than a few tokens with x in the order of the experts; gates and ups apart where they are
// no whole blocks.
void LaunchQuantizedGatedGemm(const ExpertsGatedLinearArgs& args, cudaStream_t stream) {
  const bool is_whole = HasWholeGateBlocks(*args.weight);
  ExpertRowsArgs rows = {.x = args.x,
                         .weight = args.weight,
                         .bias = args.bias,
                         .routing = args.routing,
                         .is_gated = is_whole,
                         .activation = args.activation,
                         .in_order_of_pairs = false,
                         .out = is_whole ? args.out : args.gate_up};
  if (!LaunchQuantizedExpertGemv(rows, /*x_of_tokens=*/true, stream)) {
    CHECK(!args.sorted_x.empty()) << "room for quantized experts";
    LaunchSortRows(args.x, args.routing, args.sorted_x, stream);
    rows.x = args.sorted_x;
    LaunchQuantizedExpertGemm(rows, stream);
  }
  if (!is_whole) LaunchGatedActivation(args.Activate(), stream);
}

}  // namespace

ExpertGemmCommon CommonOf(const ExpertGemmArgs& args) {
  const LinearWeight& weight = *args.weight;
  const Routing& routing = args.routing;
  return {.x = args.x.data(),
          .weight = weight.data,
          .bias = args.bias.empty() ? nullptr : args.bias.as<float>(),
          .out = args.out.data(),
          .pairs = routing.pairs.as<int32_t>(),
          .offsets = routing.offsets.as<int32_t>(),
          .x_stride = args.x.row_stride(),
          .out_stride = args.out.row_stride(),
          .expert_stride = weight.expert_bytes / DTypeBytes(weight.dtype),
          .num_experts = static_cast<int>(routing.num_experts()),
          .out_features = static_cast<int>(weight.out_features),
          .in_features = static_cast<int>(weight.in_features),
          .top_k = static_cast<int>(routing.top_k()),
          .num_columns = static_cast<int>(args.num_columns()),
          .activation = args.activation};
}

void LaunchExpertsGatedLinear(const ExpertsGatedLinearArgs& args, cudaStream_t stream) {
  if (args.out.dim(0) == 0) return;
  if (args.weight->format.quantized()) return LaunchQuantizedGatedGemm(args, stream);
  LaunchGemm({.x = args.x,
              .weight = args.weight,
              .bias = args.bias,
              .routing = args.routing,
              .is_gated = true,
              .activation = args.activation,
              .out = args.out},
             stream);
}

void LaunchExpertsLinear(const ExpertsLinearArgs& args, cudaStream_t stream) {
  if (args.out.dim(0) == 0) return;
  if (args.weight->format.quantized()) {
    const ExpertRowsArgs rows = {.x = args.x,
                                 .weight = args.weight,
                                 .bias = args.bias,
                                 .routing = args.routing,
                                 .is_gated = false,
                                 .activation = Activation::kSilu,
                                 .in_order_of_pairs = true,
                                 .out = args.rows};
    if (!LaunchQuantizedExpertGemv(rows, /*x_of_tokens=*/false, stream)) {
      LaunchQuantizedExpertGemm(rows, stream);
    }
  } else {
    LaunchGemm({.x = args.x,
                .weight = args.weight,
                .bias = args.bias,
                .routing = args.routing,
                .is_gated = false,
                .activation = Activation::kSilu,
                .out = args.rows},
               stream);
  }
  LaunchSumOfExperts(args, stream);
}

}  // namespace quire::cuda
