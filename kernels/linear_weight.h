// LinearWeight: a weight matrix on a device. Made by a WeightStore
// (kernels/weight_store.h); read by the gemms of kernels/ops.h.
#pragma once

#include <cstdint>

#include "kernels/base/tensor.h"
#include "kernels/weight_format.h"

namespace quire {

// A matrix of out_features x in_features in the backend's own layout; for a mixture of experts one
// such matrix for each expert, one behind the other.
struct LinearWeight {
  void* data = nullptr;  // all planes of the format
  WeightFormat format = {};
  ActivationFormat activations = {};
  DType dtype = DType::kF32;  // of the activations, and of the values if the format is kFloat
  int64_t out_features = 0;
  int64_t in_features = 0;
  int64_t num_experts = 1;   // matrices
  int64_t expert_bytes = 0;  // from one to the next, if there are several
  // The size of data, if the CPU keeps bfloat16 in 12 bits each, losslessly
  // (kernels/cpu/gemm/compression.h); 0: it does not.
  int64_t compressed_bytes = 0;

  bool is_compressed() const { return compressed_bytes > 0; }
  // One of the matrices.
  LinearWeight Expert(int64_t expert) const {
    LinearWeight one = *this;
    one.data = static_cast<char*>(data) + expert * expert_bytes;
    one.num_experts = 1;
    one.expert_bytes = 0;
    return one;
  }
  // The bytes that gemms read, without padding.
  int64_t size_bytes() const {
    if (is_compressed()) return compressed_bytes;
    if (format.quantized()) return num_experts * QuantizedBytes(format, out_features, in_features);
    return num_experts * out_features * in_features * DTypeBytes(dtype);
  }
};

}  // namespace quire
