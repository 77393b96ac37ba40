// A gemm with a weight as the choice of how to compute it sees it, and that choice. Plain
// values, no CUDA header; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "kernels/base/tensor.h"
#include "kernels/weight_format.h"

namespace quire::cuda {

// The number of rows for which a choice is made and used: powers of two, from 16 on also half way
// between them. So a gemm keeps a limited number of choices, however prompts are cut into steps.
constexpr int64_t RowBucket(int64_t num_rows) {
  int64_t bucket = 1;
  while (bucket < num_rows) bucket *= 2;
  return bucket > 16 && bucket / 4 * 3 >= num_rows ? bucket / 4 * 3 : bucket;
}

struct GemmKey {
  int64_t num_rows;  // a RowBucket
  int64_t out_features, in_features;
  WeightFormat format = {};
  ActivationFormat activations = {};
  DType dtype, x_dtype, out_dtype;
  bool fused_bias;  // where cuBLASLt adds it
  // Of every row, in bytes: powers of two up to 256.
  int32_t x_alignment, weight_alignment, out_alignment;

  bool operator==(const GemmKey&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const GemmKey& k) {
    const WeightFormat& f = k.format;
    return H::combine(std::move(h), k.num_rows, k.out_features, k.in_features, f.value, f.scale,
                      f.group_columns, f.zero_points, f.ordered, k.activations.value, k.dtype,
                      k.x_dtype, k.out_dtype, k.fused_bias, k.x_alignment, k.weight_alignment,
                      k.out_alignment);
  }
};

enum class GemmKernel : uint8_t { kCublasLt, kGemv, kHopper, kLarge, kQuantized };

// A variant of one of our own kernels (own_gemms.h), or an algorithm of cuBLASLt.
struct GemmChoice {
  GemmKernel kernel = GemmKernel::kCublasLt;
  int variant = 0;                         // of our own
  std::array<uint64_t, 8> algorithm = {};  // cublasLtMatmulAlgo_t

  bool operator==(const GemmChoice&) const = default;
};

using GemmChoices = absl::flat_hash_map<GemmKey, GemmChoice>;

}  // namespace quire::cuda
