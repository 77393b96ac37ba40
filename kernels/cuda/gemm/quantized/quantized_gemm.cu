#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <tuple>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "kernels/base/check.h"
#include "kernels/cuda/gemm/quantized/quantized_gemm.h"
#include "kernels/cuda/gemm/quantized/quantized_gemm_shape.cuh"
#include "kernels/cuda/gemm/quantized/quantized_kernels.h"
#include "kernels/cuda/runtime/expert_counts.h"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/runtime/tensor_map.h"
#include "kernels/float8_rows.h"

namespace quire::cuda {

namespace {

// How a gemm is divided: CTAs that share out in_features, CTAs that share x (both of one cluster),
// and the shared memory that a CTA takes at most, of which its ring is made. Three CTAs of a gemm
// of few rows fit a multiprocessor, two of a gemv. Those of a gemv do not share x; each takes
// strips of 16 of the weight's rows, kMostStrips over this number.
struct Division {
  int splits, shares;
};
constexpr int kMostStrips = 8;
constexpr Division kDivisions[] = {{1, 1}, {2, 1}, {4, 1}, {8, 1}, {1, 2},
                                   {1, 4}, {2, 2}, {2, 4}, {4, 2}};
constexpr int kNumDivisions = std::size(kDivisions);
constexpr int kGemmKib[] = {74, 112, 224};
constexpr int kNumKib = std::size(kGemmKib), kMostKib = kGemmKib[kNumKib - 1];
// Kinds named after a number take at most that many rows of x at a time.
enum class Kind { kGemm, kGemm64, kGemm128, kGemv };
constexpr const char* kKindNames[] = {"gemm", "gemm64-", "gemm128-", "gemv"};
constexpr int kNumKinds = std::size(kKindNames);
struct Variant {
  Kind kind;
  int splits, shares, strips, shared_kib;  // shares of a gemm, strips of a gemv

