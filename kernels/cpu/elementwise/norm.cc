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

template <typename T>
void NormRow(const T* x, T* residual, const Tensor& weight, float eps, int64_t size, T* out) {
  constexpr int64_t kLanes = NumLanes();
  const F32 d;
  VF32 sum = hn::Zero(d);
  for (int64_t i = 0; i < size; i += kLanes) {
    VF32 v = LoadF32(x + i, size - i);
    if (residual != nullptr) {
      StoreF32(hn::Add(LoadF32(residual + i, size - i), v), residual + i, size - i);
      v = LoadF32(residual + i, size - i);
    }
    sum = hn::MulAdd(v, v, sum);
  }
  const T* from = residual != nullptr ? residual : x;
  const float mean = SumOfLanes(sum) / static_cast<float>(size);
  const VF32 scale = hn::Set(d, 1.0f / std::sqrt(mean + eps));
  for (int64_t i = 0; i < size; i += kLanes) {
    const VF32 normal = hn::Mul(LoadF32(from + i, size - i), scale);
    StoreF32(hn::Mul(normal, LoadF32(weight, i, size - i)), out + i, size - i);
  }
}

template <typename T>
void NormRows(const RmsNormArgs& args, int64_t begin, int64_t end) {
  const bool has_residual = !args.residual.empty();
  for (int64_t row = begin; row < end; ++row) {
    T* residual = has_residual ? args.residual.as<T>() + row * args.residual.row_stride() : nullptr;
    NormRow(args.x.as<T>() + row * args.x.row_stride(), residual, args.weight, args.eps,
            args.x.dim(1), args.out.as<T>() + row * args.out.row_stride());
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
