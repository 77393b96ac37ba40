// Matmul: products with a weight through cuBLASLt, which picks an algorithm per shape; the choice
// is kept. Sums are float32 throughout (no TF32, no split sums in bfloat16). One thread, and one
// stream at a time, because all products share a workspace whose address never changes.
#pragma once

#include <cublasLt.h>

#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/op_args.h"

namespace quire::cuda {

class Matmul {
 public:
  static absl::StatusOr<std::unique_ptr<Matmul>> Create(Device& device);
  ~Matmul();
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;

  // out = x * weight^T + bias. Errors are noted on the stream.
  void Linear(const LinearArgs& args, CudaStream& stream);

 private:
  // All that the choice of an algorithm depends on. Strides are those of rows, in elements;
  // alignments those of the pointers, in bytes.
  struct Problem {
    int64_t num_rows, out_features, in_features;
    int64_t x_stride, out_stride;
    DType dtype, out_dtype;
    bool fused_bias;
    uint32_t x_alignment, weight_alignment, out_alignment;

    bool operator==(const Problem&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const Problem& p) {
      return H::combine(std::move(h), p.num_rows, p.out_features, p.in_features, p.x_stride,
                        p.out_stride, p.dtype, p.out_dtype, p.fused_bias, p.x_alignment,
                        p.weight_alignment, p.out_alignment);
    }
  };

  // A problem in cuBLASLt's terms. Its matrices are column-major: out^T = weight * x^T.
  struct Plan {
    cublasLtMatmulDescOpaque_t operation;
    cublasLtMatrixLayoutOpaque_t weight, x, out;
    cublasLtMatmulAlgo_t algorithm;
  };

  Matmul(cublasLtHandle_t handle, DeviceBuffer workspace)
      : handle_(handle), workspace_(std::move(workspace)) {}

  static Problem ProblemOf(const LinearArgs& args);
  absl::StatusOr<Plan*> PlanFor(const Problem& problem);
  absl::StatusOr<Plan> MakePlan(const Problem& problem) const;
  // Where a timed choice among several candidates belongs; today the first one.
  absl::Status ChooseAlgorithm(const Problem& problem, Plan* plan) const;

  const cublasLtHandle_t handle_;
  const DeviceBuffer workspace_;
  absl::flat_hash_map<Problem, std::unique_ptr<Plan>> plans_;
};

}  // namespace quire::cuda
