// Our gemm on sm_90a for more rows of x than a gemv has and fewer than fill the tensor cores: out =
// x * weight^T + bias, limited by reading the weight, or by latency where it is small. There are
// variants, which divide the work differently; which is fastest for a gemm is measured
// (gemm_tuner.h). A row's sum is taken in an order that depends only on in_features and the
// variant. Used by the engine's thread.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "kernels/op_args.h"

struct CUstream_st;

namespace quire::cuda {

// A gemv takes fewer rows, except where e4m3 is multiplied by e4m3.
inline constexpr int64_t kMinHopperGemmRows = 17;
inline constexpr int64_t kMaxHopperGemmRows = 256;

// The variants that may be fast for these arguments; none where the kernel cannot compute them. It
// computes bfloat16 or float16 on a device of sm_90, from kMinHopperGemmRows to kMaxHopperGemmRows
// rows, x and weight in 16-byte pieces, results in aligned pairs. With weights that are
// HasFloat8Tiles it computes any rows and results, and there is at least one variant where no other
// gemm takes them.
std::vector<int> HopperGemmVariants(const LinearArgs& args);

// A variant's name in the tuning cache, and back; -1 for a name that none has.
std::string HopperGemmVariantName(int variant);
int FindHopperGemmVariant(absl::string_view name);

void LaunchHopperGemm(const LinearArgs& args, int variant, CUstream_st* stream);
// Bit for bit what LaunchHopperGemm and then GatedActivation give.
void LaunchGatedHopperGemm(const GatedLinearArgs& args, int variant, CUstream_st* stream);

}  // namespace quire::cuda
