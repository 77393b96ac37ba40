#include <algorithm>
#include <iterator>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "kernels/base/check.h"
#include "kernels/cuda/gemm/hopper/large_gemm.cuh"
#include "kernels/cuda/gemm/hopper/large_gemm.h"
#include "kernels/cuda/runtime/row_grid.cuh"
#include "kernels/cuda/runtime/tensor_map.h"

namespace quire::cuda {

namespace {

using Kernel = void (*)(LargeGemmParams);

struct Variant {
  int features;  // of a tile
  Kernel bf16, f16;
  int shared_bytes;
};

template <int kFeatures>
constexpr Variant MakeVariant() {
  using Shape = LargeGemmShape<__nv_bfloat16, kFeatures>;
  return {kFeatures, LargeGemm<Shape>, LargeGemm<LargeGemmShape<__half, kFeatures>>,
          Shape::kSharedBytes};
}
const Variant kVariants[] = {MakeVariant<256>(), MakeVariant<224>(), MakeVariant<192>(),
                             MakeVariant<128>()};

using AnyShape = LargeGemmShape<__half, 256>;
constexpr int kClusterSize = AnyShape::kClusterSize;

// Clusters that the device holds at a time: a CTA takes a multiprocessor. The first call lets the
// kernels have their shared memory.
int NumPlaces() {
  static const int num_places = [] {
    for (const Variant& variant : kVariants) {
      for (const Kernel kernel : {variant.bf16, variant.f16}) {
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             variant.shared_bytes);
      }
    }
    return NumSms() / kClusterSize;
  }();
  return num_places;
}

// To `out`: args.out, or the result of `gated`, whose gemm it is.
void Launch(const LinearArgs& args, const Tensor& out, const GatedLinearArgs* gated, int number,
            cudaStream_t stream) {
  const LinearWeight& weight = *args.weight;
  const Variant& variant = kVariants[number];
  const Kernel kernel = weight.dtype == DType::kF16 ? variant.f16 : variant.bf16;
  const auto num_rows = static_cast<int>(args.x.dim(0));
  const auto num_columns =
      static_cast<int>(gated == nullptr ? weight.out_features : weight.out_features / 2);
  CHECK(FitsVectors(num_columns, {&args.x, &out}));
  const int tile_columns = gated == nullptr ? variant.features : variant.features / 2;
  const LargeGemmParams params = {
      .weight_map = EncodeMatrixMap(weight.data, weight.dtype, weight.out_features,
                                    weight.in_features, weight.in_features, variant.features / 2),
      .x_map = EncodeMatrixMap(args.x.data(), weight.dtype, num_rows, weight.in_features,
                               args.x.row_stride(), AnyShape::kTileRows),
      .out_map = EncodeMatrixMap(out.data(), weight.dtype, num_rows, num_columns, out.row_stride(),
                                 AnyShape::kOutRows),
      .bias = FloatVector(args.bias),
      .num_columns = num_columns,
      .num_steps = static_cast<int>(CeilDiv<int64_t>(weight.in_features, AnyShape::kLineDepth)),
      .num_row_pairs = CeilDiv(num_rows, kClusterSize * AnyShape::kTileRows),
      .num_column_tiles = CeilDiv(num_columns, tile_columns),
      .num_gates = gated == nullptr ? 0 : num_columns,
      .activation = gated == nullptr ? Activation::kSilu : gated->activation};
  const int num_clusters = std::min(params.num_row_pairs * params.num_column_tiles, NumPlaces());
  LaunchClusters(kernel, kClusterSize, dim3(num_clusters * kClusterSize), dim3(AnyShape::kThreads),
                 variant.shared_bytes, stream, params);
}

}  // namespace

std::vector<int> LargeGemmVariants(const LinearArgs& args) {
  const LinearWeight& weight = *args.weight;
  const Tensor rows(weight.data, weight.dtype, {weight.out_features, weight.in_features});
  const bool fits = IsHopper() && !weight.format.quantized() && weight.dtype != DType::kF32 &&
                    args.out.dtype() == weight.dtype && args.x.dim(0) >= kMinLargeGemmRows &&
                    FitsVectors(weight.in_features, {&args.x, &rows}) &&
                    weight.out_features % (2 * kVector) == 0 &&
                    FitsVectors(weight.out_features, {&args.out});
  std::vector<int> variants(fits ? std::size(kVariants) : 0);
  std::iota(variants.begin(), variants.end(), 0);
  return variants;
}

std::string LargeGemmVariantName(int variant) { return absl::StrCat(kVariants[variant].features); }

int FindLargeGemmVariant(absl::string_view name) {
  for (int i = 0; i < static_cast<int>(std::size(kVariants)); ++i) {
    if (LargeGemmVariantName(i) == name) return i;
  }
  return -1;
}

void LaunchLargeGemm(const LinearArgs& args, int variant, cudaStream_t stream) {
  Launch(args, args.out, nullptr, variant, stream);
}

void LaunchGatedLargeGemm(const GatedLinearArgs& args, int variant, cudaStream_t stream) {
  Launch(args.Linear(), args.out, &args, variant, stream);
}

}  // namespace quire::cuda
