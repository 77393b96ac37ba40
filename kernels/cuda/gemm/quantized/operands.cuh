// From a step of a weight in shared memory to a lane's operands of its gemms. Device code only.
#pragma once

#include "kernels/cuda/gemm/quantized/dequantize.cuh"
#include "kernels/cuda/gemm/quantized/quantized_gemm_shape.cuh"
#include "kernels/cuda/runtime/float8.cuh"
#include "kernels/cuda/runtime/mma.cuh"

namespace quire::cuda {

// Of a fragment: sums of a lane's upper row of the weight, then of its lower one.
__device__ __forceinline__ void AddScaledSums(const float (&sums)[4], float upper, float lower,
                                              float (&total)[4]) {
  total[0] += sums[0] * upper;
  total[1] += sums[1] * upper;
  total[2] += sums[2] * lower;
  total[3] += sums[3] * lower;
}

// x's second operands of a part's gemms by mma. at(i): where the lane's row of x is for slices 2 i
// and 2 i + 1, which are loaded together.
template <int kGemms, typename At>
__device__ __forceinline__ void LoadXPairs(int part, const At& at, uint32_t (&pairs)[2 * kGemms]) {
#pragma unroll
  for (int i = 0; i < kGemms; i += 2) {
    const int slice = part * kGemms + i;
    uint32_t words[4];
    LoadMatrices(at(slice / 2), words);
#pragma unroll
    for (int j = 0; j < 4 && j < 2 * kGemms; ++j) pairs[2 * i + j] = words[slice % 2 * 2 + j];
  }
}

template <typename Shape>
class OperandMaker {
 public:
  using Element = typename Shape::Element;
  static constexpr int kGemms = Shape::kGemms;

  // Of a part: the first operands of its gemms, and the scales of its group in the two rows, unless
  // the values are times them already.
  struct Operands {
    uint32_t values[kGemms][4];
    float upper, lower;
  };
  // The scales and zero points that the parts of a group share, in the two rows.
  struct Group {
    float upper = 1, lower = 1;
    SplitScale<Element> upper_scale, lower_scale;
    RowPairs zeros = {};
    float upper_zero = 0, lower_zero = 0;  // the same, of raw integers
  };

  __device__ explicit OperandMaker(const QuantizedGemmParams& p)
      : p_(p),
        codes_at_(Opaque(Shape::kFloat8Tiles ? TileRow() * kStepColumns : Lane() * 16)),
        scales_at_(Opaque(Shape::kFloat8Tiles
                              ? TileRow() * 4
                              : p.scales_at + Row() * (Shape::kGroups * 4 + Shape::kScaledGroups))),
        zeros_at_(Opaque(p.zeros_at + Row() * Shape::kGroups)) {}

  // The row of a quarter that a lane's upper sums belong to; the lower sums belong to the eighth
  // row after it. In tiles, the lanes that read at once have rows whose pieces lie in different
  // halves.
  static __device__ int SumsRow() { return Shape::kFloat8Tiles ? TileRow() : Row(); }

  // Whether a group begins with this part of a step.
  static constexpr bool IsAtGroup(int part) {
    return Shape::kGroups > 0 && part * kGemms * Shape::kGroups % kStepSlices == 0;
  }

  // The source of a part's operands. A word of 4-bit floats belongs to two slices, and a part may
  // have only one of them.
  static constexpr int kWords = Shape::kIsFloat4 && kGemms == 1 ? 2 : kGemms * Shape::kBits / 4;
  struct Source {
    int first_slice;
    uint32_t words[kWords];
    uint32_t upper_scales, lower_scales;  // of scaled values: the part's, a byte each
    Group group;
  };

