// Our own gemm for few rows of x: out = x * weight^T + bias, limited by reading the weight once.
// There are variants, which divide the work differently; which is fastest for a gemm is measured
// (gemm_tuner.h). A row's sum is taken in an order that depends only on in_features and the
// variant. Used by the engine's thread; no CUDA header.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "kernels/op_args.h"

struct CUstream_st;

namespace quire::cuda {

inline constexpr int64_t kMaxGemvRows = 16;
inline constexpr int kNumGemvVariants = 9;

// A variant's name in the tuning cache, and back; -1 for a name that none has.
std::string GemvVariantName(int variant);
int FindGemvVariant(absl::string_view name);

// The one to take where nothing was measured, then the others; none where the kernel cannot compute
// them: bfloat16 or float16, at most kMaxGemvRows rows, x and weight in 16-byte pieces.
std::vector<int> GemvVariants(const LinearArgs& args);

void LaunchGemv(const LinearArgs& args, int variant, CUstream_st* stream);
// Bit for bit what LaunchGemv and then GatedActivation give.
void LaunchGatedGemv(const GatedLinearArgs& args, int variant, CUstream_st* stream);

}  // namespace quire::cuda
