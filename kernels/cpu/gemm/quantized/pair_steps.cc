#include "kernels/cpu/gemm/quantized/pair_steps.h"

#include <algorithm>
#include <bit>

#include "kernels/base/check.h"
#include "kernels/base/types.h"
#include "kernels/cpu/gemm/gemm_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gemm/quantized/pair_steps.cc"
#include "hwy/foreach_target.h"
#include "kernels/cpu/gemm/quantized/codes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quire::cpu {
namespace HWY_NAMESPACE {

constexpr int kVectors = kPanelFeatures / NumLanes();
constexpr int64_t kBlockColumns = 2 * kBlockSteps;

// Makers of steps: a vector of pairs of columns from a register of words; with what they know of a
// group, whose scales they multiply with or leave to ScaleSums.

// By way of float32.
template <class Codes, bool kScaled>
struct FloatSteps {
  static constexpr int kSteps = Codes::kColumns / 2;
  const Codes codes;
  VF32 scales[kVectors];

  HWY_INLINE FloatSteps() : codes() {}

  HWY_INLINE void Open(const GroupHeader& header) {
    if constexpr (kScaled) {
#pragma GCC unroll 16
      for (int c = 0; c < kVectors; ++c) scales[c] = header.GroupScales(c * NumLanes());
    }
  }
  template <int kStep>
  HWY_INLINE VU32 Step(VU32 words, int c) const {
    VF32 first = codes.template Column<kStep>(words);
    VF32 second = codes.template Column<kStep + kSteps>(words);
    if constexpr (kScaled) {
      first = hn::Mul(first, scales[c]);
      second = hn::Mul(second, scales[c]);
    }
    VU32 high = hn::BitCast(U32(), second);
    // A number too small to be normal may have more bits than a bfloat16.
    if constexpr (kScaled) high = hn::And(high, hn::Set(U32(), 0xffff0000));
    return hn::Or(hn::ShiftRight<16>(hn::BitCast(U32(), first)), high);
  }
};

#if HWY_TARGET <= HWY_AVX3
using U16 = hn::ScalableTag<uint16_t>;
using VU16 = hn::Vec<U16>;

// A bfloat16 for each half of `words`, by its low four bits. A permutation looks at five.
HWY_INLINE VU16 LookUp(VU16 table, VU32 words) {
  return VU16{_mm512_permutexvar_epi16(words.raw, table.raw)};
}

struct alignas(64) Table {
  uint16_t values[32];

  // Of float32 that are bfloat16, too.
  explicit constexpr Table(const float (&of)[16]) : values() {
    for (int i = 0; i < 32; ++i) {
      values[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(of[i % 16]) >> 16);
    }
  }
};

struct Int4Steps {
  static constexpr int kSteps = 4;
  static constexpr Table kTable{kInt4Values};
  const VU16 table;

  HWY_INLINE Int4Steps() : table(hn::Load(U16(), kTable.values)) {}

  HWY_INLINE void Open(const GroupHeader&) {}
  template <int kStep>
  HWY_INLINE VU32 Step(VU32 words, int) const {
    return hn::BitCast(U32(), LookUp(table, hn::ShiftRight<4 * kStep>(words)));
  }
};

// e2m1 times a power of two, which is added to the exponent of what is not 0. Powers that leave the
// normal numbers of bfloat16 count as the last ones that do not.
struct PowerFloat4Steps {
  static constexpr int kSteps = 4;
  static constexpr Table kTable{kFloat4Values};
  const VU16 table;
  VU16 exponents[kVectors];

  HWY_INLINE PowerFloat4Steps() : table(hn::Load(U16(), kTable.values)) {}

