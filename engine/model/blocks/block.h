// Common parts of a decoder's blocks. A block is a layer's attention, its MLP, or another part that
// adds to the hidden state. Its file has its weights and the tensors that make them, its
// activations, and the operations that it enqueues. Engine thread.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "engine/model/config/model_config.h"
#include "kernels/base/check.h"
#include "kernels/base/half.h"
#include "kernels/ops.h"

namespace quire {

struct DecoderLimits {
  int64_t max_num_batched_tokens;  // of one step
  int64_t max_logit_rows;          // rows of logits computed at once
  int64_t max_model_len;           // positions the rope table covers
  DeviceKind device;               // whose kernels need room
  bool counts_experts = false;     // Decoder::expert_counts
};

struct BlockContext {
  Ops* ops;  // null if only sizes are wanted
  const ModelConfig* config;
  DType dtype;  // of activations
  DecoderLimits limits;
};

// A factor as a model that is computed in this dtype has it.
inline float Rounded(float value, DType dtype) {
  return dtype == DType::kBF16  ? static_cast<float>(BFloat16(value))
         : dtype == DType::kF16 ? static_cast<float>(Float16(value))
                                : value;
}

// `num_rows` rows of a buffer.
inline Tensor Rows(const Tensor& buffer, int64_t num_rows, int64_t first_row = 0) {
  CHECK_LE(first_row + num_rows, buffer.dim(0));
  void* data = static_cast<char*>(buffer.data()) +
               first_row * buffer.row_stride() * DTypeBytes(buffer.dtype());
  return Tensor(data, buffer.dtype(), {num_rows, buffer.dim(1)});
}

// The beginning of a buffer's memory, which has room for it, as a tensor of this shape.
inline Tensor Begin(const Tensor& buffer, std::initializer_list<int64_t> shape) {
  const Tensor result(buffer.data(), buffer.dtype(), shape);
  CHECK_LE(result.num_elements(), buffer.num_elements());
  return result;
}

// [num_tokens, heads, head_dim] as [num_tokens, heads * head_dim].
inline Tensor Flat(const Tensor& heads) {
  return Tensor(heads.data(), heads.dtype(), {heads.dim(0), heads.dim(1) * heads.dim(2)});
}

}  // namespace quire
