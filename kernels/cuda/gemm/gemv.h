// Our own gemm for few rows of x: out = x * weight^T + bias, limited by reading the weight once.
// There are variants, which divide the work differently; which is fastest for a gemm is measured
// (gemm_tuner.h). A row's sum is taken in an order that depends on in_features and the variant
// alone. Used by the engine's thread; no CUDA header.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "kernels/op_args.h"

struct CUstream_st;

namespace quire::cuda {

inline constexpr int64_t kMaxGemvRows = 16;
inline constexpr int kNumGemvVariants = 9;

// A variant's name in the tuning cache, and back; -1 for a name that none has.
std::string GemvVariantName(int variant);
int FindGemvVariant(absl::string_view name);

// bfloat16 or float16, at most kMaxGemvRows rows, x and weight in 16-byte pieces.
bool FitsGemv(const LinearArgs& args);

// The variant where nothing was measured.
int DefaultGemvVariant(const LinearArgs& args);

void LaunchGemv(const LinearArgs& args, int variant, CUstream_st* stream);
// For the gemms that FitsGemv; bit for bit what LaunchGemv and then GatedActivation give.
void LaunchGatedGemv(const GatedLinearArgs& args, int variant, CUstream_st* stream);

}  // namespace quire::cuda
