// Gemms of pairs of tokens and experts with the experts' weights (kernels/experts.h). Only the
// device knows which expert each pair has: the host knows how many pairs there are. Used by the
// engine's thread.
#pragma once

#include "kernels/experts.h"

struct CUstream_st;

namespace quire::cuda {

// The arguments that gemms with gates (ExpertsGatedLinear) and without (ExpertsLinear) share.
struct ExpertGemmArgs {
  Tensor x;  // [num_tokens, in_features] or [num_pairs, in_features]
  const LinearWeight* weight;
  Tensor bias;  // [num_experts, out_features] float32 or empty
  Routing routing;
  bool is_gated;  // x has a row for each token, results a row for each of the sorted pairs;
                  // else x has those, and results lie in the order of pairs
  Activation activation;
  Tensor out;  // [num_pairs, num_columns]

  int64_t num_columns() const { return is_gated ? weight->out_features / 2 : weight->out_features; }
};

// The parameters that the kernels of these gemms share.
struct ExpertGemmCommon {
  const void* x;
  const void* weight;
  const float* bias;  // [num_experts, out_features] or null
  void* out;
  const int32_t* pairs;
  const int32_t* offsets;
  int64_t x_stride, out_stride, expert_stride;  // elements
  int num_experts, out_features, in_features, top_k;
  int num_columns;  // of out
  Activation activation;
};
ExpertGemmCommon CommonOf(const ExpertGemmArgs& args);

// Weights of 16 bits, x and weight in 16-byte pieces: a gemv for few rows of each expert, on sm_90
// also a gemm for any number.
bool HasExpertGemv(const ExpertGemmArgs& args);
void LaunchExpertGemv(const ExpertGemmArgs& args, CUstream_st* stream);
bool HasExpertGemm(const ExpertGemmArgs& args);
void LaunchExpertGemm(const ExpertGemmArgs& args, CUstream_st* stream);

// Weights of any float type and shape, slowly.
void LaunchPlainExpertGemm(const ExpertGemmArgs& args, CUstream_st* stream);

// out[i] = x[token of pairs[i]]; both are of the same type and number of columns.
void LaunchSortRows(const Tensor& x, const Routing& routing, const Tensor& out,
                    CUstream_st* stream);

// The sums of ExpertsLinear, of `rows`.
void LaunchSumOfExperts(const ExpertsLinearArgs& args, CUstream_st* stream);

}  // namespace quire::cuda
