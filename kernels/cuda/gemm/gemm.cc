#include "kernels/cuda/gemm/gemm.h"

#include <array>
#include <bit>

#include "absl/strings/str_cat.h"
#include "kernels/base/status_macros.h"
#include "kernels/cuda/gemm/gemv.h"
#include "kernels/cuda/gemm/own_gemms.h"
#include "kernels/cuda/gemm/quantized/pack_weights.h"
#include "kernels/cuda/gemm/quantized/quantize_activations.h"
#include "kernels/cuda/gemm/quantized/quantized_gemm.h"
#include "kernels/cuda/gemm/weight_kernels.h"
#include "kernels/cuda/runtime/free_ops.h"
#include "kernels/float8_rows.h"

namespace quire::cuda {

namespace {

constexpr int64_t kWorkspaceBytes = int64_t{32} << 20;  // what cuBLAS recommends for Hopper
constexpr int kMaxCandidates = 16;   // of cuBLASLt; it has some 8 to 16 for a gemm
constexpr int32_t kXAlignment = 16;  // of rows that TMA brings, in bytes

absl::Status ToStatus(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  const std::string text = absl::StrCat(call, ": ", cublasLtGetStatusString(status));
  if (status == CUBLAS_STATUS_ALLOC_FAILED) return absl::ResourceExhaustedError(text);
  return absl::InternalError(text);
}

cudaDataType_t CudaType(DType dtype) {
  return dtype == DType::kF32 ? CUDA_R_32F : dtype == DType::kF16 ? CUDA_R_16F : CUDA_R_16BF;
}

// The largest power of two up to 256 that divides the address of every row.
int32_t Alignment(const void* data, int64_t row_bytes) {
  const uintptr_t bits =
      reinterpret_cast<uintptr_t>(data) | static_cast<uintptr_t>(row_bytes) | 256;
  return static_cast<int32_t>(bits & -bits);
}

int32_t Alignment(const Tensor& tensor) {
  return Alignment(tensor.data(), tensor.row_stride() * DTypeBytes(tensor.dtype()));
}

// The order of a quantized weight's columns; null where it is that of x.
const int32_t* ColumnOrder(const LinearWeight& weight) {
  if (!weight.format.ordered) return nullptr;
  return reinterpret_cast<const int32_t*>(static_cast<const char*>(weight.data) +
                                          PackedLayout(weight).order_at);
}

// cuBLASLt adds a bias of the output's dtype itself.
bool FusesBias(const LinearArgs& args) {
  return !args.bias.empty() && args.bias.dtype() == args.out.dtype();
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

void Note(const LinearArgs& args, const absl::Status& status, CudaStream& stream) {
  if (status.ok()) return;
  stream.errors().Note(absl::InternalError(
      absl::StrCat("Linear of [", args.x.dim(0), ", ", args.weight->in_features, "] ",
                   DTypeName(args.weight->dtype), " to ", args.weight->out_features, " ",
                   DTypeName(args.out.dtype()), ": ", status.message())));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Gemm>> Gemm::Create(Device& device) {
  ASSIGN_OR_RETURN(DeviceBuffer workspace, device.Allocate(kWorkspaceBytes));
  cublasLtHandle_t handle = nullptr;
  RETURN_IF_ERROR(ToStatus(cublasLtCreate(&handle), "cublasLtCreate"));
  return std::unique_ptr<Gemm>(new Gemm(handle, std::move(workspace)));
}

Gemm::~Gemm() { cublasLtDestroy(handle_); }

GemmKey Gemm::KeyOf(const LinearArgs& args) {
  const LinearWeight& weight = *args.weight;
  return {.num_rows = RowBucket(args.x.dim(0)),
          .out_features = weight.out_features,
          .in_features = weight.in_features,
          .format = weight.format,
          .activations = weight.activations,
          .dtype = weight.dtype,
          .x_dtype = args.x.dtype(),
          .out_dtype = args.out.dtype(),
          .fused_bias = FusesBias(args),
          .x_alignment = Alignment(args.x),
          .weight_alignment = Alignment(weight.data, weight.in_features * DTypeBytes(weight.dtype)),
          .out_alignment = Alignment(args.out)};
}

absl::StatusOr<Gemm::Description> Gemm::Describe(const LinearArgs& args, int64_t num_rows) {
  const LinearWeight& weight = *args.weight;
  Description result;
  RETURN_IF_ERROR(
      ToStatus(cublasLtMatmulDescInit(&result.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
               "cublasLtMatmulDescInit"));
  RETURN_IF_ERROR(SetOperation(&result.operation, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T));
  if (FusesBias(args)) {
    const void* bias = args.bias.data();
    RETURN_IF_ERROR(
        SetOperation(&result.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS));
    RETURN_IF_ERROR(SetOperation(&result.operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
                                 CudaType(args.bias.dtype())));
    RETURN_IF_ERROR(SetOperation(&result.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias));
  }
  RETURN_IF_ERROR(InitLayout(&result.weight, weight.dtype, weight.in_features, weight.out_features,
                             weight.in_features));
  RETURN_IF_ERROR(
      InitLayout(&result.x, weight.dtype, weight.in_features, num_rows, args.x.row_stride()));
  RETURN_IF_ERROR(InitLayout(&result.out, args.out.dtype(), weight.out_features, num_rows,
                             args.out.row_stride()));
  return result;
}

// For the bucket's rows, so that the answer does not depend on which of them came first.
absl::StatusOr<std::vector<GemmChoice>> Gemm::Algorithms(const LinearArgs& args,
                                                         int max_count) const {
  const GemmKey key = KeyOf(args);
  ASSIGN_OR_RETURN(Description description, Describe(args, key.num_rows));
  cublasLtMatmulPreferenceOpaque_t preference;
  RETURN_IF_ERROR(
      ToStatus(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit"));
  RETURN_IF_ERROR(SetPreference(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                static_cast<uint64_t>(workspace_.size_bytes())));
  RETURN_IF_ERROR(SetPreference(&preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE}));
  for (auto [attribute, alignment] :
       {std::pair(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.weight_alignment),
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.x_alignment},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.out_alignment},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.out_alignment}}) {
    RETURN_IF_ERROR(SetPreference(&preference, attribute, static_cast<uint32_t>(alignment)));
  }
  cublasLtMatmulHeuristicResult_t found[kMaxCandidates];
  int count = 0;
  RETURN_IF_ERROR(
      ToStatus(cublasLtMatmulAlgoGetHeuristic(handle_, &description.operation, &description.weight,
                                              &description.x, &description.out, &description.out,
                                              &preference, max_count, found, &count),
               "cublasLtMatmulAlgoGetHeuristic"));
  std::vector<GemmChoice> choices(count);
  for (int i = 0; i < count; ++i) {
    choices[i].algorithm = std::bit_cast<std::array<uint64_t, 8>>(found[i].algo);
  }
  if (choices.empty()) return absl::InternalError("cuBLASLt knows no algorithm");
  return choices;
}

absl::StatusOr<std::vector<GemmChoice>> Gemm::Candidates(const LinearArgs& args) const {
  std::vector<GemmChoice> choices;
  for (const OwnGemm& gemm : OwnGemms()) {
    for (const int variant : gemm.variants(args)) {
      choices.push_back({.kernel = gemm.kernel, .variant = variant});
    }
  }
  if (args.weight->format.quantized()) {
    if (choices.empty()) return absl::InternalError("no gemm of ours takes this weight");
    return choices;
  }
  ASSIGN_OR_RETURN(const std::vector<GemmChoice> algorithms, Algorithms(args, kMaxCandidates));
  choices.insert(choices.end(), algorithms.begin(), algorithms.end());
  return choices;
}

absl::StatusOr<GemmChoice> Gemm::ChoiceFor(const LinearArgs& args) {
  const GemmKey key = KeyOf(args);
  if (const auto found = choices_.find(key); found != choices_.end()) return found->second;
  GemmChoice choice;
  if (args.weight->format.quantized()) {
    ASSIGN_OR_RETURN(const std::vector<GemmChoice> candidates, Candidates(args));
    choice = candidates[0];
  } else if (const std::vector<int> variants = GemvVariants(args); !variants.empty()) {
    choice = {.kernel = GemmKernel::kGemv, .variant = variants[0]};
  } else {
    ASSIGN_OR_RETURN(const std::vector<GemmChoice> algorithms, Algorithms(args, 1));
    choice = algorithms[0];
  }
  Choose(key, choice);
  return choice;
}

absl::Status Gemm::RunCublasLt(const LinearArgs& args, const GemmChoice& choice,
                               CudaStream& stream) const {
  ASSIGN_OR_RETURN(Description description, Describe(args, args.x.dim(0)));
  const auto algorithm = std::bit_cast<cublasLtMatmulAlgo_t>(choice.algorithm);
  const float one = 1.0f, zero = 0.0f;
  return ToStatus(
      cublasLtMatmul(handle_, &description.operation, &one, args.weight->data, &description.weight,
                     args.x.data(), &description.x, &zero, args.out.data(), &description.out,
                     args.out.data(), &description.out, &algorithm, workspace_.data(),
                     static_cast<size_t>(workspace_.size_bytes()), stream.handle()),
      "cublasLtMatmul");
}

template <typename Args, typename Launch>
void Gemm::ForRowsWithX(const Args& args, const GemmChoice& choice, CudaStream& stream,
                        const Launch& launch) const {
  const LinearWeight& weight = *args.weight;
  const int32_t* const order = ColumnOrder(weight);
  const bool is_float8 = args.x.dtype() == DType::kF8E4M3;
  const bool to_float8 =
      HasFloat8Tiles(weight) && !is_float8 && choice.kernel != GemmKernel::kQuantized;
  if (is_float8 || !weight.format.quantized() ||
      (!to_float8 && order == nullptr && Alignment(args.x) >= kXAlignment)) {
    return launch(args);
  }
  const int64_t element_bytes = DTypeBytes(weight.dtype);
  const int64_t stride = RoundUp(weight.in_features, kXAlignment / element_bytes);
  const int64_t max_rows = to_float8
                               ? Float8Rows::MaxRows(workspace_.size_bytes(), weight.in_features)
                               : workspace_.size_bytes() / (stride * element_bytes);
  // In parts of one size: the choice is for many rows, and its tiles may be larger than a rest.
  const int64_t num_parts = CeilDiv(args.x.dim(0), max_rows);
  const int64_t part_rows = CeilDiv(args.x.dim(0), num_parts);
  for (int64_t first = 0; first < args.x.dim(0); first += part_rows) {
    const int64_t num_rows = std::min(part_rows, args.x.dim(0) - first);
    const Tensor x = args.x.Rows(first, num_rows);
    Args part = args;
    part.out = args.out.Rows(first, num_rows);
    if (to_float8) {
      const Float8Rows rows(num_rows, weight.in_features, workspace_.data());
      part.x = rows.tensor();
      stream.Run("quantizing activations", [&](cudaStream_t s) { LaunchQuantizeRows(x, rows, s); });
    } else {
      part.x = Tensor(workspace_.data(), weight.dtype, {num_rows, weight.in_features})
                   .WithRowStride(stride);
      stream.Run("ordering columns",
                 [&](cudaStream_t s) { LaunchOrderColumns(x, order, part.x, s); });
    }
    launch(part);
  }
}

absl::Status Gemm::Run(const LinearArgs& args, const GemmChoice& choice, CudaStream& stream) const {
  if (const OwnGemm* gemm = FindOwnGemm(choice.kernel); gemm != nullptr) {
    ForRowsWithX(args, choice, stream, [&](const LinearArgs& part) {
      stream.Run("Linear", [&](cudaStream_t s) { gemm->launch(part, choice.variant, s); });
    });
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(RunCublasLt(args, choice, stream));
  if (!args.bias.empty() && !FusesBias(args)) {
    stream.Run("adding a bias", [&](cudaStream_t s) { LaunchAddBias(args.bias, args.out, s); });
  }
  return absl::OkStatus();
}

absl::Status Gemm::Run(const GatedLinearArgs& args, const GemmChoice& choice,
                       CudaStream& stream) const {
  const bool is_fused = !args.weight->format.quantized() || HasWholeGateBlocks(*args.weight);
  if (const OwnGemm* gemm = FindOwnGemm(choice.kernel); gemm != nullptr && is_fused) {
    ForRowsWithX(args, choice, stream, [&](const GatedLinearArgs& part) {
      stream.Run("GatedLinear",
                 [&](cudaStream_t s) { gemm->launch_gated(part, choice.variant, s); });
    });
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(Run(args.Linear(), choice, stream));
  stream.Run("GatedLinear", [&](cudaStream_t s) { LaunchGatedActivation(args.Activate(), s); });
  return absl::OkStatus();
}

void Gemm::Linear(const LinearArgs& args, CudaStream& stream) {
  if (args.x.dim(0) == 0) return;
  const absl::StatusOr<GemmChoice> choice = ChoiceFor(args);
  Note(args, choice.ok() ? Run(args, *choice, stream) : choice.status(), stream);
}

void Gemm::GatedLinear(const GatedLinearArgs& args, CudaStream& stream) {
  const LinearArgs linear = args.Linear();
  if (args.x.dim(0) == 0) return;
  const absl::StatusOr<GemmChoice> choice = ChoiceFor(linear);
  Note(linear, choice.ok() ? Run(args, *choice, stream) : choice.status(), stream);
}

}  // namespace quire::cuda
