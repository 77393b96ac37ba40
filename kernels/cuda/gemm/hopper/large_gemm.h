// Our gemm on sm_90a for rows of x that fill the tensor cores: out = x * weight^T + bias, as fast
// as cuBLASLt's, and with the activation of a gated MLP where the sums are. A row's sum is taken in
// order of in_features, in one share or in two, as the variant says. Used by the engine's thread;
// no CUDA header.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "kernels/op_args.h"

struct CUstream_st;

namespace quire::cuda {

// Where it may be faster than what is for fewer rows; with weights of e4m3 (HasFloat8Tiles)
// earlier.
inline constexpr int64_t kMinLargeGemmRows = 129, kMinFloat8LargeGemmRows = 65;

// Those that may be fast for these arguments, which are tiles of different sizes; none where the
// kernel cannot compute them: bfloat16 or float16, also as result, on a device of sm_90, at least
// kMinLargeGemmRows rows, all in 16-byte pieces, also half a row of out.
std::vector<int> LargeGemmVariants(const LinearArgs& args);

// A variant's name in the tuning cache, and back; -1 for a name that none has.
std::string LargeGemmVariantName(int variant);
int FindLargeGemmVariant(absl::string_view name);

// However many rows, as a choice serves all of a RowBucket.
void LaunchLargeGemm(const LinearArgs& args, int variant, CUstream_st* stream);
// Bit for bit what LaunchLargeGemm and then GatedActivation give. The rows of args.out begin on 16
// bytes.
void LaunchGatedLargeGemm(const GatedLinearArgs& args, int variant, CUstream_st* stream);

}  // namespace quire::cuda