  HWY_INLINE void Open(const GroupHeader& header) {
    constexpr int32_t kLeast = 2, kMost = 251, kBias = 127;  // from 0.5 * 2^-125 to 6 * 2^124
#pragma GCC unroll 16
    for (int c = 0; c < kVectors; ++c) {
      const auto code = hn::BitCast(I32(), header.ScaleCodes(c * NumLanes()));
      const auto within = hn::Min(hn::Max(code, hn::Set(I32(), kLeast)), hn::Set(I32(), kMost));
      const auto power = hn::BitCast(U32(), hn::Sub(within, hn::Set(I32(), kBias)));
      const VU32 bits = hn::And(hn::ShiftLeft<7>(power), hn::Set(U32(), 0xffff));
      exponents[c] = hn::BitCast(U16(), hn::Or(bits, hn::ShiftLeft<16>(bits)));
    }
  }
  template <int kStep>
  HWY_INLINE VU32 Step(VU32 words, int c) const {
    const VU32 codes = hn::ShiftRight<4 * kStep>(words);
    const auto is_not_zero = hn::TestBit(hn::BitCast(U16(), codes), hn::Set(U16(), 7));
    const VU16 exponent = hn::IfThenElseZero(is_not_zero, exponents[c]);
    return hn::BitCast(U32(), hn::Add(LookUp(table, codes), exponent));
  }
};

// e4m3 without NaN.
struct Float8Steps {
  static constexpr int kSteps = 2;
  static constexpr Table kTable{{0, 0x1p-9f, 0x2p-9f, 0x3p-9f, 0x4p-9f, 0x5p-9f, 0x6p-9f, 0x7p-9f}};
  const VU16 least;

  HWY_INLINE Float8Steps() : least(hn::Load(U16(), kTable.values)) {}

