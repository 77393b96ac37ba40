// The values that the codes of quantized weights stand for, as float32 and by vectors of features,
// and the data before a group's codes. Included once per target, after hwy/foreach_target.h; any
// thread.
#if defined(QUIRE_KERNELS_CPU_CODES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUIRE_KERNELS_CPU_CODES_INL_H_
#undef QUIRE_KERNELS_CPU_CODES_INL_H_
#else
#define QUIRE_KERNELS_CPU_CODES_INL_H_
#endif

#include <cstdint>

#include "kernels/cpu/gemm/quantized/quantized_panel.h"
#include "kernels/cpu/runtime/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quire::cpu {
namespace HWY_NAMESPACE {

using U32 = hn::ScalableTag<uint32_t>;
using I32 = hn::ScalableTag<int32_t>;
using VU32 = hn::Vec<U32>;

// Codes: what a register of words holds in column kColumn, as float32.

// Two's complement of 4 bits.
alignas(64) inline constexpr float kInt4Values[16] = {0,  1,  2,  3,  4,  5,  6,  7,
                                                      -8, -7, -6, -5, -4, -3, -2, -1};
// e2m1: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their opposites.
alignas(64) inline constexpr float kFloat4Values[16] = {0,     0.5f,  1,  1.5f,  2,  3,  4,  6,
                                                        -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

#if HWY_TARGET <= HWY_AVX3
// By a permutation, which looks at the low four bits of its indices only.
template <const float (&kValues)[16]>
struct TableCodes {
  static constexpr int kColumns = 8;
  const VF32 table;

  HWY_INLINE TableCodes() : table(hn::Load(F32(), kValues)) {}
  template <int kColumn>
  HWY_INLINE VF32 Column(VU32 words) const {
    return hn::TableLookupLanes(table,
                                hn::IndicesFromVec(F32(), hn::ShiftRight<4 * kColumn>(words)));
  }
};
using Int4Codes = TableCodes<kInt4Values>;
using Float4Codes = TableCodes<kFloat4Values>;
#else
struct Int4Codes {
  static constexpr int kColumns = 8;
  template <int kColumn>
  HWY_INLINE VF32 Column(VU32 words) const {
    const auto high = hn::BitCast(I32(), hn::ShiftLeft<28 - 4 * kColumn>(words));
    return hn::ConvertTo(F32(), hn::ShiftRight<28>(high));
  }
};

struct Float4Codes {
  static constexpr int kColumns = 8;
  template <int kColumn>
  HWY_INLINE VF32 Column(VU32 words) const {
    // Twice the value is 0, 1, 2, 3, 4, 6, 8, 12: m below 4, then (2 + m % 2) << (m / 2 - 1).
    const auto code = hn::And(hn::ShiftRight<4 * kColumn>(words), hn::Set(U32(), 15));
    const auto magnitude = hn::And(code, hn::Set(U32(), 7));
    // As float32: exponent and mantissa bit, 1 + m % 2 / 2 times 2^(m / 2 - 1), but 0 and 0.5.
    const auto normal =
        hn::BitCast(F32(), hn::Add(hn::ShiftLeft<22>(magnitude), hn::Set(U32(), 126u << 23)));
    const VF32 half =
        hn::Mul(hn::ConvertTo(F32(), hn::BitCast(I32(), magnitude)), hn::Set(F32(), 0.5f));
    const auto is_subnormal = hn::RebindMask(F32(), hn::Lt(magnitude, hn::Set(U32(), 2)));
    const VF32 value = hn::IfThenElse(is_subnormal, half, normal);
    const auto sign = hn::ShiftLeft<28>(hn::And(code, hn::Set(U32(), 8)));
    return hn::Or(value, hn::BitCast(F32(), sign));
  }
};
#endif

// Two's complement of 8 bits.
struct Int8Codes {
  static constexpr int kColumns = 4;
  template <int kColumn>
  HWY_INLINE VF32 Column(VU32 words) const {
    const auto high = hn::BitCast(I32(), hn::ShiftLeft<24 - 8 * kColumn>(words));
    return hn::ConvertTo(F32(), hn::ShiftRight<24>(high));
  }
};

// e4m3 without NaN, in the highest byte of each lane; the others do not count. Without denormal
// float32 on the way, which some processors are slow with.
HWY_INLINE VF32 ValueOfFloat8(VU32 lanes) {
  // Exponent and mantissa in their places, with the sign.
  const VU32 moved = hn::BitCast(U32(), hn::ShiftRight<4>(hn::BitCast(I32(), lanes)));
  const VU32 code = hn::And(moved, hn::Set(U32(), 0x87f00000));
  const VF32 normal = hn::BitCast(F32(), hn::Add(code, hn::Set(U32(), 120u << 23)));
  // Where the exponent is 0 that is (1 + m / 8) * 2^-7, and shall be m / 8 * 2^-6.
  const VF32 least = hn::BitCast(
      F32(), hn::Or(hn::And(code, hn::Set(U32(), 1u << 31)), hn::Set(U32(), 121u << 23)));
  const VF32 subnormal = hn::MulSub(normal, hn::Set(F32(), 2), least);
  const auto is_subnormal = hn::Eq(hn::And(code, hn::Set(U32(), 0x07800000)), hn::Zero(U32()));
  return hn::IfThenElse(hn::RebindMask(F32(), is_subnormal), subnormal, normal);
}

struct Float8Codes {
  static constexpr int kColumns = 4;
  template <int kColumn>
  HWY_INLINE VF32 Column(VU32 words) const {
    return ValueOfFloat8(hn::ShiftLeft<24 - 8 * kColumn>(words));
  }
};

// The data before a group's units.
struct GroupHeader {
  const QuantizedLayout& layout;
  const float* row_scales;  // of the panel, from its first feature
  const char* begin;

  HWY_INLINE GroupHeader(const QuantizedLayout& layout, const char* panel, int64_t group)
      : layout(layout),
        row_scales(reinterpret_cast<const float*>(panel)),
        begin(layout.GroupOf(panel, group)) {}

  HWY_INLINE VF32 Scales(int64_t feature) const {
    const VF32 scales = GroupScales(feature);
    if (layout.format.scale != ScaleValue::kFloat8) return scales;
    return hn::Mul(scales, LoadF32(row_scales + feature));
  }

  // Without the row's scales.
  HWY_INLINE VF32 GroupScales(int64_t feature) const {
    if (layout.format.scale == ScaleValue::kFloat32) {
      return LoadF32(reinterpret_cast<const float*>(begin) + feature);
    }
    const VU32 code = ScaleCodes(feature);
    if (layout.format.scale == ScaleValue::kFloat8) {
      return ValueOfFloat8(hn::ShiftLeft<24>(code));
    }
    // 2^-127 has no normal float32.
    const VF32 power = hn::BitCast(F32(), hn::ShiftLeft<23>(code));
    const VF32 least = hn::BitCast(F32(), hn::Set(U32(), 1u << 22));
    return hn::IfThenElse(hn::RebindMask(F32(), hn::Eq(code, hn::Zero(U32()))), least, power);
  }

  // The codes of scales of 8 bits.
  HWY_INLINE VU32 ScaleCodes(int64_t feature) const {
    const hn::Rebind<uint8_t, F32> d8;
    const auto* codes = reinterpret_cast<const uint8_t*>(begin) + feature;
    return hn::PromoteTo(U32(), hn::LoadU(d8, codes));
  }

  // The middle of the codes less the zero point.
  HWY_INLINE VF32 Offsets(int64_t feature) const {
    const hn::Rebind<uint8_t, F32> d8;
    const auto* zeros = reinterpret_cast<const uint8_t*>(begin) + layout.scale_bytes + feature;
    const auto zero = hn::BitCast(I32(), hn::PromoteTo(U32(), hn::LoadU(d8, zeros)));
    const int32_t middle = 1 << (BitsOf(layout.format.value) - 1);
    return hn::ConvertTo(F32(), hn::Sub(hn::Set(I32(), middle), zero));
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace quire::cpu
HWY_AFTER_NAMESPACE();

#endif
