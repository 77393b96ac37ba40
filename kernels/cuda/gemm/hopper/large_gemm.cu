#include <algorithm>
#include <iterator>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "kernels/base/check.h"
#include "kernels/cuda/gemm/hopper/float8_gemm.h"
#include "kernels/cuda/gemm/hopper/large_gemm.cuh"
#include "kernels/cuda/gemm/hopper/large_gemm.h"
#include "kernels/cuda/runtime/row_grid.cuh"
#include "kernels/cuda/runtime/tensor_map.h"
#include "kernels/packed_layout.h"

namespace quire::cuda {

namespace {

using Kernel = void (*)(LargeGemmParams);

struct Variant {
  int features;  // of a tile
  bool is_float8, shares_x;
  Kernel bf16, f16;
  int shared_bytes;
};

template <int kFeatures, bool kIsFloat8 = false>
constexpr Variant MakeVariant(bool shares_x = false) {
  using Shape = LargeGemmShape<__nv_bfloat16, kFeatures, kIsFloat8>;
  return {kFeatures,
          kIsFloat8,
          shares_x,
          LargeGemm<Shape>,
          LargeGemm<LargeGemmShape<__half, kFeatures, kIsFloat8>>,
          Shape::kSharedBytes};
}
const Variant kVariants[] = {MakeVariant<256>(),           MakeVariant<224>(),
                             MakeVariant<192>(),           MakeVariant<128>(),
                             MakeVariant<192, true>(),     MakeVariant<128, true>(),
                             MakeVariant<192, true>(true), MakeVariant<128, true>(true)};

constexpr int kNumVariants = std::size(kVariants);

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
  CHECK(variant.is_float8 || FitsVectors(num_columns, {&args.x}));
  CHECK(FitsVectors(num_columns, {&out}));
  const int tile_columns = gated == nullptr ? variant.features : variant.features / 2;
  const GemmMaps maps = MapsOf(args, variant.features / 2, AnyShape::kHalfRows);
  const LargeGemmParams params = {
      .weight_map = maps.weight,
      .x_map = maps.x,
      .out_map = EncodeMatrixMap(out.data(), weight.dtype, num_rows, num_columns, out.row_stride(),
                                 AnyShape::kOutRows),
      .float8 = Float8MatricesOf(args),
      .bias = FloatVector(args.bias),
      .num_columns = num_columns,
      .num_steps = NumLines(weight),
      .shares_x = variant.shares_x,
      .num_row_tiles =
          CeilDiv(num_rows, (variant.shares_x ? 1 : kClusterSize) * AnyShape::kTileRows),
      .num_column_tiles =
          CeilDiv(num_columns, (variant.shares_x ? kClusterSize : 1) * tile_columns),
      .num_gates = gated == nullptr ? 0 : num_columns,
      .activation = gated == nullptr ? Activation::kSilu : gated->activation};
  const int num_clusters = std::min(params.num_row_tiles * params.num_column_tiles, NumPlaces());
  LaunchAs({.cluster_size = kClusterSize}, kernel, dim3(num_clusters * kClusterSize),
           dim3(AnyShape::kThreads), variant.shared_bytes, stream, params);
}

}  // namespace

std::vector<int> LargeGemmVariants(const LinearArgs& args) {
  const LinearWeight& weight = *args.weight;
  const bool fits =
      IsHopper() && FitsTensorMaps(args) && args.out.dtype() == weight.dtype &&
      args.x.dim(0) >= (HasFloat8Tiles(weight) ? kMinFloat8LargeGemmRows : kMinLargeGemmRows) &&
      weight.out_features % (2 * kVector) == 0 && FitsVectors(weight.out_features, {&args.out});
  std::vector<int> variants;
  for (int i = 0; fits && i < kNumVariants; ++i) {
    if (kVariants[i].is_float8 != HasFloat8Tiles(weight)) continue;
    // Whose second tile of rows would be empty.
    if (!kVariants[i].shares_x && args.x.dim(0) <= AnyShape::kTileRows) continue;
    variants.push_back(i);
  }
  return variants;
}

std::string LargeGemmVariantName(int variant) {
  const Variant& v = kVariants[variant];
  return absl::StrCat(v.is_float8 ? "float8-" : "", v.features, v.shares_x ? "-wide" : "");
}

int FindLargeGemmVariant(absl::string_view name) {
  for (int i = 0; i < kNumVariants; ++i) {
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
