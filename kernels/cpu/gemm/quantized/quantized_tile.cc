#include "kernels/cpu/gemm/quantized/quantized_tile.h"

#include <type_traits>

#include "kernels/base/check.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gemm/quantized/quantized_tile.cc"
#include "hwy/foreach_target.h"
#include "kernels/cpu/gemm/quantized/codes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quire::cpu {
namespace HWY_NAMESPACE {

template <class T>
struct Tag {
  using Type = T;
};

// Makes values from the codes of one group: (code + offset) * scale, by vectors of features.
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
