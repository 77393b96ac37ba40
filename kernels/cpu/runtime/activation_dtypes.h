// The types that the CPU's kernels compute in. The kernels only tell float32 from bfloat16, so no
// other type may get to them.
#pragma once

#include <algorithm>
#include <iterator>

#include "kernels/base/check.h"
#include "kernels/base/tensor.h"

namespace quire::cpu {

inline constexpr DType kActivationDTypes[] = {DType::kF32, DType::kBF16};

inline void CheckActivationDType(DType dtype) {
  CHECK(std::find(std::begin(kActivationDTypes), std::end(kActivationDTypes), dtype) !=
        std::end(kActivationDTypes))
      << "the CPU does not compute in " << DTypeName(dtype);
}

}  // namespace quire::cpu
