#include "kernels/cpu/gemm/quantized/quantized_tile.h"

#include <type_traits>

#include "kernels/base/check.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gemm/quantized/quantized_tile.cc"
#include "hwy/foreach_target.h"
#include "kernels/cpu/runtime/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quire::cpu {
namespace HWY_NAMESPACE {

using U32 = hn::ScalableTag<uint32_t>;
using I32 = hn::ScalableTag<int32_t>;
using VU32 = hn::Vec<U32>;

template <class T>
struct Tag {
  using Type = T;
};

// Codes: what a register of words holds in column kColumn, as float32.

// Two's complement of 4 bits.
struct Int4Codes {
  static constexpr int kColumns = 8;
#if HWY_TARGET <= HWY_AVX3
  // A permutation looks at the low four bits of its indices alone.
  alignas(64) static constexpr float kTable[16] = {0,  1,  2,  3,  4,  5,  6,  7,
                                                   -8, -7, -6, -5, -4, -3, -2, -1};
  HWY_INLINE Int4Codes() : table(hn::Load(F32(), kTable)) {}
  const VF32 table;
  template <int kColumn>
  HWY_INLINE VF32 Column(VU32 words) const {
    return hn::TableLookupLanes(table,
                                hn::IndicesFromVec(F32(), hn::ShiftRight<4 * kColumn>(words)));
  }
#else
  template <int kColumn>
  HWY_INLINE VF32 Column(VU32 words) const {
    const auto high = hn::BitCast(I32(), hn::ShiftLeft<28 - 4 * kColumn>(words));
    return hn::ConvertTo(F32(), hn::ShiftRight<28>(high));
  }
#endif
};

// e2m1: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their opposites.
inline constexpr float kFloat4Values[16] = {0,     0.5f,  1,  1.5f,  2,  3,  4,  6,
                                            -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

struct Float4Codes {
  static constexpr int kColumns = 8;
#if HWY_TARGET <= HWY_AVX3
  HWY_INLINE Float4Codes() : table(hn::LoadU(F32(), kFloat4Values)) {}
  const VF32 table;
  template <int kColumn>
  HWY_INLINE VF32 Column(VU32 words) const {
    return hn::TableLookupLanes(table,
                                hn::IndicesFromVec(F32(), hn::ShiftRight<4 * kColumn>(words)));
  }
#else
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
#endif
};

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

// What lies before a group's units.
struct GroupHeader {
  const QuantizedLayout& layout;
  const float* row_scales;  // of the panel, from its first feature
  const char* begin;

  HWY_INLINE GroupHeader(const QuantizedLayout& layout, const char* panel, int64_t group)
      : layout(layout),
        row_scales(reinterpret_cast<const float*>(panel)),
        begin(layout.GroupOf(panel, group)) {}

  HWY_INLINE VF32 Scales(int64_t feature) const {
    if (layout.format.scale == ScaleValue::kFloat32) {
      return LoadF32(reinterpret_cast<const float*>(begin) + feature);
    }
    const hn::Rebind<uint8_t, F32> d8;
    const auto* codes = reinterpret_cast<const uint8_t*>(begin) + feature;
    const VU32 code = hn::PromoteTo(U32(), hn::LoadU(d8, codes));
    if (layout.format.scale == ScaleValue::kFloat8) {
      return hn::Mul(ValueOfFloat8(hn::ShiftLeft<24>(code)), LoadF32(row_scales + feature));
    }
    // 2^-127 has no normal float32.
    const VF32 power = hn::BitCast(F32(), hn::ShiftLeft<23>(code));
    const VF32 least = hn::BitCast(F32(), hn::Set(U32(), 1u << 22));
    return hn::IfThenElse(hn::RebindMask(F32(), hn::Eq(code, hn::Zero(U32()))), least, power);
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

// What makes values of the codes of one group: (code + offset) * scale, by vectors of features.
template <int kVectors, bool kZeros>
struct Values {
  VF32 scales[kVectors];
  VF32 offsets[kZeros ? kVectors : 1];

  HWY_INLINE Values(const GroupHeader& header, int64_t feature) {
#pragma GCC unroll 16
    for (int c = 0; c < kVectors; ++c) {
      scales[c] = header.Scales(feature + c * NumLanes());
      if constexpr (kZeros) offsets[c] = header.Offsets(feature + c * NumLanes());
    }
  }

  HWY_INLINE VF32 Of(VF32 code, int c) const {
    if constexpr (kZeros) code = hn::Add(code, offsets[c]);
    return hn::Mul(code, scales[c]);
  }
};

// Sums of products of kRows rows with kVectors vectors of features.
template <int kRows, int kVectors>
struct Sums {
  VF32 v[kRows][kVectors];
};

// Adds the products with column kColumn of a unit and those after it.
template <class Codes, int kColumn, int kRows, int kVectors, bool kZeros>
HWY_INLINE void AddColumns(const Codes& codes, const VU32 (&words)[kVectors],
                           const Values<kVectors, kZeros>& values, const float* x,
                           Sums<kRows, kVectors>& sums) {
  VF32 w[kVectors];
#pragma GCC unroll 16
  for (int c = 0; c < kVectors; ++c) {
    w[c] = values.Of(codes.template Column<kColumn>(words[c]), c);
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    const VF32 xr = hn::Set(F32(), x[kColumn * kRows + r]);
#pragma GCC unroll 16
    for (int c = 0; c < kVectors; ++c) sums.v[r][c] = hn::MulAdd(xr, w[c], sums.v[r][c]);
  }
  if constexpr (kColumn + 1 < Codes::kColumns) {
    AddColumns<Codes, kColumn + 1>(codes, words, values, x, sums);
  }
}

// One tile of kRows rows, kVectors vectors of features at a time.
template <class Codes, bool kZeros, int kRows, int kVectors>
void Tile(const QuantizedTileArgs& args) {
  constexpr int64_t kLanes = NumLanes();
  const QuantizedLayout& layout = *args.layout;
  const Codes codes;
  const int64_t ahead = args.read_ahead / int64_t{sizeof(uint32_t)};
  for (int64_t feature = 0; feature < kPanelFeatures; feature += kVectors * kLanes) {
    Sums<kRows, kVectors> sums;
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (int c = 0; c < kVectors; ++c) sums.v[r][c] = hn::Zero(F32());
    }
    const float* x = args.x;
    for (int64_t group = 0; group < layout.num_groups; ++group) {
      const Values<kVectors, kZeros> values(GroupHeader(layout, args.panel, group), feature);
      const uint32_t* words = layout.WordsOf(args.panel, group) + feature;
      for (int64_t unit = layout.UnitsOf(group); unit > 0; --unit) {
        VU32 w[kVectors];
#pragma GCC unroll 16
        for (int c = 0; c < kVectors; ++c) {
          w[c] = hn::LoadU(U32(), words + c * kLanes);
          // Beyond the end of the weight, too: a hint reads nothing.
          if (ahead > 0) __builtin_prefetch(words + c * kLanes + ahead, 0, 2);
        }
        AddColumns<Codes, 0>(codes, w, values, x, sums);
        words += kPanelFeatures;
        x += Codes::kColumns * kRows;
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (int c = 0; c < kVectors; ++c) {
        hn::StoreU(sums.v[r][c], F32(), args.out + r * kPanelFeatures + feature + c * kLanes);
      }
    }
  }
}

// As many vectors as the registers allow beside their words, values, scales and offsets, an
// activation and a table.
constexpr int VectorsOf(int rows, bool zeros) {
  constexpr int kRegisters = HWY_TARGET <= HWY_AVX3 ? 32 : 16;
  int vectors = 4;
  while (vectors > 1 && (rows + 3 + (zeros ? 1 : 0)) * vectors + 2 > kRegisters) vectors /= 2;
  return vectors;
}

template <class Codes, bool kZeros, int kRows = 1>
HWY_INLINE void RunTile(const QuantizedTileArgs& args) {
  if (args.num_rows == kRows) return Tile<Codes, kZeros, kRows, VectorsOf(kRows, kZeros)>(args);
  if constexpr (kRows < kMaxFusedRows) {
    RunTile<Codes, kZeros, kRows + 1>(args);
  } else {
    CHECK(false) << args.num_rows << " rows are not few";
  }
}

template <class Codes, bool kZeros, int kColumn = 0>
HWY_INLINE void StoreColumns(const Codes& codes, const Values<1, kZeros>& values, VU32 words,
                             float* out) {
  hn::StoreU(values.Of(codes.template Column<kColumn>(words), 0), F32(),
             out + kColumn * kPanelFeatures);
  if constexpr (kColumn + 1 < Codes::kColumns) {
    StoreColumns<Codes, kZeros, kColumn + 1>(codes, values, words, out);
  }
}

template <class Codes, bool kZeros>
HWY_INLINE void Expand(const ExpandUnitsArgs& args) {
  const Codes codes;
  const GroupHeader header(*args.layout, args.panel, args.group);
  const int64_t ahead = args.read_ahead / int64_t{sizeof(uint32_t)};
  for (int64_t feature = 0; feature < kPanelFeatures; feature += NumLanes()) {
    const Values<1, kZeros> values(header, feature);
    const uint32_t* words =
        args.layout->WordsOf(args.panel, args.group) + args.first_unit * kPanelFeatures + feature;
    float* out = args.out + feature;
    for (int64_t unit = 0; unit < args.num_units; ++unit) {
      if (ahead > 0) __builtin_prefetch(words + ahead, 0, 2);
      StoreColumns(codes, values, hn::LoadU(U32(), words), out);
      words += kPanelFeatures;
      out += Codes::kColumns * kPanelFeatures;
    }
  }
}

// Calls `use` with the Codes of a format and whether it has zero points, as floats have none.
template <class Use>
HWY_INLINE void WithCodes(const QuantizedLayout& layout, Use use) {
  const bool zeros = layout.zero_bytes > 0;
  switch (layout.format.value) {
    case WeightValue::kInt4:
      return zeros ? use(Tag<Int4Codes>(), std::true_type())
                   : use(Tag<Int4Codes>(), std::false_type());
    case WeightValue::kInt8:
      return zeros ? use(Tag<Int8Codes>(), std::true_type())
                   : use(Tag<Int8Codes>(), std::false_type());
    case WeightValue::kFloat4:
      return use(Tag<Float4Codes>(), std::false_type());
    case WeightValue::kFloat8:
      return use(Tag<Float8Codes>(), std::false_type());
    case WeightValue::kFloat:
      CHECK(false) << "a weight that is not quantized";
  }
}

void RunQuantizedTileImpl(const QuantizedTileArgs& args) {
  WithCodes(*args.layout, [&](auto tag, auto zeros) HWY_ATTR {
    RunTile<typename decltype(tag)::Type, decltype(zeros)::value>(args);
  });
}

void ExpandUnitsImpl(const ExpandUnitsArgs& args) {
  WithCodes(*args.layout, [&](auto tag, auto zeros) HWY_ATTR {
    Expand<typename decltype(tag)::Type, decltype(zeros)::value>(args);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace quire::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quire::cpu {

HWY_EXPORT(RunQuantizedTileImpl);
HWY_EXPORT(ExpandUnitsImpl);

void RunQuantizedTile(const QuantizedTileArgs& args) {
  HWY_DYNAMIC_DISPATCH(RunQuantizedTileImpl)(args);
}

void ExpandUnits(const ExpandUnitsArgs& args) { HWY_DYNAMIC_DISPATCH(ExpandUnitsImpl)(args); }

}  // namespace quire::cpu
#endif  // HWY_ONCE
