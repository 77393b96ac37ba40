// Tensor cores multiply: x is the 16-row operand A, 8 rows of the weight the operand B, because an
// m16n8k16 with zero rows costs less than unpacking 16-bit elements for FMAs. A lane's 16-byte load
// covers 8 consecutive k of one weight row; the k of a gemm are permuted accordingly, the same way
// in both operands.
#include <algorithm>
#include <array>
#include <iterator>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "kernels/base/types.h"
#include "kernels/cuda/elementwise/activation.cuh"
#include "kernels/cuda/gemm/gemv.h"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/runtime/vector.cuh"

namespace quire::cuda {

namespace {

constexpr int kTileRows = 8;  // weight rows of one mma
constexpr int kSegment = 64;  // k of a warp's step: one 128-byte line of each weight row
[[maybe_unused]] constexpr int kPrefetchK = 512;  // of each row, beyond the first loads; sm_90 on

// The bits of a bfloat16 or a float16: only the products and the stores tell them apart.
using Bits = uint16_t;

struct GemvParams {
  const Bits* x;
  const Bits* weight;
  FloatVector bias;  // or null
  void* out;
  int64_t x_stride, out_stride;
  int num_rows, out_features, in_features, num_groups;
  bool out_is_float;  // float32; else of x's type
  int num_gates;      // of a gated gemm, whose weight is that many gate rows, then up rows; else 0
  Activation activation;

  // The weight row that a group has as its i-th. In a gated gemm, half of a group's rows are gates
  // and the other half their ups. Beyond the last row it is the last one again, which is read and
  // not stored.
  template <int kFeatures>
  __device__ int FeatureAt(int group, int i) const {
    constexpr int kPairs = kFeatures / 2;
    if (num_gates == 0) return min(group * kFeatures + i, out_features - 1);
    return min(group * kPairs + i % kPairs, num_gates - 1) + (i < kPairs ? 0 : num_gates);
  }
};

// The weight is read once: it goes through L2 to registers and leaves L1 to x.
__device__ uint4 LoadWeight(const Bits* from) {
  uint4 value;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(from));
  return value;
}

// sums[4] += A (16 x 16) * B (16 x 8), of elements T.
template <typename T>
__device__ void MultiplyAdd(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (std::is_same_v<T, __half>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

// Rows 8 to 15 of x in high: two of them cover a 16-byte load's k.
template <typename T>
__device__ void MultiplyAdd(float (&sums)[4], const uint4& low, const uint4& high,
                            const uint4& weight) {
  MultiplyAdd<T>(sums, {low.x, high.x, low.y, high.y}, weight.x, weight.y);
  MultiplyAdd<T>(sums, {low.z, high.z, low.w, high.w}, weight.z, weight.w);
}

// A lane's view of the two operands. Lane 4 * r + q holds, of each segment, k q * 8 to q * 8 + 7
// and the same 32 later, of weight row r of each tile and of rows r and r + 8 of x.
template <int kTiles>
struct GemvLane {
  const GemvParams& params;
  const Bits* weight_rows[kTiles];
  bool has_weights;
  const Bits* x_rows[2];
  bool has_row[2];
  int row, k;  // of the lane in a tile, and in a segment

  __device__ explicit GemvLane(const GemvParams& p) : params(p) {
    row = threadIdx.x % 32 / 4;
    k = threadIdx.x % 4 * 8;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      has_row[half] = row + 8 * half < p.num_rows;
      x_rows[half] = p.x + (has_row[half] ? row + 8 * half : 0) * p.x_stride;
    }
  }

  // From now on weights are those of this group of tiles; beyond the last there are none.
  __device__ void SelectGroup(int group) {
    has_weights = group < params.num_groups;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const int feature = params.FeatureAt<kTiles * kTileRows>(group, tile * kTileRows + row);
      weight_rows[tile] = params.weight + static_cast<int64_t>(feature) * params.in_features;
    }
  }

  __device__ void LoadWeights(int segment, uint4 (&to)[kTiles][2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at = segment * kSegment + half * 32 + k;
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        to[tile][half] =
            has_weights && at < params.in_features ? LoadWeight(weight_rows[tile] + at) : uint4{};
      }
    }
  }

  // [half of the segment][rows 0 to 7, rows 8 to 15]
  template <int kHalves>
  __device__ void LoadX(int segment, uint4 (&to)[2][kHalves]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at = segment * kSegment + half * 32 + k;
#pragma unroll
      for (int i = 0; i < kHalves; ++i) {
        to[half][i] = has_row[i] && at < params.in_features
                          ? *reinterpret_cast<const uint4*>(x_rows[i] + at)
                          : uint4{};
      }
    }
  }
};

