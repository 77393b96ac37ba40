// GatedDeltaRoom: what the passes of GatedDelta over some tokens of a step leave to one another;
// and where those passes find a sequence's tokens and inputs. Plain values; any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/gated_delta.h"

namespace quire::cpu {

// Tokens [begin, end) of the step, at most kGatedDeltaRoomTokens of them.
class GatedDeltaRoom {
 public:
  GatedDeltaRoom(const GatedDeltaArgs& args, int64_t begin, int64_t end)
      : data_(static_cast<float*>(args.room.data())),
        num_scales_(2 * int64_t{args.shape.num_k_heads}),
        num_gates_(2 * int64_t{args.shape.num_v_heads}),
        row_size_(num_scales_ + num_gates_ + args.shape.v_size()),
        begin_(begin),
        end_(end) {}

  int64_t begin() const { return begin_; }
  int64_t end() const { return end_; }

  // The factors of each head of the token's queries, then of its keys: [2, num_k_heads].
  float* scales(int64_t token) const { return data_ + (token - begin_) * row_size_; }
  // exp(g) of each v head, then sigmoid(b): [2, num_v_heads].
  float* gates(int64_t token) const { return scales(token) + num_scales_; }
  // [num_v_heads, v_head_dim], before the norm.
  float* o(int64_t token) const { return gates(token) + num_gates_; }

 private:
  float* data_;
  int64_t num_scales_, num_gates_, row_size_;
  int64_t begin_, end_;
};

// The sequence of a token that lies in one.
inline int32_t SequenceOf(const StateBatch& batch, int64_t token) {
  const int32_t* end = batch.cu_seqlens_q + batch.num_seqs + 1;
  const int32_t* above = std::upper_bound(batch.cu_seqlens_q, end, static_cast<int32_t>(token));
  return static_cast<int32_t>(above - batch.cu_seqlens_q) - 1;
}

inline bool IsPadding(const StateAccess& sequence) { return sequence.write < 0; }

inline std::byte* ConvSlot(const StateView& state, int64_t slot) {
  return static_cast<std::byte*>(state.conv) + slot * state.conv_stride_bytes;
}

inline float* RecurrentSlot(const StateView& state, int64_t slot) {
  return reinterpret_cast<float*>(static_cast<std::byte*>(state.recurrent) +
                                  slot * state.recurrent_stride_bytes);
}

// A sequence's input of the convolution [num_channels] at a token of this step, or before it
// (index -1 .. -(conv_width - 1)). Null for zeros.
inline const std::byte* ConvInput(const GatedDeltaArgs& args, int64_t seq, int64_t index) {
  const int64_t element_bytes = DTypeBytes(args.qkvz.dtype());
  if (index >= 0) {
    const int64_t row = args.batch.cu_seqlens_q[seq] + index;
    return static_cast<const std::byte*>(args.qkvz.data()) +
           row * args.qkvz.row_stride() * element_bytes;
  }
  const int32_t slot = args.batch.sequences[seq].read;
  if (slot < 0) return nullptr;
  return ConvSlot(args.state, slot) +
         (args.shape.conv_width - 1 + index) * args.shape.num_channels() * element_bytes;
}

}  // namespace quire::cpu
