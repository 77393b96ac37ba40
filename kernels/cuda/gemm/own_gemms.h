// Our own gemms with weights (gemv.h, hopper/hopper_gemm.h, hopper/large_gemm.h,
// quantized/quantized_gemm.h) as Gemm and the tuning cache see them. Any thread; no CUDA header.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/cuda/gemm/gemm_choice.h"
#include "kernels/op_args.h"

struct CUstream_st;

namespace quire::cuda {

struct OwnGemm {
  GemmKernel kernel;
  absl::string_view name;  // in the tuning cache
  // Those that may be fast for these arguments, the default one first; none where it cannot compute
  // them.
  std::vector<int> (*variants)(const LinearArgs& args);
  // A variant's name in the tuning cache, and back; -1 for a name that none has.
  std::string (*variant_name)(int variant);
  int (*find_variant)(absl::string_view name);
  void (*launch)(const LinearArgs& args, int variant, CUstream_st* stream);
  // Bit for bit what `launch` and then GatedActivation give.
  void (*launch_gated)(const GatedLinearArgs& args, int variant, CUstream_st* stream);
};

// All of them, those of few rows first.
absl::Span<const OwnGemm> OwnGemms();
// The one of that kernel; null for cuBLASLt.
const OwnGemm* FindOwnGemm(GemmKernel kernel);

}  // namespace quire::cuda
