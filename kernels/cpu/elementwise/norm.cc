#include <cmath>

#include "kernels/cpu/elementwise/row_ranges.h"
#include "kernels/cpu/runtime/free_ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/elementwise/norm.cc"
#include "hwy/foreach_target.h"
#include "kernels/cpu/runtime/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quire::cpu {
namespace HWY_NAMESPACE {

// Sums over all elements; each step takes a vector of them less the mean.
template <typename T>
float SumOfSquaredDeviations(const T* x, float mean, int64_t size) {
  const F32 d;
  VF32 sum = hn::Zero(d);
  for (int64_t i = 0; i < size; i += NumLanes()) {
    const VF32 deviation = hn::Sub(LoadF32(x + i, size - i), hn::Set(d, mean));
    const VF32 there = hn::IfThenElseZero(hn::FirstN(d, size - i), deviation);
    sum = hn::MulAdd(there, there, sum);
  }
  return SumOfLanes(sum);
}

template <typename T>
void NormRow(const RmsNormArgs& args, const T* x, T* residual, T* out) {
  constexpr int64_t kLanes = NumLanes();
  const int64_t size = args.x.dim(1);
  const F32 d;
  VF32 sum = hn::Zero(d), sum_of_squares = hn::Zero(d);
  for (int64_t i = 0; i < size; i += kLanes) {
    VF32 v = LoadF32(x + i, size - i);
    if (residual != nullptr) {
      StoreF32(hn::Add(LoadF32(residual + i, size - i), v), residual + i, size - i);
      v = LoadF32(residual + i, size - i);
    }
    sum = hn::Add(sum, v);
    sum_of_squares = hn::MulAdd(v, v, sum_of_squares);
  }
  const T* from = residual != nullptr ? residual : x;
  const auto num_elements = static_cast<float>(size);
  const float mean = args.centred ? SumOfLanes(sum) / num_elements : 0;
  const float squares =
      args.centred ? SumOfSquaredDeviations(from, mean, size) : SumOfLanes(sum_of_squares);
  const VF32 scale = hn::Set(d, 1.0f / std::sqrt(squares / num_elements + args.eps));
  for (int64_t i = 0; i < size; i += kLanes) {
    const VF32 centred = hn::Sub(LoadF32(from + i, size - i), hn::Set(d, mean));
    const VF32 weight = LoadF32(args.weight, i, size - i);
    StoreF32(hn::Mul(hn::Mul(centred, scale), weight), out + i, size - i);
  }
}

template <typename T>
void NormRows(const RmsNormArgs& args, int64_t begin, int64_t end) {
  const bool has_residual = !args.residual.empty();
  for (int64_t row = begin; row < end; ++row) {
    T* residual = has_residual ? args.residual.as<T>() + row * args.residual.row_stride() : nullptr;
    NormRow(args, args.x.as<T>() + row * args.x.row_stride(), residual,
            args.out.as<T>() + row * args.out.row_stride());
  }
}

void NormRowsImpl(const RmsNormArgs& args, int64_t begin, int64_t end) {
  if (args.x.dtype() == DType::kF32) {
    NormRows<float>(args, begin, end);
  } else {
    NormRows<BFloat16>(args, begin, end);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace quire::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quire::cpu {

HWY_EXPORT(NormRowsImpl);

void RmsNorm(const RmsNormArgs& args, ThreadPool& pool) {
  pool.ParallelFor(args.x.dim(0), RowsPerRange(args.x.dim(1)),
                   [&](int64_t begin, int64_t end, int) {
                     HWY_DYNAMIC_DISPATCH(NormRowsImpl)(args, begin, end);
                   });
}

}  // namespace quire::cpu
#endif  // HWY_ONCE
