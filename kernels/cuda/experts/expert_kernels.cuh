// ExpertKernelFor, which the files of instances/ instantiate.
#pragma once

#include "kernels/cuda/experts/expert_gemm.cuh"
#include "kernels/cuda/experts/expert_kernels.h"

namespace quire::cuda {

template <typename Shape>
ExpertKernel MakeExpertKernel() {
  return {.launch = ExpertGemm<Shape>,
          .num_threads = Shape::kThreads,
          .half_features = Shape::kHalf,
          .columns = Shape::kColumns,
          .out_rows = Shape::kOutRows,
          .shared_bytes = Shape::kSharedBytes};
}

template <typename Element, int kFeatures, int kWarpgroups>
ExpertKernel ExpertKernelFor(bool is_gated) {
  if (is_gated) return MakeExpertKernel<ExpertGemmShape<Element, kFeatures, kWarpgroups, true>>();
  return MakeExpertKernel<ExpertGemmShape<Element, kFeatures, kWarpgroups, false>>();
}

}  // namespace quire::cuda