  HWY_INLINE void Open(const GroupHeader&) {}
  template <int kStep>
  HWY_INLINE VU32 Step(VU32 words, int) const {
    // Codes in the high bytes.
    VU16 codes = hn::BitCast(U16(), words);
    if constexpr (kStep == 0) codes = hn::ShiftLeft<8>(codes);
    // Exponent and mantissa in their places, with the sign.
    const auto moved = hn::ShiftRight<4>(hn::BitCast(hn::RebindToSigned<U16>(), codes));
    const VU16 bits = hn::And(hn::BitCast(U16(), moved), hn::Set(U16(), 0x87f0));
    const VU16 normal = hn::Add(bits, hn::Set(U16(), 120 << 7));
    const VU16 small = LookUp(least, hn::BitCast(U32(), hn::ShiftRight<8>(codes)));
    const VU16 sign = hn::And(codes, hn::Set(U16(), 0x8000));
    const auto has_exponent = hn::TestBit(bits, hn::Set(U16(), 0x0780));
    return hn::BitCast(U32(), hn::IfThenElse(has_exponent, normal, hn::Or(small, sign)));
  }
};
#else  // which have no AMX beside them
using Int4Steps = FloatSteps<Int4Codes, false>;
using PowerFloat4Steps = FloatSteps<Float4Codes, true>;
using Float8Steps = FloatSteps<Float8Codes, false>;
#endif

template <class Steps, int kStep = 0>
HWY_INLINE void StoreSteps(const Steps& steps, VU32 words, int c, uint32_t* out) {
  hn::StoreU(steps.template Step<kStep>(words, c), U32(), out + kStep * kPanelFeatures);
  if constexpr (kStep + 1 < Steps::kSteps) StoreSteps<Steps, kStep + 1>(steps, words, c, out);
}

// Units [first, end) of a panel, of one or more groups.
template <class Steps>
HWY_INLINE void ExpandRange(const ExpandBlocksArgs& args, int64_t first, int64_t end, Steps& steps,
                            uint32_t* out) {
  const QuantizedLayout& layout = *args.layout;
  const int64_t ahead = args.read_ahead / int64_t{sizeof(uint32_t)};
  for (int64_t unit = first; unit < end;) {
    const int64_t group = unit / layout.group_units;
    const int64_t group_end = std::min(end, (group + 1) * layout.group_units);
    steps.Open(GroupHeader(layout, args.panel, group));
    const uint32_t* words =
        layout.WordsOf(args.panel, group) + unit % layout.group_units * kPanelFeatures;
    for (; unit < group_end; ++unit) {
#pragma GCC unroll 16
      for (int c = 0; c < kVectors; ++c) {
        // Beyond the end of the weight, too: a hint reads nothing.
        if (ahead > 0) __builtin_prefetch(words + c * NumLanes() + ahead, 0, 2);
        StoreSteps(steps, hn::LoadU(U32(), words + c * NumLanes()), c, out + c * NumLanes());
      }
      words += kPanelFeatures;
      out += Steps::kSteps * kPanelFeatures;
    }
  }
}

template <class Steps>
HWY_INLINE void Expand(const ExpandBlocksArgs& args) {
  const PairSteps& panel = *args.steps;
  constexpr int64_t kBlockUnits = kBlockSteps / Steps::kSteps;
  Steps steps;
  uint32_t* out = args.out;
  for (int64_t i = 0; i < args.num_blocks; ++i) {
    const int64_t block = args.first_block + i, span = panel.SpanOf(block);
    const int64_t unit = (block - panel.FirstBlockOf(span)) * kBlockUnits;
    const int64_t count = std::min(kBlockUnits, panel.UnitsOf(span) - unit);
    const int64_t first = span * panel.span_units + unit;
    ExpandRange(args, first, first + count, steps, out);
    uint32_t* const end = out + kBlockSteps * kPanelFeatures;
    std::fill(out + count * Steps::kSteps * kPanelFeatures, end, 0);
    out = end;
  }
}

void ExpandBlocksImpl(const ExpandBlocksArgs& args) {
  const bool is_scaled = args.steps->has_scaled_values;
  switch (args.layout->format.value) {
    case WeightValue::kInt8:
      return Expand<FloatSteps<Int8Codes, false>>(args);
    case WeightValue::kInt4:
      return Expand<Int4Steps>(args);
    case WeightValue::kFloat4:
      if (!is_scaled) return Expand<FloatSteps<Float4Codes, false>>(args);
      return args.layout->format.scale == ScaleValue::kPowerOfTwo
                 ? Expand<PowerFloat4Steps>(args)
                 : Expand<FloatSteps<Float4Codes, true>>(args);
    case WeightValue::kFloat8:
      return is_scaled ? Expand<FloatSteps<Float8Codes, true>>(args) : Expand<Float8Steps>(args);
    case WeightValue::kFloat:
      CHECK(false) << "a weight that is not quantized";
  }
}

// A block's columns, so that the columns i and i + kSteps of each unit are neighbours.
template <int kSteps>
HWY_INLINE void PairUp(const uint16_t* columns, uint16_t* out) {
#if HWY_TARGET <= HWY_AVX3
  const hn::ScalableTag<uint16_t> d;
  const auto v = hn::LoadU(d, columns);
  if constexpr (kSteps == 4) {
    const hn::Repartition<uint8_t, decltype(d)> d8;
    const auto later = hn::BitCast(d, hn::ShiftRightBytes<8>(d8, hn::BitCast(d8, v)));
    hn::StoreU(hn::InterleaveLower(d, v, later), d, out);
  } else {
    const hn::Repartition<uint64_t, decltype(d)> d64;
    const auto units = hn::BitCast(d64, v);
    const auto second = hn::And(hn::ShiftRight<16>(units), hn::Set(d64, 0xffff0000));
    const auto third = hn::And(hn::ShiftLeft<16>(units), hn::Set(d64, 0xffff00000000));
    const auto ends = hn::And(units, hn::Set(d64, 0xffff00000000ffff));
    hn::StoreU(hn::BitCast(d, hn::Or(ends, hn::Or(second, third))), d, out);
  }
#else
  for (int64_t i = 0; i < kBlockColumns; i += 2) {
    const int64_t column = i / (2 * kSteps) * 2 * kSteps + i / 2 % kSteps;
    out[i] = columns[column];
    out[i + 1] = columns[column + kSteps];
  }
#endif
}

template <int kSteps>
HWY_INLINE void PackBlocks(const PackStepsArgs& args) {
  const auto* row = reinterpret_cast<const uint16_t*>(args.row);
  for (int64_t block = 0; block < args.steps->num_blocks; ++block) {
    PairUp<kSteps>(row + block * kBlockColumns,
                   reinterpret_cast<uint16_t*>(args.out + block * args.block_stride));
  }
}

// By vectors, then over their lanes: in one order whatever the row.
HWY_INLINE float SumOf(const BFloat16* values, int64_t size) {
  VF32 sum = hn::Zero(F32());
  for (int64_t i = 0; i < size; i += NumLanes()) sum = hn::Add(sum, LoadF32(values + i));
  return hn::GetLane(hn::SumOfLanes(F32(), sum));
}

void PackStepsImpl(const PackStepsArgs& args) {
  args.steps->unit_steps == 4 ? PackBlocks<4>(args) : PackBlocks<2>(args);
  if (args.span_sums == nullptr) return;
  for (int64_t span = 0; span < args.steps->num_spans; ++span) {
    const int64_t first = args.steps->FirstBlockOf(span);
    const int64_t size = args.steps->FirstBlockOf(span + 1) - first;
    args.span_sums[span * args.sum_stride] =
        SumOf(args.row + first * kBlockColumns, size * kBlockColumns);
  }
}

void ScaleSumsImpl(const ScaleSumsArgs& args) {
  const QuantizedLayout& layout = *args.layout;
  const GroupHeader header(layout, args.panel, args.span);
  VF32 scales[kVectors], offsets[kVectors];
#pragma GCC unroll 16
  for (int c = 0; c < kVectors; ++c) {
    const int64_t feature = c * NumLanes();
    if (!args.steps->has_scaled_values) {
      scales[c] = header.GroupScales(feature);
    } else {
      scales[c] =
          layout.row_scale_bytes > 0 ? LoadF32(header.row_scales + feature) : hn::Set(F32(), 1.0f);
    }
    if (args.span_sums != nullptr) offsets[c] = header.Offsets(feature);
  }
  for (int64_t r = 0; r < args.num_rows; ++r) {
#pragma GCC unroll 16
    for (int c = 0; c < kVectors; ++c) {
      const int64_t at = r * kPanelFeatures + c * NumLanes();
      VF32 sum = LoadF32(args.sums + at);
      if (args.span_sums != nullptr) {
        sum = hn::MulAdd(hn::Set(F32(), args.span_sums[r]), offsets[c], sum);
      }
      const VF32 result = args.span == 0 ? hn::Mul(sum, scales[c])
                                         : hn::MulAdd(sum, scales[c], LoadF32(args.out + at));
      hn::StoreU(result, F32(), args.out + at);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace quire::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quire::cpu {

HWY_EXPORT(ExpandBlocksImpl);
HWY_EXPORT(PackStepsImpl);
HWY_EXPORT(ScaleSumsImpl);

PairSteps::PairSteps(const QuantizedLayout& layout)
    : has_scaled_values(layout.format.scale != ScaleValue::kFloat32),
      num_spans(has_scaled_values ? 1 : layout.num_groups),
      unit_steps(layout.unit_columns / 2),
      span_units(has_scaled_values ? layout.padded_columns() / layout.unit_columns
                                   : layout.group_units),
      last_span_units(has_scaled_values ? span_units : layout.UnitsOf(num_spans - 1)),
      span_blocks(CeilDiv(span_units * unit_steps, kBlockSteps)),
      num_blocks((num_spans - 1) * span_blocks +
                 CeilDiv(last_span_units * unit_steps, kBlockSteps)) {}

void PlaceColumns(const QuantizedLayout& layout, const PairSteps& steps, const BFloat16* x,
                  const int32_t* order, BFloat16* out) {
  constexpr int64_t kBlockColumns = 2 * kBlockSteps;
  std::fill_n(out, steps.num_blocks * kBlockColumns, BFloat16());
  for (int64_t group = 0; group < layout.num_groups; ++group) {
    const int64_t column = group * layout.group_columns, size = layout.ColumnsOf(group);
    BFloat16* const to =
        out + (steps.has_scaled_values ? group * layout.group_units * layout.unit_columns
                                       : steps.FirstBlockOf(group) * kBlockColumns);
    if (order == nullptr) {
      std::copy_n(x + column, size, to);
    } else {
      for (int64_t i = 0; i < size; ++i) to[i] = x[order[column + i]];
    }
  }
}

void ExpandBlocks(const ExpandBlocksArgs& args) { HWY_DYNAMIC_DISPATCH(ExpandBlocksImpl)(args); }
void PackSteps(const PackStepsArgs& args) { HWY_DYNAMIC_DISPATCH(PackStepsImpl)(args); }
void ScaleSums(const ScaleSumsArgs& args) { HWY_DYNAMIC_DISPATCH(ScaleSumsImpl)(args); }

}  // namespace quire::cpu
#endif  // HWY_ONCE
