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

// The activation of gpt-oss. A NaN stays a NaN.
VF32 ClampedSwish(VF32 gate, VF32 up) {
  const F32 d;
  const VF32 limit = hn::Set(d, 7.0f), least = hn::Neg(limit), one = hn::Set(d, 1.0f);
  gate = hn::IfThenElse(hn::Gt(gate, limit), limit, gate);
  up = hn::IfThenElse(hn::Gt(up, limit), limit, up);
  up = hn::IfThenElse(hn::Lt(up, least), least, up);
  return hn::Mul(hn::Mul(gate, Sigmoid(hn::Mul(gate, hn::Set(d, 1.702f)))), hn::Add(up, one));
}

VF32 Gated(Activation activation, VF32 gate, VF32 up) {
  switch (activation) {
    case Activation::kSilu:
      return hn::Mul(Silu(gate), up);
    case Activation::kGeluTanh:
      return hn::Mul(GeluTanh(gate), up);
    case Activation::kClampedSwish:
      break;
  }
  return ClampedSwish(gate, up);
}

template <typename T>
void ActivateRow(const T* gate, const T* up, Activation activation, int64_t size, T* out) {
  for (int64_t i = 0; i < size; i += NumLanes()) {
    const VF32 g = LoadF32(gate + i, size - i);
    StoreF32(Gated(activation, g, LoadF32(up + i, size - i)), out + i, size - i);
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
