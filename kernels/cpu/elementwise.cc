#include "kernels/cpu/elementwise.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/base/check.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/elementwise.cc"
#include "hwy/foreach_target.h"
#include "kernels/cpu/simd-inl.h"

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

VF32 Sigmoid(VF32 x) {
  const F32 d;
  const VF32 one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, Exp2(hn::Mul(x, hn::Set(d, -kLog2E)))));
}

VF32 Silu(VF32 x) {
  const F32 d;
  const VF32 e = Exp2(hn::Mul(x, hn::Set(d, -kLog2E)));
  return hn::Div(x, hn::Add(hn::Set(d, 1.0f), e));
}

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
void ActivateRows(const GatedActivationArgs& args, int64_t begin, int64_t end) {
  const int64_t size = args.out.dim(1);
  for (int64_t row = begin; row < end; ++row) {
    const T* gate = args.gate_up.as<T>() + row * args.gate_up.row_stride();
    ActivateRow(gate, gate + size, args.activation, size,
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

HWY_EXPORT(NormRowsImpl);
HWY_EXPORT(ActivateRowsImpl);
HWY_EXPORT(ScaleRowsImpl);
HWY_EXPORT(SoftCapRowsImpl);

namespace {

// Elements of a row-wise operation that take about as long as waking a thread.
constexpr int64_t kElementsPerChunk = 32 * 1024;

int64_t RowsPerChunk(int64_t row_size) {
  return std::max<int64_t>(1, kElementsPerChunk / row_size);
}

}  // namespace

void RmsNorm(const RmsNormArgs& args, ThreadPool& pool) {
  pool.ParallelFor(args.x.dim(0), RowsPerChunk(args.x.dim(1)),
                   [&](int64_t begin, int64_t end, int) {
                     HWY_DYNAMIC_DISPATCH(NormRowsImpl)(args, begin, end);
                   });
}

void GatedActivation(const GatedActivationArgs& args, ThreadPool& pool) {
  pool.ParallelFor(args.out.dim(0), RowsPerChunk(args.out.dim(1)),
                   [&](int64_t begin, int64_t end, int) {
                     HWY_DYNAMIC_DISPATCH(ActivateRowsImpl)(args, begin, end);
                   });
}

void Scale(const ScaleArgs& args, ThreadPool& pool) {
  pool.ParallelFor(args.x.dim(0), RowsPerChunk(args.x.dim(1)),
                   [&](int64_t begin, int64_t end, int) {
                     HWY_DYNAMIC_DISPATCH(ScaleRowsImpl)(args, begin, end);
                   });
}

void SoftCap(const SoftCapArgs& args, ThreadPool& pool) {
  pool.ParallelFor(args.x.dim(0), RowsPerChunk(args.x.dim(1)),
                   [&](int64_t begin, int64_t end, int) {
                     HWY_DYNAMIC_DISPATCH(SoftCapRowsImpl)(args, begin, end);
                   });
}

void GatherRows(const GatherRowsArgs& args, ThreadPool& pool) {
  const int64_t element_bytes = DTypeBytes(args.in.dtype());
  const auto* in = static_cast<const char*>(args.in.data());
  auto* out = static_cast<char*>(args.out.data());
  pool.ParallelFor(args.out.dim(0), RowsPerChunk(args.out.dim(1)),
                   [&](int64_t begin, int64_t end, int) {
                     for (int64_t row = begin; row < end; ++row) {
                       CHECK(args.indices[row] >= 0 && args.indices[row] < args.in.dim(0));
                       std::memcpy(out + row * args.out.row_stride() * element_bytes,
                                   in + args.indices[row] * args.in.row_stride() * element_bytes,
                                   args.out.dim(1) * element_bytes);
                     }
                   });
}

void UpdateBlockTables(const UpdateBlockTablesArgs& args, ThreadPool&) {
  for (int64_t i = 0; i < args.num_updates; ++i) {
    const BlockTableUpdate& update = args.updates[i];
    if (update.index == -1) continue;
    CHECK(update.row >= 0 && update.row < args.max_num_seqs);
    CHECK(update.index >= 0 && update.index < args.max_blocks_per_seq);
    const int64_t row = update.group * args.max_num_seqs + update.row;
    args.block_tables[row * args.max_blocks_per_seq + update.index] = update.block;
  }
}

}  // namespace quire::cpu
#endif  // HWY_ONCE