  int cluster_size() const { return splits * shares; }
  int gemvs_per_sm() const { return shared_kib <= 112 ? 2 : 1; }
  static Variant Of(int number) {
    const auto kind = static_cast<Kind>(number / kNumDivisions / kNumKib);
    const auto [splits, shares] = kDivisions[number % kNumDivisions];
    const bool is_gemv = kind == Kind::kGemv;
    return {kind, splits, is_gemv ? 1 : shares, is_gemv ? kMostStrips / shares : 0,
            kGemmKib[number / kNumDivisions % kNumKib]};
  }
};
constexpr int kNumVariants = kNumKinds * kNumDivisions * kNumKib;

template <WeightValue kValue, typename Element, int... kGroups>
QuantizedKernel KernelFor(int num_groups, int tile, bool is_gemv) {
  QuantizedKernel kernel = {};
  ((kGroups == num_groups
        ? void(kernel = QuantizedKernelFor<kValue, Element, kGroups>(tile, is_gemv))
        : void()),
   ...);
  return kernel;
}

template <typename Element>
QuantizedKernel KernelFor(const LinearWeight& weight, int tile, bool is_gemv) {
  using enum WeightValue;
  const WeightFormat& format = weight.format;
  if (HasFloat8Tiles(weight)) {  // which have no other of these kernels
    return format.group_columns == 0 ? Float8GemvFor<Element, 0>() : Float8GemvFor<Element, 1>();
  }
  const int groups = PackedLayout(weight).groups_per_step * (HasScaledValues(format) ? -1 : 1);
  switch (format.value) {
    case kInt4:
      return KernelFor<kInt4, Element, 0, 1, 2, 4>(groups, tile, is_gemv);
    case kInt8:
      return KernelFor<kInt8, Element, 0, 1, 2, 4>(groups, tile, is_gemv);
    case kFloat8:
      return KernelFor<kFloat8, Element, 0, 1>(groups, tile, is_gemv);
    default:
      if constexpr (std::is_same_v<Element, __nv_bfloat16>) {
        if (groups == kPowerScaledGroups) {
          return QuantizedKernelFor<kFloat4, Element, kPowerScaledGroups>(tile, is_gemv);
        }
      }
      return KernelFor<kFloat4, Element, kFloat8ScaledGroups, 8>(groups, tile, is_gemv);
  }
}

// The most rows of x that a tile of this kind has: its number, or the most that there is a kernel
// for.
int MaxRows(const LinearWeight& weight, Kind kind) {
  if (kind == Kind::kGemm64) return 64;
  if (kind == Kind::kGemm128) return 128;
  int tile = std::size(kQuantizedTileRows) - 1;
  while (KernelFor<__nv_bfloat16>(weight, tile, false).launch == nullptr) --tile;
  return kQuantizedTileRows[tile];
}

// The bytes of a block in a step, as they are read.
int StepBytes(const LinearWeight& weight) {
  return HasFloat8Tiles(weight) ? kBlockRows * kStepColumns : PackedLayout(weight).step_bytes;
}

struct Plan {
  QuantizedKernel kernel;
  int tile_rows;
  int num_row_tiles, num_tiles, num_stages, shared_bytes;
  int num_ctas;  // of each split or share of x
};

// num_stages is 0 where shared memory is too small for the variant. num_row_tiles: of a gemv with
// experts, whose CTAs share the device.
Plan MakePlan(const LinearArgs& args, const Variant& v, bool is_gated, int64_t num_row_tiles = 1) {
  const LinearWeight& weight = *args.weight;
  const PackedLayout layout(weight);
  const auto num_rows = static_cast<int>(args.x.dim(0));
  int tile = 0;
  const bool is_gemv = v.kind == Kind::kGemv;
  while (kQuantizedTileRows[tile] < std::min(num_rows, MaxRows(weight, v.kind))) ++tile;
  Plan plan = {.kernel = weight.dtype == DType::kF16
                             ? KernelFor<__half>(weight, tile, is_gemv)
                             : KernelFor<__nv_bfloat16>(weight, tile, is_gemv),
               .tile_rows = kQuantizedTileRows[tile],
               .num_row_tiles = CeilDiv(num_rows, kQuantizedTileRows[tile]),
               .num_tiles = 0,
               .num_stages = 0,
               .shared_bytes = 0,
               .num_ctas = 0};
  CHECK(plan.kernel.launch != nullptr) << "FitsPackedLayout says what there is";
  if (!is_gemv && HasFloat8Tiles(weight)) return plan;
  const int tile_strips = is_gemv ? v.strips : plan.kernel.num_blocks * kBlockStrips;
  const int64_t num_strips = layout.num_blocks * kBlockStrips;
  plan.num_tiles = static_cast<int>(is_gated ? CeilDiv<int64_t>(num_strips / 2, tile_strips / 2)
                                             : CeilDiv<int64_t>(num_strips, tile_strips));
  if (is_gemv && num_rows > kMaxQuantizedGemvRows) return plan;
  const auto num_steps = static_cast<int>(CeilDiv<int64_t>(layout.num_steps, v.splits));
  const int step_bytes = StepBytes(weight);
  // For all numbers of rows that have one choice (RowBucket), whichever of them comes first.
  const auto shared_rows = static_cast<int>(std::bit_ceil(static_cast<uint32_t>(num_rows)));
  const auto shared_bytes = [&](int num_stages) {
    return plan.kernel.shared_bytes(step_bytes, num_stages, shared_rows, num_steps, v.strips);
  };
  plan.num_ctas = plan.num_row_tiles * plan.num_tiles;
  int ring_steps = num_steps;
  if (is_gemv) {  // which takes tiles in turn, and whose warps share out the steps
    const auto places = static_cast<int>(NumSms() * v.gemvs_per_sm() / v.splits / num_row_tiles);
    plan.num_ctas = std::min(plan.num_tiles, std::max(1, places));
    ring_steps = CeilDiv(num_steps * v.strips, kGemvWarps * kGemvWarpStrips) *
                 CeilDiv(plan.num_tiles, plan.num_ctas);
  }
  constexpr int kMinStages = 2;
  int num_stages = plan.kernel.max_stages;
  while (num_stages > 0 && shared_bytes(num_stages) > v.shared_kib * 1024) --num_stages;
  if (num_stages < std::min(kMinStages, ring_steps)) return plan;
  plan.num_stages = std::min(num_stages, ring_steps);
  plan.shared_bytes = shared_bytes(plan.num_stages);
  return plan;
}

// The first launch of a kernel lets it have its shared memory.
void AllowSharedMemory(const QuantizedKernel& kernel) {
  static std::map<void (*)(QuantizedGemmParams), bool> known;
  bool& allowed = known[kernel.launch];
  if (allowed) return;
  cudaFuncSetAttribute(kernel.launch, cudaFuncAttributeMaxDynamicSharedMemorySize, kMostKib * 1024);
  allowed = true;
}

QuantizedGemmParams ParamsOf(const LinearArgs& args, const Plan& plan, const Variant& v) {
  const LinearWeight& weight = *args.weight;
  const PackedLayout layout(weight);
  const auto* const data = static_cast<const uint8_t*>(weight.data);
  const bool has_tiles = HasFloat8Tiles(weight);
  const bool is_float8 = args.x.dtype() == DType::kF8E4M3;  // then it is a gemv
  const bool is_gemv = v.kind == Kind::kGemv;
  const auto num_rows = static_cast<int>(args.x.dim(0));
  CUtensorMap x_map = {};  // a gemv reads x itself
  if (!is_gemv) {
    x_map = EncodeMatrixMap(args.x.data(), weight.dtype, args.x.dim(0), weight.in_features,
                            args.x.row_stride(), plan.tile_rows / v.shares);
  }
  return {.x_map = x_map,
          .x = static_cast<const uint16_t*>(args.x.data()),
          .x_scales = is_float8 ? Float8Rows(args.x).scales() : nullptr,
          .x_stride = args.x.row_stride(),
          .x_scale_stride = is_float8 ? Float8Rows(args.x).scale_stride() : 0,
          .num_columns = static_cast<int>(weight.in_features),
          .weight = data,
          .tile_scales = has_tiles && layout.groups_per_step > 0
                             ? reinterpret_cast<const float*>(data + layout.tile_scales_at())
                             : nullptr,
          .row_scales = layout.row_scales_at == 0
                            ? nullptr
                            : reinterpret_cast<const float*>(data + layout.row_scales_at),
          .bias = FloatVector(args.bias),
          .out = args.out.data(),
          .out_stride = args.out.row_stride(),
          .num_rows = num_rows,
          .num_features = static_cast<int>(weight.out_features),
          .num_blocks = static_cast<int>(layout.num_blocks),
          .num_steps = static_cast<int>(layout.num_steps),
          .num_splits = v.splits,
          .num_shares = v.shares,
          .num_stages = plan.num_stages,
          .num_strips = v.strips,
          .num_tiles = plan.num_tiles,
          .stage_bytes = is_gemv ? plan.kernel.stage_bytes(StepBytes(weight)) : 0,
          .sums_bytes = is_gemv ? plan.kernel.sums_bytes(v.strips, num_rows) : 0,
          .pair_bytes = StepBytes(weight) / kBlockStrips,
          .pair_scales = kQuarterRows,
          .step_bytes = StepBytes(weight),
          .scales_at = layout.code_bytes,
          .zeros_at = layout.code_bytes + layout.scale_bytes,
          .has_zero_points = layout.zero_bytes > 0,
          .out_is_float = args.out.dtype() == DType::kF32,
          .num_gates = 0,
          .activation = Activation::kSilu};
}

void SetGates(const LinearWeight& weight, Activation activation, QuantizedGemmParams* params) {
  params->num_gates = static_cast<int>(weight.out_features / 2);
  params->num_features = params->num_gates;
  params->pair_scales = params->num_gates;
  params->pair_bytes =
      int64_t{params->num_gates} / kBlockRows * params->num_steps * params->step_bytes;
  params->activation = activation;
}

void Launch(const QuantizedGemmParams& params, const Plan& plan, const Variant& v,
            cudaStream_t stream) {
  CHECK_GT(plan.num_stages, 0);
  AllowSharedMemory(plan.kernel);
  const int num_tiles = CeilDiv(plan.num_tiles, v.shares);
  const bool has_experts = params.offsets != nullptr;  // QuantizedGemmWork
  const int fast = has_experts ? num_tiles : plan.num_row_tiles;
  const int slow = has_experts ? plan.num_row_tiles : num_tiles;
  const dim3 grid = v.kind == Kind::kGemv ? dim3(v.splits, plan.num_ctas, plan.num_row_tiles)
                                          : dim3(v.cluster_size() * fast, slow);
  LaunchAs({.cluster_size = v.cluster_size()}, plan.kernel.launch, grid,
           dim3(plan.kernel.num_threads), plan.shared_bytes, stream, params);
}

// CTAs for all multiprocessors and not many times more; each with enough steps that its ring is of
// use. x is worth sharing where there is more of it than of the weight.
bool MayBeFast(const Variant& v, const Plan& plan, const LinearArgs& args) {
  const bool is_few = args.x.dim(0) <= kMaxFewRows;
  if (v.shares > 1 && is_few) return false;
  // Else what the kinds without a number do.
  const bool has_number = v.kind == Kind::kGemm64 || v.kind == Kind::kGemm128;
  const int most = MaxRows(*args.weight, v.kind);
  if (has_number && (args.x.dim(0) <= most || most == MaxRows(*args.weight, Kind::kGemm))) {
    return false;
  }
  if (v.splits == 1) return true;
  const int num_ctas = plan.num_tiles * plan.num_row_tiles * v.splits;
  return PackedLayout(*args.weight).num_steps >= 2 * v.splits && num_ctas < 2 * NumSms();
}

// Chooses a variant of the kind that these rows are for, with as much shared memory as leaves room
// for a second CTA, or else with more. Among those it takes the one with the fewest splits that
// gives every multiprocessor a CTA.
int DefaultVariant(const LinearArgs& args, const std::vector<int>& variants) {
  const Kind kind = args.x.dim(0) <= kMaxQuantizedGemvRows ? Kind::kGemv : Kind::kGemm;
  for (const int shared_kib : {kGemmKib[1], kMostKib}) {
    int best = -1;
    for (const int variant : variants) {
      const Variant v = Variant::Of(variant);
      if (v.kind != kind || v.shares > 1 || v.shared_kib != shared_kib) continue;
      best = variant;
      const Plan plan = MakePlan(args, v, false);
      if (plan.num_tiles * plan.num_row_tiles * v.splits >= NumSms()) break;
    }
    if (best >= 0) return best;
  }
  return variants[0];
}

}  // namespace

LinearFormat QuantizedFormatFor(const LinearFormat& format, DType activations, bool has_experts) {
  return IsHopper() ? PackedFormat(format, activations, has_experts) : LinearFormat();
}

std::string QuantizedGemmVariantName(int variant) {
  const Variant v = Variant::Of(variant);
  return absl::StrCat(kKindNames[static_cast<int>(v.kind)], v.splits, "x",
                      v.kind == Kind::kGemv ? v.strips : v.shares, "x", v.shared_kib);
}

int FindQuantizedGemmVariant(absl::string_view name) {
  for (int i = 0; i < kNumVariants; ++i) {
    if (QuantizedGemmVariantName(i) == name) return i;
  }
  return -1;
}

std::vector<int> QuantizedGemmVariants(const LinearArgs& args) {
  std::vector<int> variants;
  if (!args.weight->format.quantized()) return variants;
  for (int i = 0; i < kNumVariants; ++i) {
    const Variant v = Variant::Of(i);
    const Plan plan = MakePlan(args, v, false);
    if (plan.num_stages > 0 && MayBeFast(v, plan, args)) variants.push_back(i);
  }
  if (variants.empty()) return variants;
  std::swap(variants[0],
            *std::find(variants.begin(), variants.end(), DefaultVariant(args, variants)));
  return variants;
}

bool HasWholeGateBlocks(const LinearWeight& weight) {
  return weight.out_features % (2 * kBlockRows) == 0;
}

void LaunchQuantizedGemm(const LinearArgs& args, int variant, cudaStream_t stream) {
  const Variant v = Variant::Of(variant);
  const Plan plan = MakePlan(args, v, false);
  Launch(ParamsOf(args, plan, v), plan, v, stream);
}

void LaunchGatedQuantizedGemm(const GatedLinearArgs& args, int variant, cudaStream_t stream) {
  CHECK(HasWholeGateBlocks(*args.weight));
  const Variant v = Variant::Of(variant);
  const Plan plan = MakePlan(args.Linear(), v, true);
  QuantizedGemmParams params = ParamsOf(args.Linear(), plan, v);
  params.out = args.out.data();
  params.out_stride = args.out.row_stride();
  SetGates(*args.weight, args.activation, &params);
  Launch(params, plan, v, stream);
}

namespace {

// Of experts: tiles of twice an expert's rows on average, so that most have one, of no more than
// kMostRows; CTAs that share out in_features where tiles are too few for the device.
Variant ExpertVariant(const ExpertRowsArgs& args, int* tile) {
  constexpr int kMostRows = 128;
  const LinearWeight& weight = *args.weight;
  const int64_t num_pairs = args.routing.num_pairs();
  const int64_t num_chosen = std::min(weight.num_experts, num_pairs);
  *tile = 0;
  while (kQuantizedTileRows[*tile] < std::min<int64_t>(2 * num_pairs / num_chosen, kMostRows)) {
    ++*tile;
  }
  const QuantizedKernel kernel = KernelFor<__nv_bfloat16>(weight, *tile, false);
  const auto num_ctas =
      num_chosen * CeilDiv<int64_t>(PackedLayout(weight).num_blocks, kernel.num_blocks);
  int splits = 1;
  while (splits < 4 && num_ctas * splits < NumSms() &&
         PackedLayout(weight).num_steps >= 4 * splits) {
    splits *= 2;
  }
  // Of few rows so much that four CTAs fit a multiprocessor, of 8 bits three.
  constexpr int kFewRowsKib = 56;
  const bool is_8_bits = BitsOf(weight.format.value) == 8;
  const int tile_rows = kQuantizedTileRows[*tile];
  const int kib = tile_rows <= kMaxFewRows ? (is_8_bits ? kGemmKib[0] : kFewRowsKib)
                  : tile_rows <= 32        ? (is_8_bits ? kGemmKib[1] : kGemmKib[0])
                                           : kMostKib;
  return {Kind::kGemm, splits, 1, 0, kib};
}

void SetExperts(const ExpertRowsArgs& args, QuantizedGemmParams* params) {
  const LinearWeight& weight = *args.weight;
  params->offsets = args.routing.offsets.as<int32_t>();
  params->pairs = args.in_order_of_pairs ? args.routing.pairs.as<int32_t>() : nullptr;
  params->num_experts = static_cast<int>(weight.num_experts);
  params->expert_bytes = weight.expert_bytes;
  if (args.is_gated) SetGates(weight, args.activation, params);
}

}  // namespace

bool LaunchQuantizedExpertGemv(const ExpertRowsArgs& args, bool x_of_tokens, cudaStream_t stream) {
  constexpr int64_t kMaxTokens = 2;
  const LinearWeight& weight = *args.weight;
  const int64_t num_tokens = args.routing.num_tokens();
  if (num_tokens > kMaxTokens || (args.is_gated && !HasWholeGateBlocks(weight))) return false;
  // No expert has more rows than there are tokens.
  const LinearArgs linear = {.x = args.x.Rows(0, num_tokens),
                             .weight = &weight,
                             .bias = args.bias,
                             .out = args.out.Rows(0, num_tokens)};
  const int64_t num_chosen = std::min(weight.num_experts, args.routing.num_pairs());
  Variant v = {
      .kind = Kind::kGemv, .splits = 1, .shares = 1, .strips = 4, .shared_kib = kGemmKib[1]};
  Plan plan = MakePlan(linear, v, args.is_gated, num_chosen);
  if (plan.num_stages == 0) {  // few CTAs with more each
    v.shared_kib = kMostKib;
    plan = MakePlan(linear, v, args.is_gated, num_chosen);
  }
  if (plan.num_stages == 0) return false;
  plan.num_row_tiles = static_cast<int>(MaxExpertTiles(args.routing, kMaxQuantizedGemvRows));
  QuantizedGemmParams params = ParamsOf(linear, plan, v);
  SetExperts(args, &params);
  if (x_of_tokens) {
    params.gathers_x = true;
    params.x_pairs = num_tokens > 1 ? args.routing.pairs.as<int32_t>() : nullptr;
    params.top_k = static_cast<int>(args.routing.top_k());
  }
  Launch(params, plan, v, stream);
  return true;
}

void LaunchQuantizedExpertGemm(const ExpertRowsArgs& args, cudaStream_t stream) {
  const LinearWeight& weight = *args.weight;
  CHECK(!HasFloat8Tiles(weight) && !weight.format.ordered) << "of experts";
  CHECK(!args.is_gated || HasWholeGateBlocks(weight));
  int tile = 0;
  const Variant v = ExpertVariant(args, &tile);
  const PackedLayout layout(weight);
  Plan plan = {.kernel = weight.dtype == DType::kF16
                             ? KernelFor<__half>(weight, tile, false)
                             : KernelFor<__nv_bfloat16>(weight, tile, false),
               .tile_rows = kQuantizedTileRows[tile],
               .num_row_tiles = 0,
               .num_tiles = 0,
               .num_stages = 0,
               .shared_bytes = 0,
               .num_ctas = 0};
  plan.num_row_tiles = static_cast<int>(MaxExpertTiles(args.routing, plan.tile_rows));
  plan.num_tiles = static_cast<int>(CeilDiv<int64_t>(layout.num_blocks, plan.kernel.num_blocks));
  const int step_bytes = StepBytes(weight);
  const auto num_steps = static_cast<int>(CeilDiv<int64_t>(layout.num_steps, v.splits));
  const auto shared_bytes = [&](int num_stages) {
    return plan.kernel.shared_bytes(step_bytes, num_stages, 0, num_steps, 0);
  };
  plan.num_stages = std::min(plan.kernel.max_stages, num_steps);
  while (plan.num_stages > 1 && shared_bytes(plan.num_stages) > v.shared_kib * 1024) {
    --plan.num_stages;
  }
  plan.shared_bytes = shared_bytes(plan.num_stages);
  QuantizedGemmParams params =
      ParamsOf({.x = args.x, .weight = &weight, .bias = args.bias, .out = args.out}, plan, v);
  SetExperts(args, &params);
  Launch(params, plan, v, stream);
}

}  // namespace quire::cuda
