#include "kernels/cuda/experts/experts.h"

#include <algorithm>

#include "kernels/base/check.h"
#include "kernels/base/types.h"
#include "kernels/cuda/experts/expert_gemms.h"
#include "kernels/cuda/gemm/quantized/quantized_gemm.h"
#include "kernels/cuda/runtime/free_ops.h"

namespace quire::cuda {

namespace {

// Tiles of a gemm's columns from which on it is faster than a gemv: those of so many experts as may
// be chosen fill the device.
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

// Of x in the order of the experts: gates and ups apart where they are no whole blocks.
void LaunchQuantizedGatedGemm(const ExpertsGatedLinearArgs& args, cudaStream_t stream) {
  const bool is_whole = HasWholeGateBlocks(*args.weight);
  CHECK(!args.sorted_x.empty()) << "room for quantized experts";
  LaunchSortRows(args.x, args.routing, args.sorted_x, stream);
  LaunchQuantizedExpertGemm({.x = args.sorted_x,
                             .weight = args.weight,
                             .bias = args.bias,
                             .routing = args.routing,
                             .is_gated = is_whole,
                             .activation = args.activation,
                             .in_order_of_pairs = false,
                             .out = is_whole ? args.out : args.gate_up},
                            stream);
  if (is_whole) return;
  const int64_t size = args.out.dim(1);
  LaunchGatedActivation({.gate = Columns(args.gate_up, 0, size),
                         .up = Columns(args.gate_up, size, size),
                         .activation = args.activation,
                         .out = args.out},
                        stream);
}

}  // namespace

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
    LaunchQuantizedExpertGemm({.x = args.x,
                               .weight = args.weight,
                               .bias = args.bias,
                               .routing = args.routing,
                               .is_gated = false,
                               .activation = Activation::kSilu,
                               .in_order_of_pairs = true,
                               .out = args.rows},
                              stream);
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
