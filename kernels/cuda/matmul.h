// Matmul: products with a weight, through our own kernel for few rows (gemv.h) or cuBLASLt. How a
// product is computed is chosen per ProductKey: what was measured (product_tuner.h), or else our
// kernel's default variant or the first answer of cuBLASLt's heuristic; never by timing on the way.
// Sums are float32 throughout (no TF32, no split sums in bfloat16). One thread, and one stream at a
// time, because all products share a workspace whose address never changes.
#pragma once

#include <cublasLt.h>

#include <memory>
#include <utility>
#include <vector>

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/product.h"
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
  // Chosen like the product alone.
  void GatedLinear(const GatedLinearArgs& args, CudaStream& stream);

  static ProductKey KeyOf(const LinearArgs& args);
  // What Linear may choose from for these arguments, its own choice first; INTERNAL when nothing
  // can compute them.
  absl::StatusOr<std::vector<ProductChoice>> Candidates(const LinearArgs& args) const;
  // Linear as `choice` has it; an error that the launch reports is returned, not noted.
  absl::Status Run(const LinearArgs& args, const ProductChoice& choice, CudaStream& stream) const;
  // From now on Linear computes such products so.
  void Choose(const ProductKey& key, const ProductChoice& choice) { choices_[key] = choice; }

 private:
  // A product in cuBLASLt's terms. Its matrices are column-major: out^T = weight * x^T.
  struct Description {
    cublasLtMatmulDescOpaque_t operation;
    cublasLtMatrixLayoutOpaque_t weight, x, out;
  };

  Matmul(cublasLtHandle_t handle, DeviceBuffer workspace)
      : handle_(handle), workspace_(std::move(workspace)) {}

  static absl::StatusOr<Description> Describe(const LinearArgs& args, int64_t num_rows);
  absl::StatusOr<std::vector<ProductChoice>> Algorithms(const LinearArgs& args,
                                                        int max_count) const;
  absl::Status RunCublasLt(const LinearArgs& args, const ProductChoice& choice,
                           CudaStream& stream) const;
  absl::StatusOr<ProductChoice> ChoiceFor(const LinearArgs& args);

  const cublasLtHandle_t handle_;
  const DeviceBuffer workspace_;
  ProductChoices choices_;
};

}  // namespace quire::cuda
