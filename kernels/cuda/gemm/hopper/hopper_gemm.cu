#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "kernels/base/check.h"
#include "kernels/cuda/gemm/hopper/float8_gemm.h"
#include "kernels/cuda/gemm/hopper/hopper_gemm.cuh"
#include "kernels/cuda/gemm/hopper/hopper_gemm.h"
#include "kernels/cuda/gemm/hopper/large_gemm.h"
#include "kernels/cuda/runtime/row_grid.cuh"
#include "kernels/cuda/runtime/tensor_map.h"
#include "kernels/packed_layout.h"

namespace quire::cuda {

namespace {

using Kernel = void (*)(HopperGemmParams);

// The kernels for a tile size.
struct TileKernels {
  int features;
  bool is_float8;
  Kernel bf16, f16;
  int step_depth, max_stages;
  int (*stage_bytes)(int num_x_rows);
  int (*fixed_bytes)(int num_splits, int num_x_rows);
};

constexpr int kTileRows = HopperGemmShape<__half, 32>::kTileRows;

template <int kFeatures, bool kIsFloat8 = false>
constexpr TileKernels MakeKernels() {
  using Shape = HopperGemmShape<__nv_bfloat16, kFeatures, kIsFloat8>;
  static_assert(Shape::kTileRows == kTileRows);
  return {kFeatures,         kIsFloat8,
          HopperGemm<Shape>, HopperGemm<HopperGemmShape<__half, kFeatures, kIsFloat8>>,
          Shape::kStepDepth, Shape::kMaxStages,
          Shape::StageBytes, Shape::FixedBytes};
}
// In the order of features; those of e4m3 last.
const TileKernels kTiles[] = {
    MakeKernels<32>(),       MakeKernels<48>(),        MakeKernels<64>(),
    MakeKernels<80>(),       MakeKernels<96>(),        MakeKernels<112>(),
    MakeKernels<128>(),      MakeKernels<32, true>(),  MakeKernels<64, true>(),
    MakeKernels<96, true>(), MakeKernels<128, true>(), MakeKernels<160, true>()};
constexpr int kNum16BitTiles = 7;
constexpr int kNumTiles = std::size(kTiles);
constexpr int kNumThreads = HopperGemmShape<__half, 32>::kThreads;

// How a gemm is divided: the tile, CTAs that share out in_features, and the shared memory that a
// CTA takes at most, of which its ring is made.
constexpr int kSplits[] = {1, 2, 4}, kSharedKib[] = {110, 200};
constexpr int kNumSplits = std::size(kSplits), kNumSharedKib = std::size(kSharedKib);
struct Variant {
  int tile, splits, shared_kib;

