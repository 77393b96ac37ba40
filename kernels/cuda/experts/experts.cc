#include "kernels/cuda/experts/experts.h"

#include "kernels/base/check.h"
#include "kernels/cuda/experts/expert_gemms.h"

namespace quire::cuda {

namespace {

// Rows of an expert, on average, up to which a gemv is faster.
constexpr int64_t kMaxGemvRows = 4;

void LaunchGemm(const ExpertGemmArgs& args, cudaStream_t stream) {
  CHECK(!args.weight->format.quantized()) << "of experts";
  if (args.out.dim(0) == 0) return;
  const bool is_few = args.routing.num_pairs() <= kMaxGemvRows * args.routing.num_experts();
  if (HasExpertGemm(args) && !(is_few && HasExpertGemv(args))) {
    LaunchExpertGemm(args, stream);
  } else if (HasExpertGemv(args)) {
    LaunchExpertGemv(args, stream);
  } else {
    LaunchPlainExpertGemm(args, stream);
  }
}

}  // namespace

void LaunchExpertsGatedLinear(const ExpertsGatedLinearArgs& args, cudaStream_t stream) {
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
  LaunchGemm({.x = args.x,
              .weight = args.weight,
              .bias = args.bias,
              .routing = args.routing,
              .is_gated = false,
              .activation = Activation::kSilu,
              .out = args.rows},
             stream);
  if (args.out.dim(0) > 0) LaunchSumOfExperts(args, stream);
}

}  // namespace quire::cuda
