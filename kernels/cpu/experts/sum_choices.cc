#include "kernels/cpu/experts/sum_choices.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/base/types.h"
#include "kernels/cpu/elementwise/row_ranges.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/experts/sum_choices.cc"
#include "hwy/foreach_target.h"
#include "kernels/cpu/runtime/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quire::cpu {
namespace HWY_NAMESPACE {

// Columns [first, last) of a token.
template <typename T>
void SumColumns(const ExpertsLinearArgs& args, const int32_t* row_of_pair, int64_t token,
                int64_t first, int64_t last) {
  const F32 d;
  const int64_t top_k = args.routing.top_k();
  const float* const weights = args.routing.weights.as<float>() + token * top_k;
  std::array<const T*, RouterRule::kMaxTopK> rows;
  for (int64_t i = 0; i < top_k; ++i) {
    rows[i] = args.rows.as<T>() + row_of_pair[token * top_k + i] * args.rows.row_stride();
  }
  const T* const add =
      args.add.empty() ? nullptr : args.add.as<T>() + token * args.add.row_stride();
  float gate = 1;
  if (!args.add_gate.empty()) {
    gate = 1 / (1 + std::exp(-args.add_gate.as<float>()[token * args.add_gate.row_stride()]));
  }
  T* const out = args.out.as<T>() + token * args.out.row_stride();
  for (int64_t c = first; c < last; c += NumLanes()) {
    const int64_t count = last - c;
    VF32 sum = add == nullptr ? hn::Zero(d) : hn::Mul(hn::Set(d, gate), LoadF32(add + c, count));
    for (int64_t i = 0; i < top_k; ++i) {
      sum = hn::MulAdd(hn::Set(d, weights[i]), LoadF32(rows[i] + c, count), sum);
    }
    StoreF32(sum, out + c, count);
  }
}

void SumColumnsImpl(const ExpertsLinearArgs& args, const int32_t* row_of_pair, int64_t token,
                    int64_t first, int64_t last) {
  if (args.out.dtype() == DType::kF32) {
    SumColumns<float>(args, row_of_pair, token, first, last);
  } else {
    SumColumns<BFloat16>(args, row_of_pair, token, first, last);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace quire::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quire::cpu {

HWY_EXPORT(SumColumnsImpl);

void SumChoices(const ExpertsLinearArgs& args, const int32_t* row_of_pair, ThreadPool& pool) {
  constexpr int64_t kColumns = 512;  // at a time: one token's are shared among threads, too
  const int64_t num_columns = args.out.dim(1);
  const int64_t num_parts = CeilDiv(num_columns, kColumns);
  const int64_t part_elements = (args.routing.top_k() + 1) * std::min(kColumns, num_columns);
  pool.ParallelFor(args.out.dim(0) * num_parts, RowsPerRange(part_elements),
                   [&](int64_t begin, int64_t end, int) {
                     for (int64_t i = begin; i < end; ++i) {
                       const int64_t first = i % num_parts * kColumns;
                       HWY_DYNAMIC_DISPATCH(SumColumnsImpl)
                       (args, row_of_pair, i / num_parts, first,
                        std::min(first + kColumns, num_columns));
                     }
                   });
}

}  // namespace quire::cpu
#endif  // HWY_ONCE
