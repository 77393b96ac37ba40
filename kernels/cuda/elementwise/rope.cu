#include <algorithm>
#include <bit>
#include <type_traits>

#include "kernels/base/types.h"
#include "kernels/cuda/elementwise/head_runs.cuh"
#include "kernels/cuda/runtime/float8.cuh"
#include "kernels/cuda/runtime/float_dispatch.cuh"
#include "kernels/cuda/runtime/free_ops.h"
#include "kernels/cuda/runtime/launch.cuh"

namespace quire::cuda {

namespace {

constexpr int kThreads = 128;  // of a CTA, at most
// Heads of a thread where tokens are many, and the threads that would have one head each from which
// they are: measured on an H200.
struct Many {
  int num_heads;
  int64_t num_threads;
};
constexpr Many kManyPlain = {4, 320 * 1024}, kManyNormed = {2, 112 * 1024};

enum class Part { kQ, kK, kV };
constexpr int kNumParts = 3;

// The heads of a part: where they are in a row of x, what happens to them and where they go.
struct PartParams {
  int num_heads;
  int first, stride;  // in a row of x
  HeadNormKind norm;
  bool rotate;
  FloatVector norm_weight;
  void* out;
  int64_t out_head_stride;
  const float* out_scales;  // of 8-bit elements, by KV head; null is 1
};

struct StoreHeadsParams {
  const void* x;
  int64_t x_stride, q_out_stride;
  const float* cos_sin;
  const float* query_scales;  // or null
  const int64_t* positions;
  const int64_t* slot_mapping;
  int64_t num_tokens;
  HeadPairs pairs;
  float norm_eps;
  // Where slots are in the cache.
  int64_t block_stride, token_stride;
  int32_t block_size;
  DType kv_dtype;
  PartParams parts[kNumParts];

  int64_t num_heads() const {
    return int64_t{parts[0].num_heads} + parts[1].num_heads + parts[2].num_heads;
  }
};

// The heads of a thread, all of one part: `first`, `first + step`, ... below `end`.
struct Heads {
  Part part;
  int first, step, end;

  __device__ bool Has(int h) const { return first + h * step < end; }
};

// A token has threads for q, then for k, then for v, each with up to kHeads heads.
template <int kHeads>
__device__ Heads HeadsOf(int index, int num_q_heads, int num_kv_heads) {
  const int for_q = CeilDiv(num_q_heads, kHeads);
  const int for_kv = CeilDiv(num_kv_heads, kHeads);
  if (index < for_q) return {Part::kQ, index, for_q, num_q_heads};
  index -= for_q;
  if (index < for_kv) return {Part::kK, index, for_kv, num_kv_heads};
  index -= for_kv;
  return {Part::kV, index, for_kv, index < for_kv ? num_kv_heads : 0};
}

// What a head is divided by as it is stored, and the format, of 8-bit elements.
struct Float8Target {
  const float* scales;  // by KV head; null is 1
  DType dtype;
};

// 1 / the root of the mean of a head's squares; all lanes of the warp call it, and a head has
// kHeads lanes or more.
template <int kHeads, typename T>
__device__ void NormScales(const RawRun<T> (&raw)[kHeads][2], int head_dim, float eps,
                           float (&scales)[kHeads]) {
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    float sums[2] = {};
#pragma unroll
    for (int run = 0; run < 2; ++run) {
      float values[kVector];
      Unpack(raw[h][run], values);
#pragma unroll
      for (float value : values) sums[run] = fmaf(value, value, sums[run]);
    }
    scales[h] = sums[0] + sums[1];
  }
  for (unsigned lanes = blockDim.x / 2; lanes > 0; lanes /= 2) {
#pragma unroll
    for (float& sum : scales) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
  }
  // Roots are dear: each of kHeads neighbours takes one. A choice of values, not of places, or the
  // array would leave the registers.
  float sum = scales[0];
#pragma unroll
  for (int h = 1; h < kHeads; ++h) {
    const float sum_of_head = scales[h];
    sum = threadIdx.x % kHeads == h ? sum_of_head : sum;
  }
  const float scale = 1.0f / sqrtf(sum / static_cast<float>(head_dim) + eps);
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    scales[h] = kHeads == 1 ? scale : __shfl_sync(0xffffffffu, scale, h, blockDim.x);
  }
}

// What a thread does to its heads on their way from qkv to q, k or v.
template <int kHeads>
struct HeadEdits {
  bool are_normed, are_rotated;
  float weight[2][kVector], scales[kHeads];  // where they are normed
  float cos[kVector], sin[kVector];          // where they are rotated
  bool neighbours;                           // where they are pairs
  float factor;                              // in the end
};

