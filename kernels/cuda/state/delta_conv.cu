// The convolution of GatedDelta.
#include <algorithm>

#include "kernels/base/types.h"
#include "kernels/cuda/runtime/float_dispatch.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/state/delta_elements.cuh"

namespace quire::cuda {

namespace {

constexpr int kThreads = 128;
constexpr int kCtasPerSm = 8;  // before a CTA gets more than one token
constexpr int kMaxRun = 32;    // tokens of a CTA
constexpr int kGroup = 4;      // tokens whose inputs are under way at once
constexpr int kMaxWidth = GatedDeltaShape::kMaxConvWidth;
constexpr int kMaxBefore = kMaxWidth - 1;

// The sequence that has the token, which lies in one.
__device__ int SequenceOf(const StateBatch& batch, int token) {
  const int decode = token - batch.cu_seqlens_q[0];
  if (decode < batch.num_decodes) return decode;
  int first = batch.num_decodes, last = batch.num_seqs - 1;
  while (first < last) {
    const int middle = (first + last + 1) / 2;
    if (batch.cu_seqlens_q[middle] <= token) {
      first = middle;
    } else {
      last = middle - 1;
    }
  }
  return first;
}

// kVector channels of one sequence.
template <typename T>
class ConvChannels {
 public:
  __device__ ConvChannels(const GatedDeltaParams& params, int channel)
      : params_(params), channel_(channel), width_(params.shape.conv_width) {
#pragma unroll
    for (int i = 0; i < kVector; ++i) LoadTaps(i);
  }

  __device__ void Begin(int seq) {
    access_ = params_.batch.sequences[seq];
    first_ = params_.batch.cu_seqlens_q[seq];
    has_units_ = seq >= params_.first_unit_seq &&
                 channel_ < 2 * params_.shape.num_k_heads * params_.shape.k_head_dim;
  }
  __device__ bool IsPadding() const { return access_.write < 0; }

  // y of tokens [begin, end), counted from the sequence's first one in this step.
  __device__ void Run(int begin, int end) const {
    float inputs[kMaxBefore + kGroup][kVector];  // oldest first
    Octet next[kGroup];
    LoadRows(begin, end, next);
#pragma unroll
    for (int j = 0; j < kMaxBefore; ++j) LoadInput(begin - kMaxBefore + j, inputs[j]);
    for (int index = begin; index < end; index += kGroup) {
#pragma unroll
      for (int g = 0; g < kGroup; ++g) next[g].Widen(inputs[kMaxBefore + g]);
      LoadRows(index + kGroup, end, next);
#pragma unroll
      for (int g = 0; g < kGroup; ++g) {
        if (index + g < end) Convolve(inputs + g, index + g);
      }
#pragma unroll
      for (int j = 0; j < kMaxBefore; ++j) {
#pragma unroll
        for (int i = 0; i < kVector; ++i) inputs[j][i] = inputs[kGroup + j][i];
      }
    }
  }

  // The last inputs, in the sequence's slots. After all that reads them.
  __device__ void Save(int num_tokens) const {
    for (int i = 0; i < access_.num_snapshots; ++i) {
      const StateSnapshot snapshot = params_.batch.snapshots[access_.first_snapshot + i];
      SaveAt(snapshot.num_tokens, snapshot.slot);
    }
    SaveAt(num_tokens, access_.write);
  }

 private:
  // Where the width is less than kMaxWidth the oldest inputs count 0 times.
  __device__ void LoadTaps(int i) {
    const float* from = params_.conv_weight + int64_t{channel_ + i} * width_;
    if (width_ == kMaxWidth) {
      float taps[kMaxWidth];
      Load(from, taps);
#pragma unroll
      for (int j = 0; j < kMaxWidth; ++j) taps_[j][i] = taps[j];
    } else {
#pragma unroll
      for (int j = 0; j < kMaxWidth; ++j) {
        const int tap = j - (kMaxWidth - width_);
        taps_[j][i] = tap < 0 ? 0.0f : from[tap];
      }
    }
  }

  __device__ int64_t Row(int index) const { return first_ + index; }

  __device__ void Convolve(const float (*inputs)[kVector], int index) const {
    float y[kVector] = {};
#pragma unroll
    for (int j = 0; j < kMaxWidth; ++j) {
#pragma unroll
      for (int i = 0; i < kVector; ++i) y[i] = fmaf(inputs[j][i], taps_[j][i], y[i]);
    }
#pragma unroll
    for (float& value : y) value = SiluApprox(value);
    StoreY(y, index);
  }

  // A token's elements as they lie in memory.
  struct Octet {
    Quad<T> low, high;

