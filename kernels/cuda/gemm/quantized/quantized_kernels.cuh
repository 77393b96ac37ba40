// What instances/ have in common: QuantizedKernelFor, to be instantiated.
#pragma once

#include "kernels/cuda/gemm/quantized/quantized_gemm.cuh"
#include "kernels/cuda/gemm/quantized/quantized_kernels.h"

namespace quire::cuda {

template <typename Shape>
QuantizedKernel MakeQuantizedKernel() {
  return {.launch = QuantizedGemm<Shape>,
          .num_threads = Shape::kThreads,
          .shared_bytes = Shape::SharedBytes,
          .max_stages = Shape::kMaxStages};
}

template <WeightValue kValue, typename Element, int kGemms>
QuantizedKernel QuantizedKernelFor(int tile) {
  switch (kQuantizedTileRows[tile]) {
    case 8:
      return MakeQuantizedKernel<QuantizedGemmShape<kValue, Element, 8, kGemms>>();
    case 16:
      return MakeQuantizedKernel<QuantizedGemmShape<kValue, Element, 16, kGemms>>();
    case 32:
      return MakeQuantizedKernel<QuantizedGemmShape<kValue, Element, 32, kGemms>>();
    case 64:
      return MakeQuantizedKernel<QuantizedGemmShape<kValue, Element, 64, kGemms>>();
    default:
      return MakeQuantizedKernel<QuantizedGemmShape<kValue, Element, 128, kGemms>>();
  }
}

}  // namespace quire::cuda
