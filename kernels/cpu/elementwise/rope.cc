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

// Of a KV head; 1 where there are none.
inline float ScaleOf(const float* scales, int64_t head) {
  return scales == nullptr ? 1.0f : scales[head];
}

// Elements of 8 bits are stored divided by their scale; others have none.
template <typename Out>
HWY_INLINE void StoreScaled(VF32 value, float scale, Out* to, int64_t count) {
  if constexpr (sizeof(Out) == 1) value = hn::Div(value, hn::Set(F32(), scale));
  StoreF32(value, to, count);
}

// Normalises (where there is a weight) and rotates one head: `in` to `out`, through float32.
template <typename T, typename Out>
void RotateHead(const RopeAndStoreKvArgs& args, const T* in, const Tensor& norm_weight,
                const float* cos, float scale, Out* out) {
  constexpr int64_t kLanes = NumLanes();
  const F32 d;
  const int64_t dim = args.kv_cache.head_dim;
  const int64_t half = args.rotary_dim / 2;
  const float* sin = cos + half;
  HWY_ALIGN float head[kMaxRopeHeadDim + kLanes];
  VF32 sum = hn::Zero(d);
  for (int64_t i = 0; i < dim; i += kLanes) {
    const VF32 v = LoadF32(in + i, dim - i);
    sum = hn::MulAdd(v, v, sum);
    hn::StoreU(v, d, head + i);
  }
  if (!norm_weight.empty()) {
    const float mean = SumOfLanes(sum) / static_cast<float>(dim);
    const VF32 factor = hn::Set(d, 1.0f / std::sqrt(mean + args.norm_eps));
    for (int64_t i = 0; i < dim; i += kLanes) {
      const VF32 normal = hn::Mul(hn::LoadU(d, head + i), factor);
      hn::StoreU(hn::Mul(normal, LoadF32(norm_weight, i, dim - i)), d, head + i);
    }
  }
  for (int64_t i = 0; i < half; i += kLanes) {
    const int64_t count = half - i;
    const VF32 a = LoadF32(head + i, count);
    const VF32 b = LoadF32(head + half + i, count);
    const VF32 c = LoadF32(cos + i, count);
    const VF32 s = LoadF32(sin + i, count);
    StoreF32(hn::Sub(hn::Mul(a, c), hn::Mul(b, s)), head + i, count);
    StoreF32(hn::MulAdd(b, c, hn::Mul(a, s)), head + half + i, count);
  }
  for (int64_t i = 0; i < dim; i += kLanes) {
    StoreScaled(hn::LoadU(d, head + i), scale, out + i, dim - i);
  }
}

template <typename T, typename Kv>
void Tokens(const RopeAndStoreKvArgs& args, int64_t begin, int64_t end) {
  const KvCacheView& kv = args.kv_cache;
  const int64_t dim = kv.head_dim;
  for (int64_t token = begin; token < end; ++token) {
    const T* q = args.qkv.as<T>() + token * args.qkv.row_stride();
    const T* k = q + args.num_q_heads * dim;
    const T* v = k + kv.num_kv_heads * dim;
    const float* cos = args.cos_sin + args.positions[token] * args.rotary_dim;
    T* q_out = args.q_out.as<T>() + token * args.q_out.row_stride();
    for (int64_t h = 0; h < args.num_q_heads; ++h) {
      RotateHead(args, q + h * dim, args.q_norm_weight, cos, 1, q_out + h * dim);
    }
    const int64_t slot = args.slot_mapping[token];
    if (slot == kNoSlot) continue;
    const int64_t offset =
        slot / kv.block_size * kv.block_stride + slot % kv.block_size * kv.token_stride;
    Kv* k_slot = static_cast<Kv*>(kv.k) + offset;
    Kv* v_slot = static_cast<Kv*>(kv.v) + offset;
    for (int64_t h = 0; h < kv.num_kv_heads; ++h) {
      RotateHead(args, k + h * dim, args.k_norm_weight, cos, ScaleOf(kv.k_scales, h),
                 k_slot + h * kv.head_stride);
      const float v_scale = ScaleOf(kv.v_scales, h);
      for (int64_t i = 0; i < dim; i += NumLanes()) {
        const VF32 value = LoadF32(v + h * dim + i, dim - i);
        StoreScaled(value, v_scale, v_slot + h * kv.head_stride + i, dim - i);
      }
    }
  }
}

template <typename T>
void TokensOf(const RopeAndStoreKvArgs& args, int64_t begin, int64_t end) {
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

void TokensImpl(const RopeAndStoreKvArgs& args, int64_t begin, int64_t end) {
  if (args.qkv.dtype() == DType::kF32) {
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

void RopeAndStoreKv(const RopeAndStoreKvArgs& args, ThreadPool& pool) {
  constexpr int64_t kElementsPerRange = 16 * 1024;  // about as long as waking a thread
  const KvCacheView& kv = args.kv_cache;
  const int64_t row_size = (args.num_q_heads + 2 * int64_t{kv.num_kv_heads}) * kv.head_dim;
  CHECK_LE(kv.head_dim, HWY_NAMESPACE::kMaxRopeHeadDim);
  pool.ParallelFor(args.qkv.dim(0), std::max<int64_t>(1, kElementsPerRange / row_size),
                   [&](int64_t begin, int64_t end, int) {
                     HWY_DYNAMIC_DISPATCH(TokensImpl)(args, begin, end);
                   });
}

}  // namespace quire::cpu
#endif  // HWY_ONCE
