#include <algorithm>
#include <map>

#include "kernels/base/check.h"
#include "kernels/base/types.h"
#include "kernels/cuda/experts/expert_gemm.cuh"
#include "kernels/cuda/experts/expert_gemms.h"
#include "kernels/cuda/experts/expert_kernels.h"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/runtime/tensor_map.h"
#include "kernels/cuda/runtime/vector.cuh"

namespace quire::cuda {

namespace {

// Rows of an expert, on average, from which on larger tiles are faster.
constexpr int64_t kMinLargeRows = 40;
constexpr int kLineDepth = 64;

template <typename Element>
ExpertKernel KernelFor(const ExpertGemmArgs& args) {
  const bool is_large = args.routing.num_pairs() >= kMinLargeRows * args.routing.num_experts();
  return is_large ? ExpertKernelFor<Element, 256, 2>(args.is_gated)
                  : ExpertKernelFor<Element, 128, 1>(args.is_gated);
}

// [1, num_experts, out_features, in_features] in boxes of some rows, a line of each.
CUtensorMap MapOf(const LinearWeight& weight, int num_rows) {
  const int64_t row_bytes = weight.in_features * DTypeBytes(weight.dtype);
  const int64_t expert_bytes =
      weight.num_experts > 1 ? weight.expert_bytes : weight.out_features * row_bytes;
  return EncodeTensorMap(
      weight.data, weight.dtype,
      {.sizes = {static_cast<uint64_t>(weight.in_features),
                 static_cast<uint64_t>(weight.out_features),
                 static_cast<uint64_t>(weight.num_experts), 1},
       .strides_bytes = {static_cast<uint64_t>(row_bytes), static_cast<uint64_t>(expert_bytes),
                         static_cast<uint64_t>(weight.num_experts * expert_bytes)},
       .box = {kLineDepth, static_cast<uint32_t>(num_rows), 1, 1}},
      /*swizzled=*/true);
}

// The first launch of a kernel lets it have its shared memory.
void AllowSharedMemory(const ExpertKernel& kernel) {
  static std::map<void (*)(ExpertGemmParams), bool> known;
  bool& allowed = known[kernel.launch];
  if (allowed) return;
  cudaFuncSetAttribute(kernel.launch, cudaFuncAttributeMaxDynamicSharedMemorySize,
                       kernel.shared_bytes);
  allowed = true;
}

}  // namespace

bool HasExpertGemm(const ExpertGemmArgs& args) {
  const bool has_pairs = reinterpret_cast<uintptr_t>(args.out.data()) % 4 == 0 &&
                         args.out.row_stride() % 2 == 0 && args.num_columns() % 2 == 0;
  return IsHopper() && HasExpertGemv(args) && has_pairs;
}

void LaunchExpertGemm(const ExpertGemmArgs& args, cudaStream_t stream) {
  const LinearWeight& weight = *args.weight;
  const ExpertKernel kernel =
      weight.dtype == DType::kF16 ? KernelFor<__half>(args) : KernelFor<__nv_bfloat16>(args);
  AllowSharedMemory(kernel);
  const ExpertGemmCommon common = CommonOf(args);
  const ExpertGemmParams p = {
      common, MapOf(weight, kernel.half_features),
      args.is_gated ? CUtensorMap{}
                    : EncodeMatrixMap(common.x, weight.dtype, args.x.dim(0), weight.in_features,
                                      common.x_stride, kernel.out_rows),
      static_cast<int>(CeilDiv<int64_t>(weight.in_features, kLineDepth)),
      CeilDiv(common.num_columns, kernel.columns)};
  const int64_t most_tiles = args.routing.num_pairs() * p.num_column_tiles;
  LaunchKernel(kernel.launch, static_cast<unsigned>(std::min<int64_t>(most_tiles, NumSms())),
               kernel.num_threads, kernel.shared_bytes, stream, p);
}

}  // namespace quire::cuda