  // Reads a part of a quarter of a step in shared memory. Part by part: `source` is what was read
  // for the one before.
  __device__ void Load(uint32_t quarter, int part, Source& source) const {
    if (part == 0 || IsAtGroup(part)) LoadGroup(quarter, quarter, part, source.group);
    LoadCodes(quarter, part, source);
  }
  __device__ void LoadCodes(uint32_t quarter, int part, Source& source) const {
    source.first_slice = part * kGemms;
    if constexpr (Shape::kFloat8Tiles) {
      LoadPiecesOfTile(quarter, part, source.words);
    } else {
      LoadWords(quarter + codes_at_, part * kGemms * Shape::kBits / 4 / kWords * kWords,
                source.words);
    }
    if constexpr (Shape::kScaledValues) {
      const uint32_t upper = quarter + scales_at_ + part * kPartScales;
      source.upper_scales = LoadScales(upper);
      source.lower_scales = LoadScales(upper + 8 * Shape::kScaledGroups);
    }
  }
  // Loads the scales and zero points of a part's group. They lie in the quarter, except that the
  // scales of a tile lie at scales_of_tile.
  __device__ void LoadGroup(uint32_t quarter, uint32_t scales_of_tile, int part,
                            Group& group) const {
    const int number = part * kGemms * Shape::kGroups / kStepSlices;
    if constexpr (Shape::kGroups > 0) {
      const uint32_t upper =
          (Shape::kFloat8Tiles ? scales_of_tile : quarter) + scales_at_ + number * 4;
      group.upper = __uint_as_float(LoadShared4(upper));
      group.lower = __uint_as_float(LoadShared4(upper + Shape::kGroups * 32));
    }
    if constexpr (Shape::kScaledInts && Shape::kBits == 4) {
      group.upper_scale = SplitScale<Element>(group.upper);
      group.lower_scale = SplitScale<Element>(group.lower);
    }
    if constexpr (Shape::kIsInt) {
      constexpr uint32_t kMiddle = 1u << (Shape::kBits - 1);
      const bool has = Shape::kGroups > 0 && p_.has_zero_points;
      const uint32_t upper = quarter + zeros_at_ + number;
      const uint32_t upper_zero = has ? LoadShared1(upper) : kMiddle;
      const uint32_t lower_zero = has ? LoadShared1(upper + 8 * Shape::kGroups) : kMiddle;
      if constexpr (Shape::kRawInts) {
        group.upper_zero = static_cast<float>(upper_zero);
        group.lower_zero = static_cast<float>(lower_zero);
      } else {
        group.zeros = {ZeroPair<Element, Shape::kValue>(upper_zero),
                       ZeroPair<Element, Shape::kValue>(lower_zero)};
      }
    }
  }

  __device__ void Make(const Source& source, Operands& operands) const {
    operands.upper = source.group.upper;
    operands.lower = source.group.lower;
    if constexpr (Shape::kFloat8Tiles) {
      WidenPieces(source.words, operands.values);
    } else if constexpr (Shape::kRawInts) {
      SplitCodes(source.words, operands.values);
    } else if constexpr (Shape::kIsFloat4) {
      MakeFloat4s(source, operands.values);
    } else {
      MakeValues(source, operands.values);
    }
  }

 private:
  // Kept in a register, not made anew at each use.
  static __device__ int Opaque(int value) {
    asm("" : "+r"(value));
    return value;
  }
  static __device__ int Lane() { return static_cast<int>(threadIdx.x) % 32; }
  static __device__ int Row() { return Lane() / 4; }
  static __device__ int TileRow() { return Row() / 2 + Row() % 2 * 4; }

  // Scales of values.
  static constexpr int kPartScales = Shape::kScaledGroups / Shape::kParts;
  static __device__ uint32_t LoadScales(uint32_t from) {
    static_assert(kPartScales == 2 || kPartScales == 4 || !Shape::kScaledValues);
    return kPartScales == 2 ? LoadShared2(from) : LoadShared4(from);
  }
  // The factors of one row for the values of a part's slices: a pair for each two slices.
  struct Factors {
    uint32_t pairs[kGemms > 1 ? kGemms / 2 : 1];

    __device__ explicit Factors(uint32_t scales) {
      constexpr auto kIsPower = Shape::kPowerScales;
      if constexpr (!Shape::kScaledValues) {
        pairs[0] = kFloat4Lift<Element>;
      } else {
        pairs[0] = TwoFactors<Element, kIsPower, 0>(scales);
        if constexpr (kPartScales == 4) pairs[1] = TwoFactors<Element, kIsPower, 2>(scales);
      }
    }
    __device__ uint32_t Of(int slice) const {
      if constexpr (!Shape::kScaledValues) return pairs[0];
      const int group = slice * kPartScales / kGemms;
      return BothHalves(pairs[group / 2], group % 2 == 1);
    }
  };