__device__ void RotatePair(float cos, float sin, float& a, float& b) {
  const float first = a, second = b;
  a = fmaf(first, cos, -(second * sin));
  b = fmaf(second, cos, first * sin);
}

// The pairs of two runs.
template <int kHeads>
__device__ void RotateRuns(const HeadEdits<kHeads>& edits, float (&a)[kVector],
                           float (&b)[kVector]) {
  if (!edits.neighbours) {
#pragma unroll
    for (int j = 0; j < kVector; ++j) RotatePair(edits.cos[j], edits.sin[j], a[j], b[j]);
    return;
  }
  constexpr int kHalf = kVector / 2;
#pragma unroll
  for (int j = 0; j < kHalf; ++j) {
    RotatePair(edits.cos[j], edits.sin[j], a[2 * j], a[2 * j + 1]);
    RotatePair(edits.cos[kHalf + j], edits.sin[kHalf + j], b[2 * j], b[2 * j + 1]);
  }
}

template <bool kWhole, bool kNormed, typename T, int kHeads, typename Out>
__device__ void EditAndStore(const HeadEdits<kHeads>& edits, const HeadRuns& runs,
                             const Heads& heads, const RawRun<T> (&raw)[kHeads][2], Out* out,
                             int64_t head_stride, const Float8Target& float8 = {}) {
  out += heads.first * head_stride;
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    if (!heads.Has(h)) continue;
    float a[kVector], b[kVector];
    Unpack(raw[h][0], a);
    Unpack(raw[h][1], b);
    if (kNormed && edits.are_normed) {
#pragma unroll
      for (int j = 0; j < kVector; ++j) {
        a[j] *= edits.scales[h] * edits.weight[0][j];
        b[j] *= edits.scales[h] * edits.weight[1][j];
      }
    }
    if (edits.are_rotated) RotateRuns(edits, a, b);
#pragma unroll
    for (int j = 0; j < kVector; ++j) {
      a[j] *= edits.factor;
      b[j] *= edits.factor;
    }
    Out* head = out + h * heads.step * head_stride;
    if constexpr (std::is_same_v<Out, Float8Bits>) {
      const float scale =
          float8.scales == nullptr ? 1.0f : float8.scales[heads.first + h * heads.step];
      StoreRun<kWhole>(a, runs.size[0], scale, float8.dtype, head + runs.begin[0]);
      StoreRun<kWhole>(b, runs.size[1], scale, float8.dtype, head + runs.begin[1]);
    } else {
      StoreRun<kWhole>(a, runs.size[0], head + runs.begin[0]);
      StoreRun<kWhole>(b, runs.size[1], head + runs.begin[1]);
    }
  }
}

