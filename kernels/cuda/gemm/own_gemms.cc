#include "kernels/cuda/gemm/own_gemms.h"

#include "kernels/cuda/gemm/gemv.h"
#include "kernels/cuda/gemm/hopper/hopper_gemm.h"
#include "kernels/cuda/gemm/hopper/large_gemm.h"
#include "kernels/cuda/gemm/quantized/quantized_gemm.h"

namespace quire::cuda {

static_assert(kMinHopperGemmRows == kMaxGemvRows + 1);

absl::Span<const OwnGemm> OwnGemms() {
  static constexpr OwnGemm kGemms[] = {
      {GemmKernel::kGemv, "gemv", GemvVariants, GemvVariantName, FindGemvVariant, LaunchGemv,
       LaunchGatedGemv},
      {GemmKernel::kQuantized, "quantized", QuantizedGemmVariants, QuantizedGemmVariantName,
       FindQuantizedGemmVariant, LaunchQuantizedGemm, LaunchGatedQuantizedGemm},
      {GemmKernel::kHopper, "hopper", HopperGemmVariants, HopperGemmVariantName,
       FindHopperGemmVariant, LaunchHopperGemm, LaunchGatedHopperGemm},
      {GemmKernel::kLarge, "large", LargeGemmVariants, LargeGemmVariantName, FindLargeGemmVariant,
       LaunchLargeGemm, LaunchGatedLargeGemm}};
  return kGemms;
}

const OwnGemm* FindOwnGemm(GemmKernel kernel) {
  for (const OwnGemm& gemm : OwnGemms()) {
    if (gemm.kernel == kernel) return &gemm;
  }
  return nullptr;
}

}  // namespace quire::cuda
