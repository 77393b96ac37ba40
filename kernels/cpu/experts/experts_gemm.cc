#include "kernels/cpu/experts/experts_gemm.h"

#include <iterator>

#include "kernels/cpu/experts/sum_choices.h"
#include "kernels/cpu/runtime/free_ops.h"

namespace quire::cpu {

void ExpertsGemm::GatedLinear(const ExpertsGatedLinearArgs& args, ThreadPool& pool) {
  Multiply({.x = args.x,
            .weight = args.weight,
            .bias = args.bias,
            .out = args.gate_up,
            .offsets = args.routing.offsets.as<int32_t>(),
            .pairs = args.routing.pairs.as<int32_t>(),
            .top_k = args.routing.top_k()},
           pool);
  GatedActivation(args.Activate(), pool);
}

void ExpertsGemm::Linear(const ExpertsLinearArgs& args, ThreadPool& pool) {
  const auto* const pairs = args.routing.pairs.as<int32_t>();
  Multiply({.x = args.x,
            .weight = args.weight,
            .bias = args.bias,
            .out = args.rows,
            .offsets = args.routing.offsets.as<int32_t>()},
           pool);
  const int64_t num_pairs = args.routing.num_pairs();
  if (std::ssize(row_of_pair_) < num_pairs) row_of_pair_.resize(num_pairs);
  for (int64_t i = 0; i < num_pairs; ++i) row_of_pair_[pairs[i]] = static_cast<int32_t>(i);
  SumChoices(args, row_of_pair_.data(), pool);
}

void ExpertsGemm::Multiply(const GroupedLinearArgs& args, ThreadPool& pool) {
  if (args.weight->format.quantized()) {
    quantized_gemm_.GroupedLinear(args, pool);
  } else {
    gemm_.GroupedLinear(args, pool);
  }
}

}  // namespace quire::cpu