// Block: (lanes of a head, shares of up to kHeads heads, tokens), no warp of two tokens; grid:
// (tokens, shares). A thread has all its runs under way before it needs one.
// Bytes: heads read once (twice where values stand where keys stand); q, k and v written once; one
// row of cos_sin per token, from the caches.
// Accumulation: the squares of a run in order, its two runs, then shuffles: float32.
// Limit: memory bandwidth from some 200 tokens; below, the latency of two dependent reads.
template <typename T, typename Kv, int kHeads, bool kWhole, bool kNormed>
__global__ void __launch_bounds__(kThreads)
    StoreHeadsKernel(const __grid_constant__ StoreHeadsParams params) {
  ReleaseSuccessor();
  const HeadRuns runs = RunsOfLane(static_cast<int>(threadIdx.x), params.pairs);
  const Heads heads = HeadsOf<kHeads>(static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y),
                                      params.parts[0].num_heads, params.parts[1].num_heads);
  const PartParams& part = params.parts[static_cast<int>(heads.part)];
  HeadEdits<kHeads> edits;
  edits.are_rotated = runs.num_pairs > 0 && part.rotate;
  edits.neighbours = params.pairs.neighbours;
  edits.are_normed = part.norm != HeadNormKind::kNone;
  RawNorm raw_norm;
  if constexpr (kNormed) {
    raw_norm = LoadNorm<kWhole>(part.norm_weight, runs);
    if (kHeads == 1) raw_norm.Unpack(edits.weight);  // in the time of waiting
  }
  const int64_t token = static_cast<int64_t>(blockIdx.x) * blockDim.z + threadIdx.z;
  const T* in = static_cast<const T*>(params.x) + token * params.x_stride + part.first +
                heads.first * part.stride;
  const int64_t in_step = static_cast<int64_t>(heads.step) * part.stride;
  WaitForPredecessor();
  if (token >= params.num_tokens) return;

  const int64_t position = params.positions[token];
  const int64_t slot = params.slot_mapping[token];
  RawRun<T> raw[kHeads][2];
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    const T* head = in + h * in_step;
    const bool has = heads.Has(h);
    raw[h][0] = LoadRun<kWhole>(head + runs.begin[0], has ? runs.size[0] : 0);
    raw[h][1] = LoadRun<kWhole>(head + runs.begin[1], has ? runs.size[1] : 0);
  }
  const float* cos = params.cos_sin + position * 2 * params.pairs.num_pairs + threadIdx.x * kVector;
  const int num_rotated = edits.are_rotated ? runs.num_pairs : 0;
  Unpack(LoadRun<kWhole>(cos, num_rotated), edits.cos);
  Unpack(LoadRun<kWhole>(cos + params.pairs.num_pairs, num_rotated), edits.sin);
  const bool is_q = heads.part == Part::kQ;
  const bool are_scaled = is_q && params.query_scales != nullptr;
  edits.factor = are_scaled ? params.query_scales[position] : 1.0f;
  if constexpr (kNormed) {
    if (kHeads > 1) raw_norm.Unpack(edits.weight);
    NormScales(raw, params.pairs.head_dim, params.norm_eps, edits.scales);
  }
  if (!is_q && slot == kNoSlot) return;
  const int64_t offset = is_q ? token * params.q_out_stride
                              : slot / params.block_size * params.block_stride +
                                    slot % params.block_size * params.token_stride;
  Kv* const out = static_cast<Kv*>(part.out) + offset;
  if constexpr (std::is_same_v<T, Kv>) {
    EditAndStore<kWhole, kNormed>(edits, runs, heads, raw, out, part.out_head_stride);
  } else if (is_q) {
    EditAndStore<kWhole, kNormed>(edits, runs, heads, raw, static_cast<T*>(part.out) + offset,
                                  part.out_head_stride);
  } else {
    EditAndStore<kWhole, kNormed>(edits, runs, heads, raw, out, part.out_head_stride,
                                  {part.out_scales, params.kv_dtype});
  }
}

template <typename T, typename Kv, int kHeads, bool kWhole, bool kNormed>
void Launch(const StoreHeadsParams& params, int num_lanes, cudaStream_t stream) {
  int64_t num_shares = 0;  // of a token
  for (const PartParams& part : params.parts) num_shares += CeilDiv(part.num_heads, kHeads);
  // Whole warps of one token; the shares beyond the last have no heads.
  const int64_t shares =
      std::min<int64_t>(RoundUp<int64_t>(num_shares, 32 / num_lanes), kThreads / num_lanes);
  const int64_t tokens = std::clamp<int64_t>(kThreads / (num_lanes * shares), 1, params.num_tokens);
  const dim3 block(static_cast<unsigned>(num_lanes), static_cast<unsigned>(shares),
                   static_cast<unsigned>(tokens));
  const dim3 grid(static_cast<unsigned>(CeilDiv(params.num_tokens, tokens)),
                  static_cast<unsigned>(CeilDiv(num_shares, shares)));
  LaunchKernel(StoreHeadsKernel<T, Kv, kHeads, kWhole, kNormed>, grid, block, 0, stream, params);
}

template <typename T, typename Kv, bool kNormed>
void LaunchWhole(const StoreHeadsParams& params, int num_lanes, cudaStream_t stream) {
  constexpr Many kMany = kNormed ? kManyNormed : kManyPlain;
  const bool many = params.num_tokens * params.num_heads() * num_lanes > kMany.num_threads &&
                    params.parts[1].num_heads >= kMany.num_heads && num_lanes >= kMany.num_heads;
  many ? Launch<T, Kv, kMany.num_heads, true, kNormed>(params, num_lanes, stream)
       : Launch<T, Kv, 1, true, kNormed>(params, num_lanes, stream);
}