  const TileKernels& kernels() const { return kTiles[tile]; }
  static Variant Of(int number) {
    return {number % kNumTiles, kSplits[number / kNumTiles % kNumSplits],
            kSharedKib[number / kNumTiles / kNumSplits]};
  }
};
constexpr int kNumVariants = kNumTiles * kNumSplits * kNumSharedKib;

struct Plan {
  Kernel kernel;
  int num_x_rows, num_row_tiles, num_steps, num_tiles, num_stages, shared_bytes;
};

// num_stages is 0 where shared memory is too small for the variant.
Plan MakePlan(const LinearArgs& args, const Variant& v, bool is_gated) {
  const LinearWeight& weight = *args.weight;
  const auto num_rows = static_cast<int>(args.x.dim(0));
  const TileKernels& kernel = v.kernels();
  const int features = is_gated ? kernel.features / 2 : kernel.features;
  Plan plan = {
      .kernel = weight.dtype == DType::kF16 ? kernel.f16 : kernel.bf16,
      .num_x_rows = std::min(RoundUp(num_rows, 8), kTileRows),
      .num_row_tiles = CeilDiv(num_rows, kTileRows),
      .num_steps = static_cast<int>(CeilDiv<int64_t>(weight.in_features, kernel.step_depth)),
      .num_tiles = static_cast<int>(
          CeilDiv<int64_t>(is_gated ? weight.out_features / 2 : weight.out_features, features)),
      .num_stages = 0,
      .shared_bytes = 0};
  const int fixed_bytes = kernel.fixed_bytes(v.splits, plan.num_x_rows);
  const int stage_bytes = kernel.stage_bytes(plan.num_x_rows);
  constexpr int kMinStages = 3;
  const int num_stages =
      std::min((v.shared_kib * 1024 - fixed_bytes) / stage_bytes, kernel.max_stages);
  if (num_stages < kMinStages) return plan;
  plan.num_stages = num_stages;
  plan.shared_bytes = fixed_bytes + num_stages * stage_bytes;
  return plan;
}

// Clusters of a kernel that the device holds at a time.
int NumPlaces(const Plan& plan, int cluster_size) {
  static std::map<std::tuple<Kernel, int, int>, int> known;
  int& places = known[{plan.kernel, cluster_size, plan.shared_bytes}];
  if (places > 0) return places;
  cudaFuncSetAttribute(plan.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                       kSharedKib[std::size(kSharedKib) - 1] * 1024);
  cudaLaunchAttribute cluster;
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {static_cast<unsigned int>(cluster_size), 1, 1};
  const cudaLaunchConfig_t config = {.gridDim = dim3(cluster_size),
                                     .blockDim = dim3(kNumThreads),
                                     .dynamicSmemBytes = static_cast<size_t>(plan.shared_bytes),
                                     .stream = nullptr,
                                     .attrs = &cluster,
                                     .numAttrs = 1};
  cudaOccupancyMaxActiveClusters(&places, plan.kernel, &config);
  return places = std::max(places, 1);
}

// Whether the results of a row are aligned pairs, which the kernel stores. Those of a gated gemm
// are half as many.
bool HasPairs(const Tensor& out) {
  return reinterpret_cast<uintptr_t>(out.data()) % (2 * DTypeBytes(out.dtype())) == 0 &&
         out.row_stride() % 2 == 0 && out.dim(1) % 2 == 0;
}

// To `out`: args.out, or the result of `gated`, whose gemm it is.
void Launch(const LinearArgs& args, const Tensor& out, const GatedLinearArgs* gated, int variant,
            cudaStream_t stream) {
  const LinearWeight& weight = *args.weight;
  const Variant v = Variant::Of(variant);
  const Plan plan = MakePlan(args, v, gated != nullptr);
  CHECK_GT(plan.num_stages, 0);
  CHECK(HasPairs(out) || v.kernels().is_float8);
  const GemmMaps maps = MapsOf(args, v.kernels().features / 2, plan.num_x_rows);
  const HopperGemmParams params = {
      .weight_map = maps.weight,
      .x_map = maps.x,
      .float8 = Float8MatricesOf(args),
      .bias = FloatVector(args.bias),
      .out = out.data(),
      .out_stride = out.row_stride(),
      .has_pairs = HasPairs(out),
      .num_rows = static_cast<int>(args.x.dim(0)),
      .out_features = static_cast<int>(weight.out_features),
      .num_x_rows = plan.num_x_rows,
      .num_lines = NumLines(weight),
      .num_steps = plan.num_steps,
      .num_tiles = plan.num_tiles,
      .num_stages = plan.num_stages,
      .num_splits = v.splits,
      .out_is_float = out.dtype() == DType::kF32,
      .num_gates = gated == nullptr ? 0 : static_cast<int>(weight.out_features / 2),
      .activation = gated == nullptr ? Activation::kSilu : gated->activation};
  const int places = std::max(1, NumPlaces(plan, v.splits) / plan.num_row_tiles);
  const dim3 grid(std::min(plan.num_tiles, places) * v.splits, plan.num_row_tiles);
  LaunchAs({.cluster_size = v.splits}, plan.kernel, grid, dim3(kNumThreads), plan.shared_bytes,
           stream, params);
}

// The smallest tile with which every CTA has a place of its own, so that none has more to do than
// others, and the next two as long as a third of the places is used: fewer CTAs read x less often.
// For weights too large for that the largest three, but none where there are more rows than a tile
// has. A multiprocessor has a place, or two where their shared memory leaves room.
bool MayBeFast(const Variant& v, int64_t num_rows, int64_t out_features) {
  const int places = v.shared_kib == kSharedKib[0] ? 2 * NumSms() : NumSms();
  const bool is_float8 = v.kernels().is_float8;
  const int begin = is_float8 ? kNum16BitTiles : 0, end = is_float8 ? kNumTiles : kNum16BitTiles;
  const auto num_ctas = [&](int tile) {
    return CeilDiv<int64_t>(out_features, kTiles[tile].features) *
           CeilDiv<int64_t>(num_rows, kTileRows) * v.splits;
  };
  constexpr int kLargest = 3;
  if (num_ctas(v.tile) > places) {
    return num_rows <= kTileRows && v.splits == 1 && v.tile >= end - kLargest &&
           num_ctas(end - 1) > places;
  }
  int num_smaller = 0;
  while (num_smaller < v.tile - begin && num_ctas(v.tile - num_smaller - 1) <= places)
    ++num_smaller;
  return num_smaller == 0 || (num_smaller <= 2 && 3 * num_ctas(v.tile) >= places);
}

}  // namespace

std::string HopperGemmVariantName(int variant) {
  const Variant v = Variant::Of(variant);
  return absl::StrCat(v.kernels().is_float8 ? "float8-" : "", v.kernels().features, "x", v.splits,
                      "x", v.shared_kib);
}

int FindHopperGemmVariant(absl::string_view name) {
  for (int i = 0; i < kNumVariants; ++i) {
    if (HopperGemmVariantName(i) == name) return i;
  }
  return -1;
}

std::vector<int> HopperGemmVariants(const LinearArgs& args) {
  const LinearWeight& weight = *args.weight;
  const bool is_float8 = HasFloat8Tiles(weight);
  const int64_t num_rows = args.x.dim(0);
  const bool fits = IsHopper() && FitsTensorMaps(args) &&
                    (is_float8 || (num_rows >= kMinHopperGemmRows && HasPairs(args.out) &&
                                   weight.out_features % 4 == 0));
  std::vector<int> variants;
  for (int i = 0; fits && num_rows <= kMaxHopperGemmRows && i < kNumVariants; ++i) {
    const Variant v = Variant::Of(i);
    if (v.kernels().is_float8 != is_float8 || MakePlan(args, v, false).num_stages == 0 ||
        !MayBeFast(v, num_rows, weight.out_features)) {
      continue;
    }
    variants.push_back(i);
  }
  // Of e4m3 there is no other gemm.
  if (fits && is_float8 && variants.empty() && LargeGemmVariants(args).empty()) {
    variants.push_back(kNumTiles - 1);
  }
  return variants;
}

void LaunchHopperGemm(const LinearArgs& args, int variant, cudaStream_t stream) {
  Launch(args, args.out, nullptr, variant, stream);
}

void LaunchGatedHopperGemm(const GatedLinearArgs& args, int variant, cudaStream_t stream) {
  Launch(args.Linear(), args.out, &args, variant, stream);
}

}  // namespace quire::cuda
