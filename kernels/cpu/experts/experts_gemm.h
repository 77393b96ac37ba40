// ExpertsGemm: the operations that multiply pairs of a token and an expert with the expert's
// matrix, by the gemms of kernels/cpu/gemm/: only chosen experts are read, and a row's bits do not
// depend on the rows beside it. Used by the stream's thread.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/gemm/grouped_linear.h"
#include "kernels/cpu/gemm/quantized/quantized_gemm.h"
#include "kernels/cpu/runtime/thread_pool.h"
#include "kernels/experts.h"

namespace quire::cpu {

class ExpertsGemm {
 public:
  // Both must outlive this.
  ExpertsGemm(Gemm& gemm, QuantizedGemm& quantized_gemm)
      : gemm_(gemm), quantized_gemm_(quantized_gemm) {}

  void GatedLinear(const ExpertsGatedLinearArgs& args, ThreadPool& pool);
  void Linear(const ExpertsLinearArgs& args, ThreadPool& pool);

 private:
  void Multiply(const GroupedLinearArgs& args, ThreadPool& pool);

  Gemm& gemm_;
  QuantizedGemm& quantized_gemm_;
  std::vector<int32_t> row_of_pair_;  // where in `pairs` each is; grows to the largest step seen
};

}  // namespace quire::cpu
