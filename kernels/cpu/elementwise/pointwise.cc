#include "kernels/cpu/elementwise/row_ranges.h"
#include "kernels/cpu/runtime/free_ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/elementwise/pointwise.cc"
#include "hwy/foreach_target.h"
#include "kernels/cpu/runtime/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quire::cpu {
namespace HWY_NAMESPACE {

// x = function(x) for every element of the rows.
template <typename T, typename Function>
void MapRows(const Tensor& x, int64_t begin, int64_t end, const Function& function) {
  const int64_t size = x.dim(1);
  for (int64_t row = begin; row < end; ++row) {
    T* values = x.as<T>() + row * x.row_stride();
    for (int64_t i = 0; i < size; i += NumLanes()) {
      StoreF32(function(LoadF32(values + i, size - i)), values + i, size - i);
    }
  }
}

template <typename Function>
void MapRows(const Tensor& x, int64_t begin, int64_t end, const Function& function) {
  if (x.dtype() == DType::kF32) {
    MapRows<float>(x, begin, end, function);
  } else {
    MapRows<BFloat16>(x, begin, end, function);
  }
}

// tanh(u) = 2 sigmoid(2 u) - 1.
void SoftCapRowsImpl(const SoftCapArgs& args, int64_t begin, int64_t end) {
  const F32 d;
  MapRows(args.x, begin, end, [&](VF32 x) {
    const VF32 sigmoid = Sigmoid(hn::Mul(x, hn::Set(d, 2.0f / args.cap)));
    const VF32 tanh = hn::MulAdd(hn::Set(d, 2.0f), sigmoid, hn::Set(d, -1.0f));
    return hn::Mul(tanh, hn::Set(d, args.cap));
  });
}

void ScaleRowsImpl(const ScaleArgs& args, int64_t begin, int64_t end) {
  const F32 d;
  MapRows(args.x, begin, end, [&](VF32 x) { return hn::Mul(x, hn::Set(d, args.factor)); });
}

template <typename T>
void AddRows(const AddArgs& args, int64_t begin, int64_t end) {
  const VF32 factor = hn::Set(F32(), args.factor.empty() ? 1.0f : *args.factor.as<float>());
  const int64_t size = args.x.dim(1);
  for (int64_t row = begin; row < end; ++row) {
    T* x = args.x.as<T>() + row * args.x.row_stride();
    const T* y = args.y.as<T>() + row * args.y.row_stride();
    for (int64_t i = 0; i < size; i += NumLanes()) {
      const VF32 sum = hn::Add(LoadF32(x + i, size - i), LoadF32(y + i, size - i));
      StoreF32(hn::Mul(sum, factor), x + i, size - i);
    }
  }
}

void AddRowsImpl(const AddArgs& args, int64_t begin, int64_t end) {
  if (args.x.dtype() == DType::kF32) {
    AddRows<float>(args, begin, end);
  } else {
    AddRows<BFloat16>(args, begin, end);
  }
}

template <typename T>
void GateRows(const GateArgs& args, int64_t begin, int64_t end) {
  const int64_t dim = args.x.dim(2);
  for (int64_t row = begin; row < end; ++row) {
    T* x = args.x.as<T>() + row * args.x.row_stride();
    const T* gate = args.gate.as<T>() + row * args.gate.row_stride() + args.gate_first;
    for (int64_t h = 0; h < args.x.dim(1); ++h, x += dim, gate += args.gate_stride) {
      for (int64_t i = 0; i < dim; i += NumLanes()) {
        const VF32 sigmoid = Sigmoid(LoadF32(gate + i, dim - i));
        StoreF32(hn::Mul(LoadF32(x + i, dim - i), sigmoid), x + i, dim - i);
      }
    }
  }
}

void GateRowsImpl(const GateArgs& args, int64_t begin, int64_t end) {
  if (args.x.dtype() == DType::kF32) {
    GateRows<float>(args, begin, end);
  } else {
    GateRows<BFloat16>(args, begin, end);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace quire::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quire::cpu {

HWY_EXPORT(AddRowsImpl);
HWY_EXPORT(GateRowsImpl);
HWY_EXPORT(ScaleRowsImpl);
HWY_EXPORT(SoftCapRowsImpl);

void Add(const AddArgs& args, ThreadPool& pool) {
  pool.ParallelFor(args.x.dim(0), RowsPerRange(args.x.dim(1)),
                   [&](int64_t begin, int64_t end, int) {
                     HWY_DYNAMIC_DISPATCH(AddRowsImpl)(args, begin, end);
                   });
}

void Gate(const GateArgs& args, ThreadPool& pool) {
  pool.ParallelFor(args.x.dim(0), RowsPerRange(args.x.dim(1) * args.x.dim(2)),
                   [&](int64_t begin, int64_t end, int) {
                     HWY_DYNAMIC_DISPATCH(GateRowsImpl)(args, begin, end);
                   });
}

void Scale(const ScaleArgs& args, ThreadPool& pool) {
  pool.ParallelFor(args.x.dim(0), RowsPerRange(args.x.dim(1)),
                   [&](int64_t begin, int64_t end, int) {
                     HWY_DYNAMIC_DISPATCH(ScaleRowsImpl)(args, begin, end);
                   });
}

void SoftCap(const SoftCapArgs& args, ThreadPool& pool) {
  pool.ParallelFor(args.x.dim(0), RowsPerRange(args.x.dim(1)),
                   [&](int64_t begin, int64_t end, int) {
                     HWY_DYNAMIC_DISPATCH(SoftCapRowsImpl)(args, begin, end);
                   });
}

}  // namespace quire::cpu
#endif  // HWY_ONCE