  static __device__ void MakeFloat4s(const Source& source, uint32_t (&values)[kGemms][4]) {
    const Factors upper(source.upper_scales), lower(source.lower_scales);
#pragma unroll
    for (int i = 0; i < kGemms; ++i) {
      const int slice = source.first_slice % 2 + i;  // of those that the words have
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const uint32_t word = source.words[slice / 2 * 2 + j % 2];
        values[i][j] = MultiplyPairs<Element>(UnscaledFloat4s<Element>(word, slice % 2 * 2 + j / 2),
                                              j % 2 == 0 ? upper.Of(i) : lower.Of(i));
      }
    }
  }

  // Of half of the columns a lane has 16 that follow each other, for four gemms, in float16: that
  // is one instruction for two.
  __device__ void LoadPiecesOfTile(uint32_t quarter, int part,
                                   uint32_t (&words)[2 * kGemms]) const {
    static_assert(kGemms == 4);
    const uint32_t from = quarter + codes_at_ + ((Lane() % 4 + part * 4) ^ TileRow()) * 16;
    const uint4 upper = LoadShared16(from), lower = LoadShared16(from + 8 * kStepColumns);
    words[0] = upper.x, words[1] = upper.y, words[2] = upper.z, words[3] = upper.w;
    words[4] = lower.x, words[5] = lower.y, words[6] = lower.z, words[7] = lower.w;
  }
  static __device__ void WidenPieces(const uint32_t (&words)[2 * kGemms],
                                     uint32_t (&values)[kGemms][4]) {
#pragma unroll
    for (int i = 0; i < kGemms; ++i) {
      WidenQuad<__NV_E4M3>(words[i], values[i][0], values[i][2]);
      WidenQuad<__NV_E4M3>(words[kGemms + i], values[i][1], values[i][3]);
    }
  }

  // Codes as float16's subnormal numbers, of 2^-24; the second half of a slice's columns of four
  // bits is of 2^-20.
  static __device__ void SplitCodes(const uint32_t (&words)[kGemms * Shape::kBits / 4],
                                    uint32_t (&values)[kGemms][4]) {
#pragma unroll
    for (int i = 0; i < kGemms; ++i) {
      if constexpr (Shape::kBits == 4) {
        const uint32_t lower = words[i] >> 8;
        values[i][0] = words[i] & 0x000f000fu, values[i][1] = lower & 0x000f000fu;
        values[i][2] = words[i] & 0x00f000f0u, values[i][3] = lower & 0x00f000f0u;
      } else {
        const uint32_t upper = words[2 * i], lower = words[2 * i + 1];
        values[i][0] = upper & 0x00ff00ffu, values[i][1] = lower & 0x00ff00ffu;
        values[i][2] = upper >> 8 & 0x00ff00ffu, values[i][3] = lower >> 8 & 0x00ff00ffu;
      }
    }
  }

  static __device__ void MakeValues(const Source& source, uint32_t (&values)[kGemms][4]) {
    const auto& words = source.words;
    const Group& group = source.group;
#pragma unroll
    for (int i = 0; i < kGemms; ++i) {
      if constexpr (Shape::kBits == 4) {
        DequantizeInt4<Element>(words[i], group.zeros, values[i]);
      } else {
        constexpr bool kScaled = Shape::kScaledInts;
        Dequantize8<Element, Shape::kValue>({words[2 * i], words[2 * i + 1]}, group.zeros,
                                            kScaled ? group.upper * SplitScale<Element>::kLift : 1,
                                            kScaled ? group.lower * SplitScale<Element>::kLift : 1,
                                            values[i]);
      }
      if constexpr (Shape::kScaledInts && Shape::kBits == 4) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          values[i][j] =
              j % 2 == 0 ? group.upper_scale(values[i][j]) : group.lower_scale(values[i][j]);
        }
      }
    }
  }

  // Consecutive words of a lane, of which four are a piece.
  template <int kCount>
  static __device__ void LoadWords(uint32_t codes, int first, uint32_t (&words)[kCount]) {
    if constexpr (kCount % 4 == 0) {
#pragma unroll
      for (int i = 0; i < kCount; i += 4) {
        const uint4 piece = LoadShared16(codes + (first + i) / 4 * 512);
        words[i] = piece.x, words[i + 1] = piece.y, words[i + 2] = piece.z, words[i + 3] = piece.w;
      }
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        words[i] = LoadShared4(codes + (first + i) / 4 * 512 + (first + i) % 4 * 4);
      }
    }
  }

  const QuantizedGemmParams& p_;
  const int codes_at_, scales_at_, zeros_at_;  // this lane's, in a quarter
};

}  // namespace quire::cuda
