#include "kernels/cuda/matmul.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/base/status_macros.h"
#include "kernels/cuda/kernels.h"

namespace quire::cuda {

namespace {

constexpr int64_t kWorkspaceBytes = int64_t{32} << 20;  // what cuBLAS recommends for Hopper

absl::Status ToStatus(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(call, ": ", cublasLtGetStatusString(status)));
}

cudaDataType_t CudaType(DType dtype) { return dtype == DType::kF32 ? CUDA_R_32F : CUDA_R_16BF; }

// The largest power of two up to 256 that divides the address.
uint32_t Alignment(const void* data) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(data) | 256;
  return static_cast<uint32_t>(address & -address);
}

template <typename T>
absl::Status SetOperation(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute,
                          const T& value) {
  return ToStatus(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof(T)),
                  "cublasLtMatmulDescSetAttribute");
}

template <typename T>
absl::Status SetPreference(cublasLtMatmulPreference_t preference,
                           cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
  return ToStatus(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(T)),
                  "cublasLtMatmulPreferenceSetAttribute");
}

absl::Status InitLayout(cublasLtMatrixLayout_t layout, DType dtype, int64_t rows, int64_t cols,
                        int64_t stride) {
  return ToStatus(cublasLtMatrixLayoutInit(layout, CudaType(dtype), rows, cols, stride),
                  "cublasLtMatrixLayoutInit");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Matmul>> Matmul::Create(Device& device) {
  ASSIGN_OR_RETURN(DeviceBuffer workspace, device.Allocate(kWorkspaceBytes));
  cublasLtHandle_t handle = nullptr;
  RETURN_IF_ERROR(ToStatus(cublasLtCreate(&handle), "cublasLtCreate"));
  return std::unique_ptr<Matmul>(new Matmul(handle, std::move(workspace)));
}

Matmul::~Matmul() { cublasLtDestroy(handle_); }

// cuBLASLt adds a bias of the output's dtype itself.
Matmul::Problem Matmul::ProblemOf(const LinearArgs& args) {
  return {.num_rows = args.x.dim(0),
          .out_features = args.weight->out_features,
          .in_features = args.weight->in_features,
          .x_stride = args.x.row_stride(),
          .out_stride = args.out.row_stride(),
          .dtype = args.weight->dtype,
          .out_dtype = args.out.dtype(),
          .fused_bias = !args.bias.empty() && args.bias.dtype() == args.out.dtype(),
          .x_alignment = Alignment(args.x.data()),
          .weight_alignment = Alignment(args.weight->data),
          .out_alignment = Alignment(args.out.data())};
}

absl::Status Matmul::ChooseAlgorithm(const Problem& problem, Plan* plan) const {
  cublasLtMatmulPreferenceOpaque_t preference;
  RETURN_IF_ERROR(
      ToStatus(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit"));
  RETURN_IF_ERROR(SetPreference(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                static_cast<uint64_t>(workspace_.size_bytes())));
  RETURN_IF_ERROR(SetPreference(&preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE}));
  RETURN_IF_ERROR(SetPreference(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                                problem.weight_alignment));
  RETURN_IF_ERROR(
      SetPreference(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, problem.x_alignment));
  RETURN_IF_ERROR(SetPreference(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                                problem.out_alignment));
  RETURN_IF_ERROR(SetPreference(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
                                problem.out_alignment));
  cublasLtMatmulHeuristicResult_t candidate;
  int num_candidates = 0;
  RETURN_IF_ERROR(ToStatus(
      cublasLtMatmulAlgoGetHeuristic(handle_, &plan->operation, &plan->weight, &plan->x, &plan->out,
                                     &plan->out, &preference, 1, &candidate, &num_candidates),
      "cublasLtMatmulAlgoGetHeuristic"));
  if (num_candidates == 0) return absl::InternalError("cuBLASLt knows no algorithm");
  plan->algorithm = candidate.algo;
  return absl::OkStatus();
}

absl::StatusOr<Matmul::Plan> Matmul::MakePlan(const Problem& problem) const {
  Plan plan;
  RETURN_IF_ERROR(ToStatus(cublasLtMatmulDescInit(&plan.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                           "cublasLtMatmulDescInit"));
  RETURN_IF_ERROR(SetOperation(&plan.operation, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T));
  if (problem.fused_bias) {
    RETURN_IF_ERROR(
        SetOperation(&plan.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS));
    RETURN_IF_ERROR(SetOperation(&plan.operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
                                 CudaType(problem.out_dtype)));
  }
  RETURN_IF_ERROR(InitLayout(&plan.weight, problem.dtype, problem.in_features, problem.out_features,
                             problem.in_features));
  RETURN_IF_ERROR(
      InitLayout(&plan.x, problem.dtype, problem.in_features, problem.num_rows, problem.x_stride));
  RETURN_IF_ERROR(InitLayout(&plan.out, problem.out_dtype, problem.out_features, problem.num_rows,
                             problem.out_stride));
  RETURN_IF_ERROR(ChooseAlgorithm(problem, &plan));
  return plan;
}

absl::StatusOr<Matmul::Plan*> Matmul::PlanFor(const Problem& problem) {
  const auto found = plans_.find(problem);
  if (found != plans_.end()) return found->second.get();
  ASSIGN_OR_RETURN(const Plan plan, MakePlan(problem));
  return plans_.emplace(problem, std::make_unique<Plan>(plan)).first->second.get();
}

void Matmul::Linear(const LinearArgs& args, CudaStream& stream) {
  const Problem problem = ProblemOf(args);
  if (problem.num_rows == 0) return;
  const auto run = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(Plan* const plan, PlanFor(problem));
    if (problem.fused_bias) {
      const void* bias = args.bias.data();
      RETURN_IF_ERROR(SetOperation(&plan->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias));
    }
    const float one = 1.0f, zero = 0.0f;
    return ToStatus(
        cublasLtMatmul(handle_, &plan->operation, &one, args.weight->data, &plan->weight,
                       args.x.data(), &plan->x, &zero, args.out.data(), &plan->out, args.out.data(),
                       &plan->out, &plan->algorithm, workspace_.data(),
                       static_cast<size_t>(workspace_.size_bytes()), stream.handle()),
        "cublasLtMatmul");
  };
  if (const absl::Status status = run(); !status.ok()) {
    stream.errors().Note(absl::InternalError(absl::StrCat(
        "Linear of [", problem.num_rows, ", ", problem.in_features, "] ", DTypeName(problem.dtype),
        " to ", problem.out_features, " ", DTypeName(problem.out_dtype), ": ", status.message())));
  }
  if (!args.bias.empty() && !problem.fused_bias) {
    stream.Run("adding a bias", [&](cudaStream_t s) { LaunchAddBias(args.bias, args.out, s); });
  }
}

}  // namespace quire::cuda
