#include <algorithm>
#include <cmath>

#include "kernels/base/check.h"
#include "kernels/cpu/runtime/free_ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/elementwise/rope.cc"
#include "hwy/foreach_target.h"
#include "kernels/cpu/runtime/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quire::cpu {
namespace HWY_NAMESPACE {

constexpr int64_t kMaxRopeHeadDim = 1024;  // what a head may have on its way

// The scale of a KV head; 1 where there are none.
inline float ScaleOf(const float* scales, int64_t head) {
  return scales == nullptr ? 1.0f : scales[head];
}

// Elements of 8 bits are stored divided by their scale; others have none.
template <typename Out>
HWY_INLINE void StoreScaled(VF32 value, float scale, Out* to, int64_t count) {
  if constexpr (sizeof(Out) == 1) value = hn::Div(value, hn::Set(F32(), scale));
  StoreF32(value, to, count);
}

// Normalises a head by the sum of its squares.
HWY_INLINE void NormHead(const HeadsArgs& heads, float sum, float eps, int64_t dim, float* head) {
  const F32 d;
  const float mean = sum / static_cast<float>(dim);
  const VF32 factor = hn::Set(d, 1.0f / std::sqrt(mean + eps));
  const bool has_weight = heads.norm == HeadNormKind::kWeight;
  for (int64_t i = 0; i < dim; i += NumLanes()) {
    VF32 normal = hn::Mul(hn::LoadU(d, head + i), factor);
    if (has_weight) normal = hn::Mul(normal, LoadF32(heads.norm_weight, i, dim - i));
    hn::StoreU(normal, d, head + i);
  }
}

// Rotates the pairs of neighbours of a head in float32.
HWY_INLINE void RotateNeighbours(int64_t num_pairs, const float* cos, float* head) {
  constexpr int64_t kLanes = NumLanes();
  const F32 d;
  const float* sin = cos + num_pairs;
  int64_t i = 0;
  for (; i + kLanes <= num_pairs; i += kLanes) {
    VF32 a, b;
    hn::LoadInterleaved2(d, head + 2 * i, a, b);
    const VF32 c = hn::LoadU(d, cos + i), s = hn::LoadU(d, sin + i);
    hn::StoreInterleaved2(hn::Sub(hn::Mul(a, c), hn::Mul(b, s)), hn::MulAdd(b, c, hn::Mul(a, s)), d,
                          head + 2 * i);
  }
  for (; i < num_pairs; ++i) {
    const float a = head[2 * i], b = head[2 * i + 1];
    head[2 * i] = a * cos[i] - b * sin[i];
    head[2 * i + 1] = b * cos[i] + a * sin[i];
  }
}

// Rotates the pairs of a head in float32.
HWY_INLINE void RotateHead(const StoreHeadsArgs& args, const float* cos, float* head) {
  if (args.pair_distance == 1) return RotateNeighbours(args.num_pairs, cos, head);
  const int64_t num_pairs = args.num_pairs;
  const float* sin = cos + num_pairs;
  float* partners = head + args.pair_distance;
  for (int64_t i = 0; i < num_pairs; i += NumLanes()) {
    const int64_t count = num_pairs - i;
    const VF32 a = LoadF32(head + i, count);
    const VF32 b = LoadF32(partners + i, count);
    const VF32 c = LoadF32(cos + i, count);
    const VF32 s = LoadF32(sin + i, count);
    StoreF32(hn::Sub(hn::Mul(a, c), hn::Mul(b, s)), head + i, count);
    StoreF32(hn::MulAdd(b, c, hn::Mul(a, s)), partners + i, count);
  }
}

// The scales that a head gets in the end.
struct HeadScales {
  float factor = 1;   // multiplies it
  float divisor = 1;  // of what is stored in 8 bits
};

// Normalises, rotates and scales one head, where its kind asks for it: `in` to `out`, through
// float32.
template <typename T, typename Out>
void StoreHead(const StoreHeadsArgs& args, const HeadsArgs& heads, const T* in, const float* cos,
               const HeadScales& scales, Out* out) {
  constexpr int64_t kLanes = NumLanes();
  const F32 d;
  const int64_t dim = args.kv_cache.k.head_dim;
  const VF32 factor = hn::Set(d, scales.factor);
  if (heads.norm == HeadNormKind::kNone && !heads.rotate) {
    for (int64_t i = 0; i < dim; i += kLanes) {
      StoreScaled(hn::Mul(LoadF32(in + i, dim - i), factor), scales.divisor, out + i, dim - i);
    }
    return;
  }
  HWY_ALIGN float head[kMaxRopeHeadDim + kLanes];
  VF32 squares = hn::Zero(d);
  for (int64_t i = 0; i < dim; i += kLanes) {
    const VF32 v = LoadF32(in + i, dim - i);
    squares = hn::MulAdd(v, v, squares);
    hn::StoreU(v, d, head + i);
  }
  if (heads.norm != HeadNormKind::kNone) {
    NormHead(heads, SumOfLanes(squares), args.norm_eps, dim, head);
  }
  if (heads.rotate) RotateHead(args, cos, head);
  for (int64_t i = 0; i < dim; i += kLanes) {
    StoreScaled(hn::Mul(hn::LoadU(d, head + i), factor), scales.divisor, out + i, dim - i);
  }
}

template <typename T, typename Kv>
void Tokens(const StoreHeadsArgs& args, int64_t begin, int64_t end) {
  const KvCacheView& kv = args.kv_cache;
  for (int64_t token = begin; token < end; ++token) {
    const T* row = args.x.as<T>() + token * args.x.row_stride();
    const int64_t position = args.positions[token];
    const float* cos = args.cos_sin + position * 2 * args.num_pairs;
    const auto store = [&](const HeadsArgs& heads, int64_t h, const HeadScales& scales, auto* out) {
      StoreHead(args, heads, row + heads.first + h * heads.stride, cos, scales, out);
    };
    T* q_out = args.q_out.as<T>() + token * args.q_out.row_stride();
    const float q_scale = args.query_scales == nullptr ? 1 : args.query_scales[position];
    for (int64_t h = 0; h < args.q.num_heads; ++h) {
      store(args.q, h, {.factor = q_scale}, q_out + h * kv.k.head_dim);
    }
    const int64_t slot = args.slot_mapping[token];
    if (slot == kNoSlot) continue;
    const int64_t offset =
        slot / kv.block_size * kv.k.block_stride + slot % kv.block_size * kv.k.token_stride;
    Kv* k_slot = static_cast<Kv*>(kv.k.data) + offset;
    Kv* v_slot = static_cast<Kv*>(kv.v.data) + offset;
    for (int64_t h = 0; h < args.k.num_heads; ++h) {
      store(args.k, h, {.divisor = ScaleOf(kv.k.scales, h)}, k_slot + h * kv.k.head_stride);
      store(args.v, h, {.divisor = ScaleOf(kv.v.scales, h)}, v_slot + h * kv.k.head_stride);
    }
  }
}

template <typename T>
void TokensOf(const StoreHeadsArgs& args, int64_t begin, int64_t end) {
  switch (args.kv_cache.dtype) {
    case DType::kF32:
      return Tokens<T, float>(args, begin, end);
    case DType::kF8E4M3:
      return Tokens<T, Float8E4M3>(args, begin, end);
    case DType::kF8E5M2:
      return Tokens<T, Float8E5M2>(args, begin, end);
    default:
      return Tokens<T, BFloat16>(args, begin, end);
  }
}

void TokensImpl(const StoreHeadsArgs& args, int64_t begin, int64_t end) {
  if (args.x.dtype() == DType::kF32) {
    TokensOf<float>(args, begin, end);
  } else {
    TokensOf<BFloat16>(args, begin, end);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace quire::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quire::cpu {

HWY_EXPORT(TokensImpl);

void StoreHeads(const StoreHeadsArgs& args, ThreadPool& pool) {
  constexpr int64_t kElementsPerRange = 16 * 1024;  // about as long as waking a thread
  const int64_t num_heads = int64_t{args.q.num_heads} + args.k.num_heads + args.v.num_heads;
  const int64_t row_size = std::max<int64_t>(1, num_heads * args.kv_cache.k.head_dim);
  CHECK_LE(args.kv_cache.k.head_dim, HWY_NAMESPACE::kMaxRopeHeadDim);
  pool.ParallelFor(args.x.dim(0), std::max<int64_t>(1, kElementsPerRange / row_size),
                   [&](int64_t begin, int64_t end, int) {
                     HWY_DYNAMIC_DISPATCH(TokensImpl)(args, begin, end);
                   });
}

}  // namespace quire::cpu
#endif  // HWY_ONCE