template <int kTiles, int kWarps>
using WarpSums = float[kWarps][kMaxGemvRows][kTiles * kTileRows];

// The warps' sums in the order of the warps, and the bias.
template <int kTiles, int kWarps>
__device__ float FinishedSum(const GemvParams& params, const WarpSums<kTiles, kWarps>& warp_sums,
                             int row, int column, int feature) {
  float sum = 0.0f, bias[1] = {0.0f};
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) sum += warp_sums[warp][row][column];
  if (params.bias.data != nullptr) params.bias.LoadAt(feature, bias);
  return sum + bias[0];
}

template <typename T, int kTiles, int kWarps>
__device__ void StoreGroup(const GemvParams& params, int group,
                           const WarpSums<kTiles, kWarps>& warp_sums) {
  constexpr int kFeatures = kTiles * kTileRows;
  for (int i = threadIdx.x; i < params.num_rows * kFeatures; i += kWarps * 32) {
    const int row = i / kFeatures, column = i % kFeatures, feature = group * kFeatures + column;
    if (feature >= params.out_features) continue;
    const float sum[1] = {FinishedSum<kTiles, kWarps>(params, warp_sums, row, column, feature)};
    const int64_t at = row * params.out_stride + feature;
    if (params.out_is_float) {
      Store(sum, static_cast<float*>(params.out) + at);
    } else {
      Store(sum, static_cast<T*>(params.out) + at);
    }
  }
}

template <typename T, int kTiles, int kWarps>
__device__ void StoreGatedGroup(const GemvParams& params, int group,
                                const WarpSums<kTiles, kWarps>& warp_sums) {
  constexpr int kPairs = kTiles * kTileRows / 2;
  for (int i = threadIdx.x; i < params.num_rows * kPairs; i += kWarps * 32) {
    const int row = i / kPairs, column = i % kPairs, pair = group * kPairs + column;
    if (pair >= params.num_gates) continue;
    const float gate = FinishedSum<kTiles, kWarps>(params, warp_sums, row, column, pair);
    const float up = FinishedSum<kTiles, kWarps>(params, warp_sums, row, column + kPairs,
                                                 pair + params.num_gates);
    const float value[1] = {Gated<T>(gate, up, params.activation)};
    Store(value, static_cast<T*>(params.out) + row * params.out_stride + pair);
  }
}

// Brings k from `from` on of a row to L2, while registers are full and x is not there yet. Its
// branch also keeps the first loads where they are: without one between them and the wait for the
// predecessor, ptxas moves them behind the wait (early_loads_test.py; 0.6B, single streams: 1,350
// -> some 1,065 tokens/s).
__device__ void PrefetchRow(const GemvParams& params, int feature, int from) {
#if __CUDA_ARCH__ >= 900
  const int bytes = min(params.in_features - from, kPrefetchK) * 2;
  if (bytes <= 0) return;
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(
                   params.weight + static_cast<int64_t>(feature) * params.in_features + from),
               "r"(bytes));
#endif
}

// Two, unless they do not fit the static shared memory of devices before sm_90.
constexpr int NumBuffers([[maybe_unused]] size_t bytes) {
#if __CUDA_ARCH__ >= 900
  return 2;
#else
  return 2 * bytes <= 48 * 1024 ? 2 : 1;
#endif
}