template <typename T, typename Kv>
void LaunchOf(const StoreHeadsParams& params, int num_lanes, cudaStream_t stream) {
  const bool whole = params.pairs.num_pairs % kVector == 0 &&
                     params.pairs.pair_distance % kVector == 0 &&
                     reinterpret_cast<uintptr_t>(params.cos_sin) % 16 == 0;
  bool normed = false;
  for (const PartParams& part : params.parts) normed |= part.norm != HeadNormKind::kNone;
  if (!whole) {
    Launch<T, Kv, 1, false, true>(params, num_lanes, stream);
  } else if (normed) {
    LaunchWhole<T, Kv, true>(params, num_lanes, stream);
  } else {
    LaunchWhole<T, Kv, false>(params, num_lanes, stream);
  }
}

// float16 goes with a float16 cache, or one of 8 bits, only, as in attention.
template <typename T, typename Kv>
inline constexpr bool kGoTogether = std::is_same_v<T, __half> == std::is_same_v<Kv, __half>;

void Launch(const StoreHeadsParams& params, DType dtype, cudaStream_t stream) {
  const int needed = NumLanes(params.pairs);
  const auto num_lanes = static_cast<int>(std::bit_ceil(static_cast<unsigned>(needed)));
  CHECK_LE(num_lanes, 32) << "heads of " << params.pairs.head_dim << " elements, "
                          << params.pairs.num_pairs << " pairs";
  DispatchFloat(dtype, [&]<typename T>() {
    if (IsFloat8(params.kv_dtype)) return LaunchOf<T, Float8Bits>(params, num_lanes, stream);
    DispatchFloat(params.kv_dtype, [&]<typename Kv>() {
      if constexpr (kGoTogether<T, Kv>) LaunchOf<T, Kv>(params, num_lanes, stream);
    });
  });
}

void CheckVectors(const StoreHeadsArgs& args) {
  const KvCacheView& kv = args.kv_cache;
  CHECK(IsFloat8(kv.dtype) || (kv.dtype == DType::kF16) == (args.x.dtype() == DType::kF16))
      << DTypeName(kv.dtype);
  const Tensor k(kv.k.data, kv.dtype, {kv.k.head_dim}), v(kv.v.data, kv.dtype, {kv.k.head_dim});
  bool fit = FitsVectors(kv.k.head_dim, {&args.x, &args.q_out, &k, &v}) &&
             kv.k.block_stride % kVector == 0 && kv.k.token_stride % kVector == 0 &&
             kv.k.head_stride % kVector == 0;
  for (const HeadsArgs* heads : {&args.q, &args.k, &args.v}) {
    fit = fit && FitsVectors(kv.k.head_dim, {&heads->norm_weight}) && heads->first % kVector == 0 &&
          heads->stride % kVector == 0;
  }
  CHECK(fit) << "heads must be multiples of " << kVector << " elements, on 16 bytes";
}

PartParams PartOf(const HeadsArgs& heads, void* out, int64_t out_head_stride,
                  const float* out_scales) {
  return {.num_heads = heads.num_heads,
          .first = static_cast<int>(heads.first),
          .stride = static_cast<int>(heads.stride),
          .norm = heads.norm,
          .rotate = heads.rotate,
          .norm_weight = FloatVector(heads.norm_weight),
          .out = out,
          .out_head_stride = out_head_stride,
          .out_scales = out_scales};
}

}  // namespace

void LaunchStoreHeads(const StoreHeadsArgs& args, cudaStream_t stream) {
  const int64_t num_tokens = args.x.dim(0);
  if (num_tokens == 0) return;
  CheckVectors(args);
  const KvCacheView& kv = args.kv_cache;
  const bool neighbours = args.pair_distance == 1;
  const StoreHeadsParams params = {
      .x = args.x.data(),
      .x_stride = args.x.row_stride(),
      .q_out_stride = args.q_out.row_stride(),
      .cos_sin = args.cos_sin,
      .query_scales = args.query_scales,
      .positions = args.positions,
      .slot_mapping = args.slot_mapping,
      .num_tokens = num_tokens,
      .pairs = {.head_dim = kv.k.head_dim,
                .num_pairs = args.num_pairs,
                .pair_distance = neighbours ? args.num_pairs : args.pair_distance,
                .neighbours = neighbours},
      .norm_eps = args.norm_eps,
      .block_stride = kv.k.block_stride,
      .token_stride = kv.k.token_stride,
      .block_size = kv.block_size,
      .kv_dtype = kv.dtype,
      .parts = {PartOf(args.q, args.q_out.data(), kv.k.head_dim, nullptr),
                PartOf(args.k, kv.k.data, kv.k.head_stride, kv.k.scales),
                PartOf(args.v, kv.v.data, kv.v.head_stride, kv.v.scales)}};
  Launch(params, args.x.dtype(), stream);
}

}  // namespace quire::cuda
