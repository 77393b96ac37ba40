#include "kernels/cpu/elementwise/row_ranges.h"
#include "kernels/cpu/runtime/free_ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/elementwise/activation.cc"
#include "hwy/foreach_target.h"
#include "kernels/cpu/runtime/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quire::cpu {
namespace HWY_NAMESPACE {

// GELU's tanh form: (1 + tanh(u)) / 2 is sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3).
VF32 GeluTanh(VF32 x) {
  const F32 d;
  const VF32 cubic = hn::MulAdd(hn::Mul(hn::Set(d, 0.044715f), hn::Mul(x, x)), x, x);
  return hn::Mul(x, Sigmoid(hn::Mul(cubic, hn::Set(d, 1.5957691216057308f))));
}

template <typename T>
void ActivateRow(const T* gate, const T* up, Activation activation, int64_t size, T* out) {
  for (int64_t i = 0; i < size; i += NumLanes()) {
    const VF32 g = LoadF32(gate + i, size - i);
    const VF32 activated = activation == Activation::kSilu ? Silu(g) : GeluTanh(g);
    StoreF32(hn::Mul(activated, LoadF32(up + i, size - i)), out + i, size - i);
  }
}

template <typename T>
void ActivateRows(const GatedActivationArgs& args, int64_t begin, int64_t end) {
  const int64_t size = args.out.dim(1);
  for (int64_t row = begin; row < end; ++row) {
    ActivateRow(args.gate.as<T>() + row * args.gate.row_stride(),
                args.up.as<T>() + row * args.up.row_stride(), args.activation, size,
                args.out.as<T>() + row * args.out.row_stride());
  }
}

void ActivateRowsImpl(const GatedActivationArgs& args, int64_t begin, int64_t end) {
  if (args.out.dtype() == DType::kF32) {
    ActivateRows<float>(args, begin, end);
  } else {
    ActivateRows<BFloat16>(args, begin, end);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace quire::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quire::cpu {

HWY_EXPORT(ActivateRowsImpl);

void GatedActivation(const GatedActivationArgs& args, ThreadPool& pool) {
  pool.ParallelFor(args.out.dim(0), RowsPerRange(args.out.dim(1)),
                   [&](int64_t begin, int64_t end, int) {
                     HWY_DYNAMIC_DISPATCH(ActivateRowsImpl)(args, begin, end);
                   });
}

}  // namespace quire::cpu
#endif  // HWY_ONCE
