// From a dtype at run time to code compiled for its element type: the one place that lists the
// types that activations and weights have on a GPU. Host code.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/base/check.h"
#include "kernels/base/tensor.h"
#include "kernels/cuda/runtime/vector.cuh"

namespace quire::cuda {

// Calls function.operator()<T>().
template <typename Function>
void DispatchFloat(DType dtype, const Function& function) {
  switch (dtype) {
    case DType::kF32:
      return function.template operator()<float>();
    case DType::kBF16:
      return function.template operator()<__nv_bfloat16>();
    case DType::kF16:
      return function.template operator()<__half>();
    default:
      CHECK(false) << "no kernel computes in " << DTypeName(dtype);
  }
}

// Calls function.operator()<T, kWidth>(): kVector elements an access, or one.
template <typename Function>
void DispatchFloat(DType dtype, bool vectors, const Function& function) {
  DispatchFloat(dtype, [&]<typename T>() {
    vectors ? function.template operator()<T, kVector>() : function.template operator()<T, 1>();
  });
}

}  // namespace quire::cuda
