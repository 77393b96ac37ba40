#include "kernels/cpu/experts/experts_gemm.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/base/columns.h"
#include "kernels/base/types.h"
#include "kernels/cpu/elementwise/row_ranges.h"
#include "kernels/cpu/runtime/free_ops.h"

namespace quire::cpu {

namespace {

// Columns [first, last) of a token's sum.
template <typename T>
void SumColumns(const ExpertsLinearArgs& args, const int32_t* rows, int64_t token, int64_t first,
                int64_t last, float* sums) {
  if (args.add.empty()) {
    std::fill(sums, sums + (last - first), 0.0f);
  } else {
    const T* const add = args.add.as<T>() + token * args.add.row_stride();
    const float gate =
        args.add_gate.empty()
            ? 1
            : 1 / (1 + std::exp(-args.add_gate.as<float>()[token * args.add_gate.row_stride()]));
    for (int64_t c = first; c < last; ++c) sums[c - first] = gate * static_cast<float>(add[c]);
  }
  const int64_t top_k = args.routing.top_k();
  const float* const weights = args.routing.weights.as<float>() + token * top_k;
  for (int64_t choice = 0; choice < top_k; ++choice) {
    const T* const row = args.rows.as<T>() + rows[token * top_k + choice] * args.rows.row_stride();
    const float weight = weights[choice];
    for (int64_t c = first; c < last; ++c) sums[c - first] += weight * static_cast<float>(row[c]);
  }
  T* const out = args.out.as<T>() + token * args.out.row_stride();
  for (int64_t c = first; c < last; ++c) out[c] = T(sums[c - first]);
}

template <typename T>
void SumRows(const ExpertsLinearArgs& args, const int32_t* row_of_pair, ThreadPool& pool) {
  constexpr int64_t kColumns = 512;  // at a time
  const int64_t num_columns = args.out.dim(1);
  const int64_t num_parts = CeilDiv(num_columns, kColumns);
  const int64_t part_elements = (args.routing.top_k() + 1) * std::min(kColumns, num_columns);
  pool.ParallelFor(args.out.dim(0) * num_parts, RowsPerRange(part_elements),
                   [&](int64_t begin, int64_t end, int) {
                     float sums[kColumns];
                     for (int64_t i = begin; i < end; ++i) {
                       const int64_t first = i % num_parts * kColumns;
                       SumColumns<T>(args, row_of_pair, i / num_parts, first,
                                     std::min(first + kColumns, num_columns), sums);
                     }
                   });
}

template <typename T>
void GrowTo(int64_t size, std::vector<T>& values) {
  if (std::ssize(values) < size) values.resize(size);
}

}  // namespace

void ExpertsGemm::GatedLinear(const ExpertsGatedLinearArgs& args, ThreadPool& pool) {
  const int64_t num_pairs = args.routing.num_pairs(), top_k = args.routing.top_k();
  const int64_t element_bytes = DTypeBytes(args.x.dtype());
  const int64_t row_bytes = args.x.dim(1) * element_bytes;
  GrowTo(CeilDiv<int64_t>(num_pairs * row_bytes, sizeof(CacheLine)), gathered_);
  const Tensor gathered(gathered_.data(), args.x.dtype(), {num_pairs, args.x.dim(1)});
  const auto* const pairs = args.routing.pairs.as<int32_t>();
  for (int64_t i = 0; i < num_pairs; ++i) {
    const int64_t from = pairs[i] / top_k * args.x.row_stride() * element_bytes;
    std::memcpy(static_cast<char*>(gathered.data()) + i * row_bytes,
                static_cast<const char*>(args.x.data()) + from, row_bytes);
  }
  Multiply(args.routing, gathered, *args.weight, args.bias, args.gate_up, pool);
  const int64_t size = args.out.dim(1);
  GatedActivation({.gate = Columns(args.gate_up, 0, size),
                   .up = Columns(args.gate_up, size, size),
                   .activation = args.activation,
                   .out = args.out},
                  pool);
}

void ExpertsGemm::Linear(const ExpertsLinearArgs& args, ThreadPool& pool) {
  const int64_t num_pairs = args.routing.num_pairs();
  Multiply(args.routing, args.x, *args.weight, args.bias, args.rows, pool);
  GrowTo(num_pairs, row_of_pair_);
  const auto* const pairs = args.routing.pairs.as<int32_t>();
  for (int64_t i = 0; i < num_pairs; ++i) row_of_pair_[pairs[i]] = static_cast<int32_t>(i);
  const auto sum = args.out.dtype() == DType::kF32 ? SumRows<float> : SumRows<BFloat16>;
  sum(args, row_of_pair_.data(), pool);
}

void ExpertsGemm::Multiply(const Routing& routing, const Tensor& x, const LinearWeight& weight,
                           const Tensor& bias, const Tensor& out, ThreadPool& pool) {
  const auto* const offsets = routing.offsets.as<int32_t>();
  for (int64_t e = 0; e < routing.num_experts(); ++e) {
    const int64_t first = offsets[e], count = offsets[e + 1] - first;
    if (count == 0) continue;
    const LinearWeight expert = weight.Expert(e);
    Tensor expert_bias;
    if (!bias.empty()) {
      const Tensor row = bias.Rows(e, 1);
      expert_bias = Tensor(row.data(), row.dtype(), {row.dim(1)});
    }
    const LinearArgs args = {.x = x.Rows(first, count),
                             .weight = &expert,
                             .bias = expert_bias,
                             .out = out.Rows(first, count)};
    weight.format.quantized() ? quantized_gemm_.Linear(args, pool) : gemm_.Linear(args, pool);
  }
}

}  // namespace quire::cpu
