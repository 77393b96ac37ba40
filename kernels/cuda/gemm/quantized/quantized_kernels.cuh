// QuantizedKernelFor, which the files of instances/ instantiate.
#pragma once

#include "kernels/cuda/gemm/quantized/quantized_gemm.cuh"
#include "kernels/cuda/gemm/quantized/quantized_gemv.cuh"
#include "kernels/cuda/gemm/quantized/quantized_kernels.h"

namespace quire::cuda {

template <typename Shape>
QuantizedKernel MakeQuantizedKernel() {
  return {.launch = QuantizedGemm<Shape>,
          .num_threads = Shape::kThreads,
          .num_blocks = Shape::kBlocks,
          .stage_bytes = nullptr,
          .sums_bytes = nullptr,
          .shared_bytes = [](int step_bytes, int num_stages, int, int,
                             int) { return Shape::SharedBytes(step_bytes, num_stages); },
          .max_stages = Shape::kMaxStages};
}

template <typename Shape>
QuantizedKernel MakeQuantizedGemv() {
  return {.launch = QuantizedGemv<Shape>,
          .num_threads = Shape::kThreads,
          .num_blocks = 0,
          .stage_bytes = Shape::StageBytes,
          .sums_bytes = Shape::SumsBytes,
          .shared_bytes = Shape::SharedBytes,
          .max_stages = Shape::kMaxStages};
}

template <WeightValue kValue, typename Element, int kGroups>
QuantizedKernel QuantizedKernelFor(int tile, bool is_gemv) {
  if (is_gemv) return MakeQuantizedGemv<QuantizedGemvShape<kValue, Element, kGroups>>();
  switch (kQuantizedTileRows[tile]) {
    case 8:
      return MakeQuantizedKernel<QuantizedGemmShape<kValue, Element, 8, kGroups>>();
    case 16:
      return MakeQuantizedKernel<QuantizedGemmShape<kValue, Element, 16, kGroups>>();
    case 32:
      return MakeQuantizedKernel<QuantizedGemmShape<kValue, Element, 32, kGroups>>();
    case 64:
      return MakeQuantizedKernel<QuantizedGemmShape<kValue, Element, 64, kGroups>>();
    case 128:
      return MakeQuantizedKernel<QuantizedGemmShape<kValue, Element, 128, kGroups>>();
    default:
      using Shape = QuantizedGemmShape<kValue, Element, 256, kGroups>;
      if constexpr (Shape::kScalesSums) {
        return {};
      } else {
        return MakeQuantizedKernel<Shape>();
      }
  }
}

template <typename Element, int kGroups>
QuantizedKernel Float8GemvFor() {
  return MakeQuantizedGemv<QuantizedGemvShape<WeightValue::kFloat8, Element, kGroups, true>>();
}

}  // namespace quire::cuda