// Grid: a CTA takes groups of kTiles * 8 weight rows in turn; its warps share out the segments of
// k. Bytes: the weight once from memory; x once per group, from L1 or L2. Accumulation: k in a
// warp's order in float32 on tensor cores, then over the warps in order. Limit: memory bandwidth.
// The first loads are on their way before the predecessor has finished, the next group's before
// this one's sums are complete.
template <typename T, int kTiles, int kWarps, int kLoads, bool kWideX>
__global__ void __launch_bounds__(kWarps * 32) GemvKernel(const GemvParams params) {
  constexpr int kStages = kLoads / (2 * kTiles);
  constexpr int kBuffers = NumBuffers(sizeof(WarpSums<kTiles, kWarps>));
  __shared__ WarpSums<kTiles, kWarps> warp_sums[kBuffers];
  ReleaseSuccessor();
  const int warp = threadIdx.x / 32;
  // A warp's steps per group, in whole rounds of kStages; those beyond the last segment add zeros.
  const int steps = RoundUp(CeilDiv(params.in_features, kSegment * kWarps), kStages);
  GemvLane<kTiles> lane(params);
  lane.SelectGroup(blockIdx.x);
  uint4 weights[kStages][kTiles][2];
#pragma unroll
  for (int stage = 0; stage < kStages; ++stage) {
    lane.LoadWeights(stage * kWarps + warp, weights[stage]);
  }
  if (threadIdx.x < kTiles * kTileRows) {
    PrefetchRow(params, params.FeatureAt<kTiles * kTileRows>(blockIdx.x, threadIdx.x),
                kStages * kWarps * kSegment);
  }
  WaitForPredecessor();
  constexpr int kHalves = kWideX ? 2 : 1;
  uint4 x[2][kHalves];
  lane.LoadX(warp, x);
  int buffer = 0;
  for (int group = blockIdx.x; group < params.num_groups; group += gridDim.x) {
    float sums[kTiles][4] = {};
    for (int first = 0; first < steps; first += kStages) {
      const bool last = first + kStages == steps;
      if (last) lane.SelectGroup(group + gridDim.x);
      const int next = last ? 0 : first + kStages;
#pragma unroll
      for (int stage = 0; stage < kStages; ++stage) {
        uint4 next_x[2][kHalves];
        lane.LoadX((stage + 1 < kStages ? first + stage + 1 : next) * kWarps + warp, next_x);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
          for (int tile = 0; tile < kTiles; ++tile) {
            MultiplyAdd<T>(sums[tile], x[half][0], kWideX ? x[half][kHalves - 1] : uint4{},
                           weights[stage][tile][half]);
          }
        }
        lane.LoadWeights((next + stage) * kWarps + warp, weights[stage]);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
          for (int i = 0; i < kHalves; ++i) x[half][i] = next_x[half][i];
        }
      }
    }
    // Lane 4 * r + q holds columns 2 * q and 2 * q + 1 of rows r and r + 8.
    const int column = threadIdx.x % 4 * 2;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      float(&out)[kMaxGemvRows][kTiles * kTileRows] = warp_sums[buffer][warp];
      *reinterpret_cast<float2*>(&out[lane.row][tile * kTileRows + column]) =
          make_float2(sums[tile][0], sums[tile][1]);
      if constexpr (kWideX) {
        *reinterpret_cast<float2*>(&out[lane.row + 8][tile * kTileRows + column]) =
            make_float2(sums[tile][2], sums[tile][3]);
      }
    }
    __syncthreads();
    if (params.num_gates == 0) {
      StoreGroup<T, kTiles, kWarps>(params, group, warp_sums[buffer]);
    } else {
      StoreGatedGroup<T, kTiles, kWarps>(params, group, warp_sums[buffer]);
    }
    if constexpr (kBuffers == 2) {
      buffer ^= 1;  // the other one was read before the barrier above
    } else {
      __syncthreads();
    }
  }
}

using Kernel = void (*)(GemvParams);

bool IsWide(const LinearArgs& args) { return args.x.dim(0) > 8; }

// A variant has a kernel for bfloat16 and one for float16, each for up to 8 rows of x and up to 16.
constexpr int kNumKinds = 4;
int KindOf(const LinearArgs& args) {
  return (args.weight->dtype == DType::kF16 ? 2 : 0) + (IsWide(args) ? 1 : 0);
}

// How a CTA divides its work: `tiles` of 8 weight rows at a time, in_features over `warps`, each
// with `loads` 16-byte loads a lane in flight.
struct Variant {
  int tiles, warps, loads;
  Kernel kernels[kNumKinds];
};

template <int kTiles, int kWarps, int kLoads>
constexpr Variant MakeVariant() {
  return {kTiles,
          kWarps,
          kLoads,
          {GemvKernel<__nv_bfloat16, kTiles, kWarps, kLoads, false>,
           GemvKernel<__nv_bfloat16, kTiles, kWarps, kLoads, true>,
           GemvKernel<__half, kTiles, kWarps, kLoads, false>,
           GemvKernel<__half, kTiles, kWarps, kLoads, true>}};
}

// Each is the fastest of some 20 for some layer of an 8B or 0.6B model at 1 to 16 rows on an H200.
const Variant kVariants[kNumGemvVariants] = {
    MakeVariant<2, 8, 8>(),  MakeVariant<2, 8, 4>(),  MakeVariant<1, 16, 2>(),
    MakeVariant<1, 16, 4>(), MakeVariant<2, 4, 8>(),  MakeVariant<2, 8, 16>(),
    MakeVariant<2, 16, 8>(), MakeVariant<4, 8, 16>(), MakeVariant<4, 16, 8>()};
