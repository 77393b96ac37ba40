#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/base/types.h"
#include "kernels/cpu/runtime/free_ops.h"

namespace quire::cpu {

namespace {

constexpr float kNoKeys = -std::numeric_limits<float>::infinity();
constexpr int64_t kRowsPerRange = 64;

// out = the states' values weighted by what their sums say; `state(i)` is the i-th state's value at
// an element. Returns the merged log-sum-exp. In place where out is a state's: each element is read
// before it is written, and no other.
template <typename T, typename Lse, typename State>
float MergeRow(int32_t num_states, int64_t head_dim, const Lse& lse, const State& state, T* out) {
  float max = kNoKeys;
  for (int32_t i = 0; i < num_states; ++i) max = std::max(max, lse(i));
  if (max == kNoKeys) {
    std::fill_n(out, head_dim, T(0.0f));
    return kNoKeys;
  }
  float sum = 0;
  for (int32_t i = 0; i < num_states; ++i) sum += std::exp2(lse(i) - max);
  for (int64_t d = 0; d < head_dim; ++d) {
    float value = 0;
    for (int32_t i = 0; i < num_states; ++i) {
      // A state without keys has written nothing that counts.
      if (lse(i) == kNoKeys) continue;
      value += std::exp2(lse(i) - max) / sum * static_cast<float>(state(i)[d]);
    }
    out[d] = T(value);
  }
  return max + std::log2(sum);
}

// Calls merge(token, head) for every row.
template <typename Merge>
void ForEachRow(const Tensor& out, ThreadPool& pool, const Merge& merge) {
  const int64_t num_heads = out.dim(1);
  pool.ParallelFor(out.dim(0) * num_heads, kRowsPerRange, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      merge(row / num_heads, row % num_heads);
    }
  });
}

template <typename T>
void MergePair(const MergeStateArgs& args, ThreadPool& pool) {
  const int64_t num_heads = args.out.dim(1), head_dim = args.out.dim(2);
  ForEachRow(args.out, pool, [&](int64_t token, int64_t head) {
    const int64_t row = token * num_heads + head;
    const float lses[2] = {args.lse_a[row], args.lse_b[row]};
    const T* states[2] = {args.out_a.as<T>() + token * args.out_a.row_stride() + head * head_dim,
                          args.out_b.as<T>() + token * args.out_b.row_stride() + head * head_dim};
    args.lse[row] = MergeRow(
        2, head_dim, [&](int32_t i) { return lses[i]; }, [&](int32_t i) { return states[i]; },
        args.out.as<T>() + token * args.out.row_stride() + head * head_dim);
  });
}

template <typename T>
void MergeStacked(const MergeStatesArgs& args, ThreadPool& pool) {
  const int64_t num_heads = args.out.dim(1), head_dim = args.out.dim(2);
  ForEachRow(args.out, pool, [&](int64_t token, int64_t head) {
    const float* lse = args.states_lse + token * args.num_states * num_heads + head;
    const T* states = args.states.as<T>() + token * args.states.row_stride() + head * head_dim;
    args.lse[token * num_heads + head] = MergeRow(
        args.num_states, head_dim, [&](int32_t i) { return lse[i * num_heads]; },
        [&](int32_t i) { return states + i * num_heads * head_dim; },
        args.out.as<T>() + token * args.out.row_stride() + head * head_dim);
  });
}

}  // namespace

void MergeState(const MergeStateArgs& args, ThreadPool& pool) {
  (args.out.dtype() == DType::kF32 ? MergePair<float> : MergePair<BFloat16>)(args, pool);
}

void MergeStates(const MergeStatesArgs& args, ThreadPool& pool) {
  (args.out.dtype() == DType::kF32 ? MergeStacked<float> : MergeStacked<BFloat16>)(args, pool);
}

}  // namespace quire::cpu
