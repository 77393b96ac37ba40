// The packed layout of a LinearWeight on the CPU: panels of kPanelFeatures output features, each
// panel contiguous over all of in_features, so that a matrix-vector gemm reads memory in order.
// A panel is a list of steps of kStepBytes: float32 has one input feature per step (64 floats),
// bfloat16 a pair of them, the pair of one output feature side by side (what vdpbf16ps takes).
// The last panel is padded with rows that nobody reads, an odd in_features with zeros.
#pragma once

#include <cstdint>

#include "kernels/base/tensor.h"
#include "kernels/cpu/runtime/thread_pool.h"
#include "kernels/op_args.h"
#include "kernels/weight_store.h"

namespace quire::cpu {

inline constexpr int64_t kPanelFeatures = 64;
inline constexpr int64_t kStepBytes = 256;

// Memory of whole cache lines, as a vector's element.
struct alignas(64) CacheLine {
  char bytes[64];
};

// Input features per step.
constexpr int64_t StepFeatures(DType dtype) { return dtype == DType::kBF16 ? 2 : 1; }

int64_t NumPanels(const LinearWeight& weight);
int64_t NumSteps(const LinearWeight& weight);  // per panel
int64_t PackedBytes(int64_t out_features, int64_t in_features, DType dtype);

// Writes rows [num_rows, in_features] (float32, bfloat16 or float16) to features first_row... of
// the weight. Touches the elements of these rows only, so disjoint ranges may be packed at the same
// time even where they share a panel.
void PackRows(const LinearWeight& weight, int64_t first_row, const Tensor& rows);

// The random weights of kernels/base/random_weight.h.
void FillNormal(const LinearWeight& weight, const FillWeightArgs& args, ThreadPool& pool);

// Copies feature `row` to out [in_features], in the weight's dtype; of a compressed weight too.
void UnpackRow(const LinearWeight& weight, int64_t row, void* out);

}  // namespace quire::cpu
