// Our gemms with quantized weights on sm_90a, of any number of rows: out = x * weight^T + bias.
// There are variants, which divide the work differently; which is fastest for a gemm is measured
// (gemm_tuner.h). A row's sum is taken in an order that depends only on in_features and the
// variant. Used by the engine's thread.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "kernels/experts.h"
#include "kernels/op_args.h"

struct CUstream_st;

namespace quire::cuda {

// The format that a weight gets for activations of this type on the device that is current: this
// one, or kFloat where no kernel multiplies it.
LinearFormat QuantizedFormatFor(const LinearFormat& format, DType activations, bool has_experts);

// Those that may be fast for these arguments, the default one first; none for weights that are not
// quantized, nor for more than kMaxQuantizedGemvRows rows of weights that are HasFloat8Tiles, which
// gemms of hopper/ take. x in rows of whole 16-byte pieces, its columns in the order of the
// weight's.
std::vector<int> QuantizedGemmVariants(const LinearArgs& args);

// A variant's name in the tuning cache, and back; -1 for a name that none has.
std::string QuantizedGemmVariantName(int variant);
int FindQuantizedGemmVariant(absl::string_view name);

void LaunchQuantizedGemm(const LinearArgs& args, int variant, CUstream_st* stream);
// Bit for bit what LaunchQuantizedGemm and then GatedActivation give. The gates must be whole
// blocks of rows.
void LaunchGatedQuantizedGemm(const GatedLinearArgs& args, int variant, CUstream_st* stream);
bool HasWholeGateBlocks(const LinearWeight& weight);

// Gemms with experts' weights.
struct ExpertRowsArgs {
  Tensor x;  // [num_pairs, in_features], as routing.pairs is sorted
  const LinearWeight* weight;
  Tensor bias;  // [num_experts, out_features] float32 or empty
  Routing routing;
  bool is_gated;           // whole blocks of gates (HasWholeGateBlocks); results are half as many
  Activation activation;   // of a gated gemm
  bool in_order_of_pairs;  // results lie so, not as x does
  Tensor out;              // [num_pairs, out_features] or half of them
};
void LaunchQuantizedExpertGemm(const ExpertRowsArgs& args, CUstream_st* stream);
// The same of one or two tokens. x_of_tokens: x is [num_tokens, in_features], not sorted. False,
// and nothing is launched, for more tokens and where shared memory is too small for x.
bool LaunchQuantizedExpertGemv(const ExpertRowsArgs& args, bool x_of_tokens, CUstream_st* stream);

}  // namespace quire::cuda
