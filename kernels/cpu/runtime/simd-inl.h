// Per-target SIMD helpers on top of Highway: float vectors from and to memory of other types,
// and the exponential and what is made of it, which attention, activation, states and sampling
// share. Included once per target, after hwy/foreach_target.h; any thread.
#if defined(QUIRE_KERNELS_CPU_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUIRE_KERNELS_CPU_SIMD_INL_H_
#undef QUIRE_KERNELS_CPU_SIMD_INL_H_
#else
#define QUIRE_KERNELS_CPU_SIMD_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "kernels/base/float8.h"
#include "kernels/base/tensor.h"

// GCC unrolls short loops over vector registers at -O2 only when told.
#define QUIRE_UNROLL _Pragma("GCC unroll 16")

HWY_BEFORE_NAMESPACE();
namespace quire::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using VF32 = hn::Vec<F32>;
HWY_INLINE constexpr int64_t NumLanes() { return hn::MaxLanes(F32()); }

HWY_INLINE VF32 LoadF32(const float* from) { return hn::LoadU(F32(), from); }

HWY_INLINE VF32 LoadF32(const BFloat16* from) {
  const hn::Rebind<uint16_t, F32> d16;
  const hn::Rebind<uint32_t, F32> d32;
  const auto bits = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(from));
  return hn::BitCast(F32(), hn::ShiftLeft<16>(hn::PromoteTo(d32, bits)));
}

// Without denormal float32 on the way, which some processors are slow with.
template <int kExponentBits>
HWY_INLINE VF32 LoadF32(const Float8<kExponentBits>* from) {
  using Number = Float8<kExponentBits>;
  constexpr int kMantissaBits = Number::kMantissaBits;
  const F32 d;
  const hn::Rebind<uint8_t, F32> d8;
  const hn::Rebind<uint32_t, F32> d32;
  const hn::RebindToSigned<F32> di;
  const auto bits = hn::PromoteTo(d32, hn::LoadU(d8, reinterpret_cast<const uint8_t*>(from)));
  const auto magnitude = hn::And(bits, hn::Set(d32, 0x7f));
  const auto normal = hn::Add(hn::ShiftLeft<23 - kMantissaBits>(magnitude),
                              hn::Set(d32, (127u - Number::kBias) << 23));
  const VF32 least = hn::Set(d, 1.0f / (1 << (Number::kBias - 1 + kMantissaBits)));
  const VF32 subnormal = hn::Mul(hn::ConvertTo(d, hn::BitCast(di, magnitude)), least);
  const auto is_subnormal = hn::Lt(magnitude, hn::Set(d32, 1u << kMantissaBits));
  VF32 value = hn::IfThenElse(hn::RebindMask(d, is_subnormal), subnormal, hn::BitCast(d, normal));
  // A code without a finite value has the largest exponent in float32, too.
  const auto is_special = hn::Gt(magnitude, hn::Set(d32, Number::kMaxFiniteBits));
  const auto special =
      hn::Or(hn::ShiftLeft<23 - kMantissaBits>(magnitude), hn::Set(d32, 0x7f800000u));
  value = hn::IfThenElse(hn::RebindMask(d, is_special), hn::BitCast(d, special), value);
  const auto sign = hn::ShiftLeft<24>(hn::And(bits, hn::Set(d32, 0x80)));
  return hn::Or(value, hn::BitCast(d, sign));
}

HWY_INLINE void StoreF32(VF32 v, float* to) { hn::StoreU(v, F32(), to); }

// Rounds to nearest even and keeps NaN, as BFloat16(float) does.
HWY_INLINE void StoreF32(VF32 v, BFloat16* to) {
  const hn::Rebind<uint16_t, F32> d16;
  const hn::Rebind<uint32_t, F32> d32;
  const auto bits = hn::BitCast(d32, v);
  const auto is_odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1));
  const auto rounded = hn::Add(bits, hn::Add(hn::Set(d32, 0x7fff), is_odd));
  const auto quiet_nan = hn::Or(bits, hn::Set(d32, 0x400000));
  const auto is_nan = hn::RebindMask(d32, hn::IsNaN(v));
  const auto high = hn::ShiftRight<16>(hn::IfThenElse(is_nan, quiet_nan, rounded));
  // Demotion to uint16_t takes int32_t and saturates; these are below 2^16.
  const hn::RebindToSigned<decltype(d32)> di32;
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di32, high)), d16, reinterpret_cast<uint16_t*>(to));
}

