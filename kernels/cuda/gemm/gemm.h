// Gemm: gemms with a weight, through our own kernels for few rows (gemv.h, hopper/hopper_gemm.h)
// and for quantized weights (quantized/quantized_gemm.h), or cuBLASLt. How a gemm is computed is
// chosen per GemmKey: what was measured (gemm_tuner.h), or else the gemv's default variant or the
// first answer of cuBLASLt's heuristic; never by timing on the way. Sums are float32 throughout (no
// TF32, no split sums in bfloat16). One thread, and one stream at a time, because all gemms share a
// workspace whose address never changes.
#pragma once

#include <cublasLt.h>

#include <memory>
#include <utility>
#include <vector>

#include "kernels/cuda/gemm/gemm_choice.h"
#include "kernels/cuda/runtime/cuda_device.h"
#include "kernels/cuda/runtime/cuda_stream.h"
#include "kernels/op_args.h"

namespace quire::cuda {

class Gemm {
 public:
  static absl::StatusOr<std::unique_ptr<Gemm>> Create(Device& device);
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  // out = x * weight^T + bias. Errors are noted on the stream.
  void Linear(const LinearArgs& args, CudaStream& stream);
  // Chosen like Linear of that shape: what was measured is what the model has.
  void GatedLinear(const GatedLinearArgs& args, CudaStream& stream);

  static GemmKey KeyOf(const LinearArgs& args);
  // What Linear may choose from for these arguments, its own choice first; INTERNAL when nothing
  // can compute them.
  absl::StatusOr<std::vector<GemmChoice>> Candidates(const LinearArgs& args) const;
  // As `choice` has it; an error that the launch reports is returned, not noted.
  absl::Status Run(const LinearArgs& args, const GemmChoice& choice, CudaStream& stream) const;
  absl::Status Run(const GatedLinearArgs& args, const GemmChoice& choice, CudaStream& stream) const;
  // From now on Linear computes such gemms so.
  void Choose(const GemmKey& key, const GemmChoice& choice) { choices_[key] = choice; }

 private:
  // A gemm in cuBLASLt's terms. Its matrices are column-major: out^T = weight * x^T.
  struct Description {
    cublasLtMatmulDescOpaque_t operation;
    cublasLtMatrixLayoutOpaque_t weight, x, out;
  };

  Gemm(cublasLtHandle_t handle, DeviceBuffer workspace)
      : handle_(handle), workspace_(std::move(workspace)) {}

  static absl::StatusOr<Description> Describe(const LinearArgs& args, int64_t num_rows);
  absl::StatusOr<std::vector<GemmChoice>> Algorithms(const LinearArgs& args, int max_count) const;
  // Calls launch(args), or for quantized weights of which x is not as the variant reads it launch
  // of some rows at a time, with their x in the workspace.
  template <typename Args, typename Launch>
  void ForRowsWithX(const Args& args, const GemmChoice& choice, CudaStream& stream,
                    const Launch& launch) const;
  absl::Status RunCublasLt(const LinearArgs& args, const GemmChoice& choice,
                           CudaStream& stream) const;
  absl::StatusOr<GemmChoice> ChoiceFor(const LinearArgs& args);

  const cublasLtHandle_t handle_;
  const DeviceBuffer workspace_;
  GemmChoices choices_;
};

}  // namespace quire::cuda
