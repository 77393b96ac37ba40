#include "kernels/cpu/sampling/logit_blocks.h"

#include <algorithm>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/sampling/logit_blocks.cc"
#include "hwy/foreach_target.h"
#include "kernels/cpu/runtime/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quire::cpu {
namespace HWY_NAMESPACE {

constexpr int64_t kLanes = NumLanes();

HWY_INLINE hn::Mask<F32> FirstLanes(int64_t count) {
  const F32 d;
  return hn::Lt(hn::Iota(d, 0.0f), hn::Set(d, static_cast<float>(count)));
}

bool CleanLogitsImpl(float* logits, int64_t num_logits, float* block_max) {
  const F32 d;
  const VF32 lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  const VF32 largest = hn::Set(d, std::numeric_limits<float>::max());
  VF32 nans = hn::Zero(d);  // NaN in each lane that has met one
  for (int64_t begin = 0; begin < num_logits; begin += kLogitBlock) {
    const int64_t end = std::min(begin + kLogitBlock, num_logits);
    VF32 max = lowest;
    for (int64_t i = begin; i < end; i += kLanes) {
      const VF32 raw = LoadF32(logits + i, end - i);
      const auto is_nan = hn::IsNaN(raw);
      const VF32 clean = hn::IfThenElse(is_nan, lowest, hn::Min(raw, largest));
      nans = hn::IfThenElse(is_nan, raw, nans);
      StoreF32(clean, logits + i, end - i);
      // The lanes beyond the row are zero, which may be more than its logits.
      max = hn::Max(max,
                    i + kLanes <= end ? clean : hn::IfThenElse(FirstLanes(end - i), clean, lowest));
    }
    block_max[begin / kLogitBlock] = hn::GetLane(hn::MaxOfLanes(d, max));
  }
  return !hn::AllFalse(d, hn::IsNaN(nans));
}

// A difference of -infinity gives 0; so does one too large for the scale.
HWY_INLINE VF32 Weight(VF32 logit, float max, float scale) {
  const F32 d;
  return Exp2(hn::Mul(hn::Sub(logit, hn::Set(d, max)), hn::Set(d, scale)));
}

void LogitWeightsImpl(const float* logits, int64_t num_logits, float max, float inverse_temperature,
                      float* weights) {
  for (int64_t i = 0; i < num_logits; i += kLanes) {
    const VF32 logit = LoadF32(logits + i, num_logits - i);
    StoreF32(Weight(logit, max, inverse_temperature * kLog2E), weights + i, num_logits - i);
  }
}

void SumLogitWeightsImpl(const float* logits, int64_t num_logits, float max,
                         float inverse_temperature, float* block_sum) {
  const F32 d;
  for (int64_t begin = 0; begin < num_logits; begin += kLogitBlock) {
    const int64_t end = std::min(begin + kLogitBlock, num_logits);
    VF32 sum = hn::Zero(d);
    for (int64_t i = begin; i < end; i += kLanes) {
      const VF32 weight = Weight(LoadF32(logits + i, end - i), max, inverse_temperature * kLog2E);
      sum = hn::Add(sum,
                    i + kLanes <= end ? weight : hn::IfThenElseZero(FirstLanes(end - i), weight));
    }
    block_sum[begin / kLogitBlock] = SumOfLanes(sum);
  }
}

int64_t CountGreaterImpl(const float* logits, int64_t num_logits, float value) {
  const F32 d;
  int64_t count = 0;
  int64_t i = 0;
  for (; i + kLanes <= num_logits; i += kLanes) {
    count += hn::CountTrue(d, hn::Gt(LoadF32(logits + i), hn::Set(d, value)));
  }
  return count + std::count_if(logits + i, logits + num_logits,
                               [value](float logit) { return logit > value; });
}

}  // namespace HWY_NAMESPACE
}  // namespace quire::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quire::cpu {

HWY_EXPORT(CleanLogitsImpl);
HWY_EXPORT(LogitWeightsImpl);
HWY_EXPORT(SumLogitWeightsImpl);
HWY_EXPORT(CountGreaterImpl);

bool CleanLogits(float* logits, int64_t num_logits, float* block_max) {
  return HWY_DYNAMIC_DISPATCH(CleanLogitsImpl)(logits, num_logits, block_max);
}

void LogitWeights(const float* logits, int64_t num_logits, float max, float inverse_temperature,
                  float* weights) {
  HWY_DYNAMIC_DISPATCH(LogitWeightsImpl)
  (logits, num_logits, max, inverse_temperature, weights);
}

void SumLogitWeights(const float* logits, int64_t num_logits, float max, float inverse_temperature,
                     float* block_sum) {
  HWY_DYNAMIC_DISPATCH(SumLogitWeightsImpl)
  (logits, num_logits, max, inverse_temperature, block_sum);
}

int64_t CountGreater(const float* logits, int64_t num_logits, float value) {
  return HWY_DYNAMIC_DISPATCH(CountGreaterImpl)(logits, num_logits, value);
}

}  // namespace quire::cpu
#endif  // HWY_ONCE
