// LinearWeight: what a weight matrix is on a device. Made by a WeightStore
// (kernels/weight_store.h); read by the gemms of kernels/ops.h.
#pragma once

#include <cstdint>

#include "kernels/base/tensor.h"

namespace quire {

// How a weight's values are kept. A new format is one here, in the store that makes it and in the
// gemms that read it.
enum class WeightFormat : uint8_t {
  kPlain,       // of its dtype: row-major [out, in] on CUDA, packed for the micro-kernel on the CPU
  kCompressed,  // the CPU's: bfloat16 in 12 bits each, losslessly (kernels/cpu/gemm/compression.h)
};

// Of a matrix without padding, as GPUs keep it.
constexpr int64_t RowMajorBytes(int64_t out_features, int64_t in_features, DType dtype) {
  return out_features * in_features * DTypeBytes(dtype);
}

// A matrix of out_features x in_features in the backend's own layout.
struct LinearWeight {
  void* data = nullptr;
  WeightFormat format = WeightFormat::kPlain;
  DType dtype = DType::kF32;  // of the values, whatever the format: one of the activations'
  int64_t out_features = 0;
  int64_t in_features = 0;
  int64_t compressed_bytes = 0;  // of data, if compressed

  // What a gemm reads of it, padding not counted.
  int64_t size_bytes() const {
    return format == WeightFormat::kCompressed ? compressed_bytes
                                               : RowMajorBytes(out_features, in_features, dtype);
  }
};

}  // namespace quire