    __device__ void Widen(float (&values)[kVector]) const {
      float halves[2][4];
      cuda::Widen<T>(low, halves[0]);
      cuda::Widen<T>(high, halves[1]);
#pragma unroll
      for (int i = 0; i < kVector; ++i) values[i] = halves[i / 4][i % 4];
    }
  };
  // Loads the rows of up to kGroup tokens, all under way at once.
  __device__ void LoadRows(int index, int end, Octet (&rows)[kGroup]) const {
#pragma unroll
    for (int g = 0; g < kGroup; ++g) {
      if (index + g >= end) break;
      const T* from =
          static_cast<const T*>(params_.qkvz) + Row(index + g) * params_.qkvz_stride + channel_;
      if constexpr (sizeof(Octet) == sizeof(uint4)) {
        [[maybe_unused]] const uint4 raw = *reinterpret_cast<const uint4*>(from);
        rows[g] = {{raw.x, raw.y}, {raw.z, raw.w}};
      } else {
        rows[g] = {*reinterpret_cast<const Quad<T>*>(from),
                   *reinterpret_cast<const Quad<T>*>(from + 4)};
      }
    }
  }
  // Loads an input of this token, or one from before the step (index -1 and less).
  __device__ void LoadInput(int index, float (&values)[kVector]) const {
    if (index >= 0) {
      Load(static_cast<const T*>(params_.qkvz) + Row(index) * params_.qkvz_stride + channel_,
           values);
    } else if (access_.read >= 0 && index > -width_) {
      Load(ConvSlot<T>(params_.state, access_.read) +
               int64_t{width_ - 1 + index} * params_.num_channels + channel_,
           values);
    } else {
#pragma unroll
      for (float& value : values) value = 0.0f;
    }
  }

  // A head is of half a warp where its unit vector is wanted.
  __device__ void StoreY(float (&y)[kVector], int index) const {
    T* to = static_cast<T*>(params_.y) + Row(index) * params_.y_stride + channel_;
    if (!has_units_) return Store(y, to);
    float sum = 0.0f;
#pragma unroll
    for (float& value : y) {
      value = Rounded<T>(value);
      sum = fmaf(value, value, sum);
    }
    const uint32_t half_warp = 0xffffu << (threadIdx.x & 16);
#pragma unroll
    for (int lanes = 8; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(half_warp, sum, lanes);
    const float scale = 1.0f / sqrtf(sum + 1e-6f);
#pragma unroll
    for (float& value : y) value *= scale;
    Store(y, reinterpret_cast<__half*>(to));
  }

  // The slot may be the one that is read: then later inputs move to the front, in order.
  __device__ void SaveAt(int num_tokens, int slot) const {
    for (int row = 0; row < width_ - 1; ++row) {
      float values[kVector];
      LoadInput(num_tokens - (width_ - 1) + row, values);
      Store(values,
            ConvSlot<T>(params_.state, slot) + int64_t{row} * params_.num_channels + channel_);
    }
  }

  const GatedDeltaParams& params_;
  const int channel_, width_;
  float taps_[kMaxWidth][kVector];
  StateAccess access_;
  int first_;
  bool has_units_;
};
static_assert(kDeltaHeadDim == 16 * kVector);

// Grid: (channels / (kThreads * kVector), tokens / run). Who has a sequence's first token computes
// all that read its slot, and then writes its slots.
// Bytes: u read once, y written once; a sequence's last inputs read and written, for each snapshot,
// too; the weight once for each CTA, from the L2 cache.
// Accumulation: float32, taps in order.
// Limit: memory bandwidth.
template <typename T>
__global__ void __launch_bounds__(kThreads, 4)
    ConvKernel(const GatedDeltaParams params, int first_seq, int run) {
  const int channel = (blockIdx.x * kThreads + threadIdx.x) * kVector;
  ConvChannels<T> channels(params, min(channel, params.num_channels - kVector));
  WaitForPredecessor();
  ReleaseSuccessor();  // after all before is complete, as LaunchDeltaDecodeAfterConv needs it
  if (channel >= params.num_channels) return;
  const StateBatch& batch = params.batch;
  const int begin = max(static_cast<int>(blockIdx.y) * run, batch.cu_seqlens_q[first_seq]);
  const int end = min((static_cast<int>(blockIdx.y) + 1) * run, batch.cu_seqlens_q[batch.num_seqs]);
  if (begin >= end) return;
  for (int seq = SequenceOf(batch, begin); seq < batch.num_seqs && batch.cu_seqlens_q[seq] < end;
       ++seq) {
    channels.Begin(seq);
    if (channels.IsPadding()) continue;
    const int first = batch.cu_seqlens_q[seq];
    const int num_tokens = batch.cu_seqlens_q[seq + 1] - first;
    const int to = min(end - first, num_tokens);
    if (first < begin) {
      const int from = max(begin - first, kMaxBefore);
      if (from < to) channels.Run(from, to);
    } else {
      channels.Run(0, max(to, min(kMaxBefore, num_tokens)));
      channels.Save(num_tokens);
    }
  }
}

}  // namespace

void LaunchDeltaConv(const GatedDeltaParams& params, int first_seq, cudaStream_t stream) {
  const int slices = CeilDiv(params.num_channels, kThreads * kVector);
  const int run = std::clamp(params.num_tokens * slices / (kCtasPerSm * NumSms()), 1, kMaxRun);
  const dim3 grid(slices, CeilDiv(params.num_tokens, run));
  DispatchFloat(params.dtype, [&]<typename T>() {
    LaunchKernel(ConvKernel<T>, grid, kThreads, 0, stream, params, first_seq, run);
  });
}

}  // namespace quire::cuda