template <int kExponentBits>
HWY_INLINE void StoreF32(VF32 v, Float8<kExponentBits>* to) {
  float lanes[NumLanes()];
  hn::StoreU(v, F32(), lanes);
  for (int64_t i = 0; i < NumLanes(); ++i) to[i] = Float8<kExponentBits>(lanes[i]);
}

// As above for the last vector of a row too: `count` elements are left, possibly fewer than lanes.
// The lanes beyond are zero, and memory beyond is not touched.
template <typename T>
HWY_INLINE VF32 LoadF32(const T* from, int64_t count) {
  if (HWY_LIKELY(count >= NumLanes())) return LoadF32(from);
  T lanes[NumLanes()] = {};
  std::memcpy(lanes, from, count * sizeof(T));
  return LoadF32(lanes);
}

template <typename T>
HWY_INLINE void StoreF32(VF32 v, T* to, int64_t count) {
  if (HWY_LIKELY(count >= NumLanes())) return StoreF32(v, to);
  T lanes[NumLanes()];
  StoreF32(v, lanes);
  std::memcpy(to, lanes, count * sizeof(T));
}

// Elements from `i` on of a vector of either dtype (a weight), with `count` left.
HWY_INLINE VF32 LoadF32(const Tensor& tensor, int64_t i, int64_t count) {
  return tensor.dtype() == DType::kF32
             ? LoadF32(static_cast<const float*>(tensor.data()) + i, count)
             : LoadF32(tensor.as<BFloat16>() + i, count);
}

// 2^x with a relative error below 2e-7 for x in [-126, 127]; exactly 1 at 0, exactly 0 below -127.
HWY_INLINE VF32 Exp2(VF32 x) {
  const F32 d;
  const hn::RebindToSigned<F32> di;
  x = hn::Min(hn::Max(x, hn::Set(d, -127.0f)), hn::Set(d, 127.0f));
  const auto whole = hn::NearestInt(x);
  const auto part = hn::Sub(x, hn::ConvertTo(d, whole));  // in [-0.5, 0.5]
  auto p = hn::Set(d, 1.3264727213795889e-3f);            // minimax for 2^part, error 9.2e-8
  p = hn::MulAdd(p, part, hn::Set(d, 9.67151281255304e-3f));
  p = hn::MulAdd(p, part, hn::Set(d, 5.5507337448248074e-2f));
  p = hn::MulAdd(p, part, hn::Set(d, 2.4022242082676562e-1f));
  p = hn::MulAdd(p, part, hn::Set(d, 6.931469775973303e-1f));
  p = hn::MulAdd(p, part, hn::Set(d, 1.0f));
  // The exponent field of 2^-127 is 0: the scale, and with it the result, is zero.
  const auto scale = hn::ShiftLeft<23>(hn::Add(whole, hn::Set(di, 127)));
  return hn::Mul(p, hn::BitCast(d, scale));
}

inline constexpr float kLog2E = 1.44269504088896341f;

HWY_INLINE VF32 Sigmoid(VF32 x) {
  const F32 d;
  const VF32 one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, Exp2(hn::Mul(x, hn::Set(d, -kLog2E)))));
}

HWY_INLINE VF32 Silu(VF32 x) {
  const F32 d;
  const VF32 e = Exp2(hn::Mul(x, hn::Set(d, -kLog2E)));
  return hn::Div(x, hn::Add(hn::Set(d, 1.0f), e));
}

// tanh(x) with an absolute error below 3e-7.
HWY_INLINE VF32 Tanh(VF32 x) {
  const F32 d;
  const auto e = Exp2(hn::Mul(x, hn::Set(d, 2 * kLog2E)));
  const auto one = hn::Set(d, 1.0f);
  return hn::Sub(one, hn::Div(hn::Set(d, 2.0f), hn::Add(e, one)));
}

// The sum of all lanes, always added in the same order.
HWY_INLINE float SumOfLanes(VF32 v) { return hn::GetLane(hn::SumOfLanes(F32(), v)); }

}  // namespace HWY_NAMESPACE
}  // namespace quire::cpu
HWY_AFTER_NAMESPACE();

#endif  // QUIRE_KERNELS_CPU_SIMD_INL_H_