constexpr int kDefaultNarrow = 0, kDefaultWide = 1;

// CTAs of a kernel that the device holds at a time: more would wait for a place and then fetch
// their first weights cold.
int NumPlaces(int variant, int kind) {
  static const auto places = [] {
    std::array<std::array<int, kNumKinds>, kNumGemvVariants> result{};
    for (int i = 0; i < kNumGemvVariants; ++i) {
      for (int j = 0; j < kNumKinds; ++j) {
        int per_sm = 0;
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, kVariants[i].kernels[j],
                                                      kVariants[i].warps * 32, 0);
        result[i][j] = std::max(1, per_sm * NumSms());
      }
    }
    return result;
  }();
  return places[variant][kind];
}

// All but num_groups.
GemvParams ParamsOf(const LinearArgs& args) {
  return {.x = static_cast<const Bits*>(args.x.data()),
          .weight = static_cast<const Bits*>(args.weight->data),
          .bias = FloatVector(args.bias),
          .out = args.out.data(),
          .x_stride = args.x.row_stride(),
          .out_stride = args.out.row_stride(),
          .num_rows = static_cast<int>(args.x.dim(0)),
          .out_features = static_cast<int>(args.weight->out_features),
          .in_features = static_cast<int>(args.weight->in_features),
          .num_groups = 0,
          .out_is_float = args.out.dtype() == DType::kF32,
          .num_gates = 0,
          .activation = Activation::kSilu};
}

// Loads under way are in L1, of which a multiprocessor has little as long as it is divided for a
// kernel with much shared memory: so a gemv that takes long has it divided anew, for which the
// kernels before must have ended there (8B in FP8, the language model's head after down: 330 us
// instead of 242). Others begin beside their predecessors (8B, one stream: 248.9 tokens/s, divided
// anew for each gemv 246.8).
constexpr int kLongRounds = 8;  // groups that each CTA takes
constexpr int kSharedPercent = 25;

void LaunchVariant(const GemvParams& params, int variant, int kind, cudaStream_t stream) {
  const Variant& v = kVariants[variant];
  const int num_ctas = std::min(params.num_groups, NumPlaces(variant, kind));
  const bool is_long = params.num_groups >= kLongRounds * num_ctas;
  LaunchAs({.shared_percent = is_long ? kSharedPercent : -1}, v.kernels[kind], num_ctas,
           v.warps * 32, 0, stream, params);
}

}  // namespace

std::string GemvVariantName(int variant) {
  const Variant& v = kVariants[variant];
  return absl::StrCat(v.tiles, "x", v.warps, "x", v.loads);
}

int FindGemvVariant(absl::string_view name) {
  for (int i = 0; i < kNumGemvVariants; ++i) {
    if (GemvVariantName(i) == name) return i;
  }
  return -1;
}

std::vector<int> GemvVariants(const LinearArgs& args) {
  const LinearWeight& weight = *args.weight;
  const Tensor rows(weight.data, weight.dtype, {weight.out_features, weight.in_features});
  const bool fits = !weight.format.quantized() && weight.dtype != DType::kF32 &&
                    args.x.dim(0) <= kMaxGemvRows &&
                    FitsVectors(weight.in_features, {&args.x, &rows});
  if (!fits) return {};
  std::vector<int> variants = {IsWide(args) ? kDefaultWide : kDefaultNarrow};
  for (int variant = 0; variant < kNumGemvVariants; ++variant) {
    if (variant != variants[0]) variants.push_back(variant);
  }
  return variants;
}

void LaunchGemv(const LinearArgs& args, int variant, cudaStream_t stream) {
  GemvParams params = ParamsOf(args);
  params.num_groups = CeilDiv(params.out_features, kVariants[variant].tiles * kTileRows);
  LaunchVariant(params, variant, KindOf(args), stream);
}

void LaunchGatedGemv(const GatedLinearArgs& args, int variant, cudaStream_t stream) {
  GemvParams params = ParamsOf(args.Linear());
  params.out = args.out.data();
  params.out_stride = args.out.row_stride();
  params.num_gates = params.out_features / 2;
  params.activation = args.activation;
  params.num_groups = CeilDiv(params.num_gates, kVariants[variant].tiles * kTileRows / 2);
  LaunchVariant(params, variant, KindOf(args.Linear()), stream);
}

}  // namespace quire::cuda
