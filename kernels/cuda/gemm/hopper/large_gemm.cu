#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "kernels/base/check.h"
#include "kernels/cuda/gemm/hopper/float8_gemm.h"
#include "kernels/cuda/gemm/hopper/large_gemm.h"
#include "kernels/cuda/gemm/hopper/large_gemm_kernels.h"
#include "kernels/cuda/gemm/hopper/large_gemm_shape.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/runtime/row_grid.cuh"
#include "kernels/cuda/runtime/tensor_map.h"
#include "kernels/float8_rows.h"
#include "kernels/packed_layout.h"

namespace quire::cuda {

namespace {

// A tile's features, whether of e4m3, computing warpgroups, whether a pair of CTAs shares x, and
// the pairs that share out in_features.
struct Variant {
  int features;
  bool is_float8;
  int warpgroups;
  bool shares_x;
  int splits;
};
constexpr Variant kVariants[] = {
    {256, false, 2, false, 1}, {224, false, 2, false, 1}, {192, false, 2, false, 1},
    {128, false, 2, false, 1}, {192, true, 2, false, 1},  {128, true, 2, false, 1},
    {128, true, 3, false, 1},  {192, true, 2, true, 1},   {128, true, 2, true, 1},
    {128, true, 3, true, 1},   {128, true, 2, true, 2},   {128, true, 3, true, 2}};
constexpr int kNumVariants = std::size(kVariants);

template <typename Element>
LargeKernel KernelFor(const Variant& v) {
  if (v.is_float8) {
    if (v.features == 192) return LargeKernelFor<Element, true, 192, 2>();
    return v.warpgroups == 3 ? LargeKernelFor<Element, true, 128, 3>()
                             : LargeKernelFor<Element, true, 128, 2>();
  }
  switch (v.features) {
    case 256:
      return LargeKernelFor<Element, false, 256, 2>();
    case 224:
      return LargeKernelFor<Element, false, 224, 2>();
    case 192:
      return LargeKernelFor<Element, false, 192, 2>();
    default:
      return LargeKernelFor<Element, false, 128, 2>();
  }
}
LargeKernel KernelFor(const Variant& v, DType dtype) {
  return dtype == DType::kF16 ? KernelFor<__half>(v) : KernelFor<__nv_bfloat16>(v);
}

constexpr int kPairSize = LargeGemmShape<__half, 256, false, 2>::kPairSize;
constexpr int kOutRows = LargeGemmShape<__half, 256, false, 2>::kOutRows;

// Pairs that the device holds at a time: a CTA takes a multiprocessor.
int NumPlaces() { return NumSms() / kPairSize; }

// The first call lets the kernels have their shared memory.
void AllowSharedMemory() {
  [[maybe_unused]] static const bool allowed = [] {
    for (const Variant& v : kVariants) {
      for (const DType dtype : {DType::kBF16, DType::kF16}) {
        const LargeKernel kernel = KernelFor(v, dtype);
        cudaFuncSetAttribute(kernel.launch, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             kernel.shared_bytes);
      }
    }
    return true;
  }();
}

// Pairs of tiles, of rows and of columns.
struct Tiles {
  int rows, columns;
};
Tiles TilesOf(const Variant& v, const LargeKernel& kernel, int64_t num_rows, int64_t num_features) {
  const int64_t tile_rows = (v.shares_x ? 1 : kPairSize) * kernel.tile_rows;
  const int64_t tile_columns = (v.shares_x ? kPairSize : 1) * v.features;
  return {static_cast<int>(CeilDiv(num_rows, tile_rows)),
          static_cast<int>(CeilDiv(num_features, tile_columns))};
}

// To `out`: args.out, or the result of `gated`, whose gemm it is.
void Launch(const LinearArgs& args, const Tensor& out, const GatedLinearArgs* gated, int number,
            cudaStream_t stream) {
  AllowSharedMemory();
  const LinearWeight& weight = *args.weight;
  const Variant& v = kVariants[number];
  const LargeKernel kernel = KernelFor(v, weight.dtype);
  const auto num_rows = static_cast<int>(args.x.dim(0));
  const auto num_columns =
      static_cast<int>(gated == nullptr ? weight.out_features : weight.out_features / 2);
  CHECK(v.is_float8 || FitsVectors(num_columns, {&args.x}));
  CHECK(FitsVectors(num_columns, {&out}));
  // Scales of x are read for a tile's rows at a time.
  CHECK(!v.is_float8 || Float8Rows(args.x).scale_stride() % kernel.tile_rows == 0);
  const GemmMaps maps = MapsOf(args, v.features / 2, kernel.tile_rows / kPairSize);
  const Tiles tiles =
      TilesOf(v, kernel, num_rows, gated == nullptr ? num_columns : 2 * num_columns);
  const LargeGemmParams params = {
      .weight_map = maps.weight,
      .x_map = maps.x,
      .out_map = EncodeMatrixMap(out.data(), weight.dtype, num_rows, num_columns, out.row_stride(),
                                 kOutRows),
      .float8 = Float8MatricesOf(args),
      .bias = FloatVector(args.bias),
      .out = out.data(),
      .out_stride = out.row_stride(),
      .num_rows = num_rows,
      .num_columns = num_columns,
      .num_steps = NumLines(weight),
      .num_splits = v.splits,
      .shares_x = v.shares_x,
      .num_row_tiles = tiles.rows,
      .num_column_tiles = tiles.columns,
      .num_gates = gated == nullptr ? 0 : num_columns,
      .activation = gated == nullptr ? Activation::kSilu : gated->activation};
  const int num_tiles = tiles.rows * tiles.columns;
  const int num_clusters = v.splits > 1 ? num_tiles : std::min(num_tiles, NumPlaces());
  const int cluster_size = v.splits * kPairSize;
  LaunchAs({.cluster_size = cluster_size}, kernel.launch, dim3(num_clusters * cluster_size),
           dim3(kernel.num_threads), kernel.shared_bytes, stream, params);
}

// Whether the kernel computes it, and it is worth a try: no tile of rows that would be mostly
// empty; in_features are shared out only where tiles are too few for the device.
bool MayBeFast(const Variant& v, const LinearArgs& args) {
  const LinearWeight& weight = *args.weight;
  if (v.is_float8 != HasFloat8Tiles(weight)) return false;
  const LargeKernel kernel = KernelFor(v, weight.dtype);
  const int64_t num_rows = args.x.dim(0);
  if (!v.shares_x && num_rows <= kernel.tile_rows) return false;
  if (v.warpgroups == 3 && num_rows <= 2 * kOutRows) return false;
  if (v.splits == 1) return true;
  const Tiles tiles = TilesOf(v, kernel, num_rows, weight.out_features);
  return NumLines(weight) >= 2 * v.splits && tiles.rows * tiles.columns * v.splits <= NumPlaces();
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
    if (MayBeFast(kVariants[i], args)) variants.push_back(i);
  }
  return variants;
}

std::string LargeGemmVariantName(int variant) {
  const Variant& v = kVariants[variant];
  return absl::StrCat(v.is_float8 ? "float8-" : "", v.features, v.warpgroups == 3 ? "x3" : "",
                      v.shares_x ? "-wide" : "", v.splits > 1 ? absl::StrCat("-", v.splits) : "");
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
