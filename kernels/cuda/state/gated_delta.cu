// GatedDelta, token after token: one kernel for the convolution, one that keeps its last inputs,
// one for the rest.
#include <algorithm>

#include "kernels/base/check.h"
#include "kernels/base/types.h"
#include "kernels/cuda/runtime/float_dispatch.cuh"
#include "kernels/cuda/runtime/free_ops.h"
#include "kernels/cuda/runtime/launch.cuh"

namespace quire::cuda {

namespace {

constexpr int kConvThreads = 256;
constexpr int kRuleThreads = 512;

struct GatedDeltaParams {
  GatedDeltaShape shape;
  StateView state;
  StateBatch batch;
  const void* qkvz;
  const void* ba;
  void* y;
  void* out;
  int64_t qkvz_stride, ba_stride, y_stride, out_stride;
  const float* conv_weight;
  const float* a_log;
  const float* dt_bias;
  const float* norm_weight;
  float norm_eps;
  int num_channels;
};

template <typename T>
__device__ float At(const void* data, int64_t i) {
  float value[1];
  Load(static_cast<const T*>(data) + i, value);
  return value[0];
}

template <typename T>
__device__ void Set(float value, void* data, int64_t i) {
  const float values[1] = {value};
  Store(values, static_cast<T*>(data) + i);
}

// The sequence that has the token, or -1.
__device__ int SequenceOf(const StateBatch& batch, int token) {
  if (token < batch.cu_seqlens_q[0] || token >= batch.cu_seqlens_q[batch.num_seqs]) return -1;
  int first = 0, last = batch.num_seqs - 1;
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

template <typename T>
__device__ T* ConvSlot(const StateView& state, int slot) {
  return reinterpret_cast<T*>(static_cast<char*>(state.conv) + slot * state.conv_stride_bytes);
}

// A channel's input at a token of this step, counted from the sequence's first one, or before it.
template <typename T>
__device__ float ConvInput(const GatedDeltaParams& params, int seq, int index, int channel) {
  if (index >= 0) {
    const int64_t row = params.batch.cu_seqlens_q[seq] + index;
    return At<T>(params.qkvz, row * params.qkvz_stride + channel);
  }
  const int slot = params.batch.sequences[seq].read;
  if (slot < 0) return 0.0f;
  const int row = params.shape.conv_width - 1 + index;
  return At<T>(ConvSlot<T>(params.state, slot), int64_t{row} * params.num_channels + channel);
}

// Grid: (channels / kConvThreads, tokens).
// Bytes: u read conv_width times, from the L2 cache but for the first; y written once.
// Accumulation: float32, taps in order.
// Limit: memory bandwidth.
template <typename T>
__global__ void __launch_bounds__(kConvThreads)
    ConvKernel(const GatedDeltaParams params, int num_tokens) {
  ReleaseSuccessor();
  WaitForPredecessor();
  const int channel = blockIdx.x * kConvThreads + threadIdx.x;
  const int width = params.shape.conv_width;
  if (channel >= params.num_channels) return;
  for (int token = blockIdx.y; token < num_tokens; token += gridDim.y) {
    const int seq = SequenceOf(params.batch, token);
    if (seq < 0 || params.batch.sequences[seq].write < 0) continue;
    const int index = token - params.batch.cu_seqlens_q[seq];
    float sum = 0.0f;
    for (int j = 0; j < width; ++j) {
      const float u = ConvInput<T>(params, seq, index - (width - 1) + j, channel);
      sum = fmaf(u, params.conv_weight[channel * width + j], sum);
    }
    Set<T>(sum / (1.0f + expf(-sum)), params.y, token * params.y_stride + channel);
  }
}

// Leaves in a slot the last inputs of a channel after so many of the sequence's tokens. The slot
// may be the one that is read: then later inputs move to the front, in order.
template <typename T>
__device__ void SaveConvInputs(const GatedDeltaParams& params, int seq, int channel, int num_tokens,
                               int slot) {
  const int num_rows = params.shape.conv_width - 1;
  for (int row = 0; row < num_rows; ++row) {
    const float u = ConvInput<T>(params, seq, num_tokens - num_rows + row, channel);
    Set<T>(u, ConvSlot<T>(params.state, slot), int64_t{row} * params.num_channels + channel);
  }
}

// Grid: (channels / kConvThreads, sequences). After ConvKernel, which reads the slots.
// Bytes: conv_width - 1 inputs read and written, for each snapshot, too.
// Accumulation: none.
// Limit: memory latency.
template <typename T>
__global__ void __launch_bounds__(kConvThreads) SaveConvKernel(const GatedDeltaParams params) {
  ReleaseSuccessor();
  WaitForPredecessor();
  const int channel = blockIdx.x * kConvThreads + threadIdx.x;
  const int seq = blockIdx.y;
  const StateAccess sequence = params.batch.sequences[seq];
  if (channel >= params.num_channels || sequence.write < 0) return;
  for (int i = 0; i < sequence.num_snapshots; ++i) {
    const StateSnapshot snapshot = params.batch.snapshots[sequence.first_snapshot + i];
    SaveConvInputs<T>(params, seq, channel, snapshot.num_tokens, snapshot.slot);
  }
  const int num_tokens = params.batch.cu_seqlens_q[seq + 1] - params.batch.cu_seqlens_q[seq];
  SaveConvInputs<T>(params, seq, channel, num_tokens, sequence.write);
}

// The state of a v head of a sequence, which stays in shared memory for the step. A thread has a
// column, and of that every num_slices-th row.
class Rule {
 public:
  __device__ Rule(const GatedDeltaParams& params, int head, float* shared)
      : params_(params),
        dk_(params.shape.k_head_dim),
        dv_(params.shape.v_head_dim),
        head_(head),
        s_(shared),
        q_(s_ + dk_ * dv_),
        k_(q_ + dk_),
        o_(k_ + dk_),
        gates_(o_ + dv_),
        recalled_(gates_ + 2),
        results_(recalled_ + kRuleThreads),
        num_lanes_((dv_ + 31) / 32 * 32),
        num_slices_(kRuleThreads / num_lanes_),
        slice_(threadIdx.x / num_lanes_),
        column_(threadIdx.x % num_lanes_),
        computes_(slice_ < num_slices_ && column_ < dv_) {}

  __device__ void LoadState(int slot) {
    for (int i = threadIdx.x; i < dk_ * dv_; i += kRuleThreads) {
      s_[i] = slot < 0                             ? 0.0f
              : params_.state.dtype == DType::kF32 ? At<float>(Slot(slot), First() + i)
                                                   : At<__nv_bfloat16>(Slot(slot), First() + i);
    }
    __syncthreads();
  }

  __device__ void SaveState(int slot) const {
    for (int i = threadIdx.x; i < dk_ * dv_; i += kRuleThreads) {
      if (params_.state.dtype == DType::kF32) {
        Set<float>(s_[i], Slot(slot), First() + i);
      } else {
        Set<__nv_bfloat16>(s_[i], Slot(slot), First() + i);
      }
    }
  }

  template <typename T>
  __device__ void RunToken(int64_t token) {
    LoadToken<T>(token);
    __syncthreads();
    const float decay = gates_[0], beta = gates_[1];
    if (computes_) recalled_[Mine()] = Recalled();
    __syncthreads();
    if (computes_) {
      const float v =
          At<T>(params_.y, token * params_.y_stride + 2 * params_.shape.num_k_heads * dk_ +
                               head_ * dv_ + column_);
      results_[Mine()] = Updated(decay, beta * (v - decay * SumOfSlices(recalled_)));
    }
    __syncthreads();
    if (computes_ && slice_ == 0) o_[column_] = SumOfSlices(results_);
    __syncthreads();
    if (slice_ == 0) StoreNormed<T>(token);
  }

 private:
  __device__ char* Slot(int slot) const {
    return static_cast<char*>(params_.state.recurrent) +
           slot * params_.state.recurrent_stride_bytes;
  }
  __device__ int64_t First() const { return int64_t{head_} * dk_ * dv_; }
  __device__ int Mine() const { return slice_ * dv_ + column_; }

  // Query and key by a warp each, the gates by a lane of another one.
  template <typename T>
  __device__ void LoadToken(int64_t token) {
    const int warp = threadIdx.x / 32;
    const int num_k_heads = params_.shape.num_k_heads, num_v_heads = params_.shape.num_v_heads;
    const int k_head = head_ / (num_v_heads / num_k_heads);
    if (warp == 0) {
      LoadHead<T>(token * params_.y_stride + k_head * dk_, rsqrtf(static_cast<float>(dk_)), q_);
    } else if (warp == 1) {
      LoadHead<T>(token * params_.y_stride + (num_k_heads + k_head) * dk_, 1.0f, k_);
    } else if (threadIdx.x == 64) {
      const float b = At<T>(params_.ba, token * params_.ba_stride + head_);
      const float a = At<T>(params_.ba, token * params_.ba_stride + num_v_heads + head_) +
                      params_.dt_bias[head_];
      const float softplus = fmaxf(a, 0.0f) + log1pf(expf(-fabsf(a)));
      gates_[0] = expf(-expf(params_.a_log[head_]) * softplus);
      gates_[1] = 1.0f / (1.0f + expf(-b));
    }
  }

  template <typename T>
  __device__ void LoadHead(int64_t first, float factor, float* to) {
    const int lane = threadIdx.x % 32;
    float sum = 0.0f;
    for (int i = lane; i < dk_; i += 32) {
      to[i] = At<T>(params_.y, first + i);
      sum = fmaf(to[i], to[i], sum);
    }
    const float scale = factor / sqrtf(WarpSum(sum) + 1e-6f);
    for (int i = lane; i < dk_; i += 32) to[i] *= scale;
  }

  __device__ float Recalled() const {
    float sum = 0.0f;
    for (int i = slice_; i < dk_; i += num_slices_) sum = fmaf(k_[i], s_[i * dv_ + column_], sum);
    return sum;
  }

  __device__ float Updated(float decay, float d) {
    float sum = 0.0f;
    for (int i = slice_; i < dk_; i += num_slices_) {
      const float s = fmaf(k_[i], d, decay * s_[i * dv_ + column_]);
      s_[i * dv_ + column_] = s;
      sum = fmaf(q_[i], s, sum);
    }
    return sum;
  }

  __device__ float SumOfSlices(const float* sums) const {
    float sum = 0.0f;
    for (int slice = 0; slice < num_slices_; ++slice) sum += sums[slice * dv_ + column_];
    return sum;
  }

  // By whole warps; each has the sum of all squares.
  template <typename T>
  __device__ void StoreNormed(int64_t token) const {
    float sum = 0.0f;
    for (int i = threadIdx.x % 32; i < dv_; i += 32) sum = fmaf(o_[i], o_[i], sum);
    const float mean = WarpSum(sum) / static_cast<float>(dv_);
    if (column_ >= dv_) return;
    const int at = head_ * dv_ + column_;
    const float z = At<T>(params_.qkvz, token * params_.qkvz_stride + params_.num_channels + at);
    const float normal =
        o_[column_] / sqrtf(mean + params_.norm_eps) * params_.norm_weight[column_];
    Set<T>(normal * (z / (1.0f + expf(-z))), params_.out, token * params_.out_stride + at);
  }

  const GatedDeltaParams& params_;
  const int dk_, dv_, head_;
  float* const s_;         // [dk, dv]
  float* const q_;         // [dk]
  float* const k_;         // [dk]
  float* const o_;         // [dv]
  float* const gates_;     // decay and beta
  float* const recalled_;  // [num_slices, dv]: partial sums of S^T k
  float* const results_;   // and of S^T q
  const int num_lanes_, num_slices_;
  const int slice_, column_;
  const bool computes_;
};

// What Rule lays out.
size_t SharedBytes(const GatedDeltaShape& shape) {
  const size_t floats = size_t(shape.k_head_dim) * shape.v_head_dim + 2 * shape.k_head_dim +
                        shape.v_head_dim + 2 + 2 * kRuleThreads;
  return floats * sizeof(float);
}

// Grid: (v heads, sequences).
// Bytes: a state read and written, for each snapshot, too; y, z and ba read and out written once.
// Accumulation: float32; rows of a slice in order, then slices: a token's bits do not depend on
// cuts.
// Limit: the latency of a token after the other.
template <typename T>
__global__ void __launch_bounds__(kRuleThreads) RuleKernel(const GatedDeltaParams params) {
  extern __shared__ float shared[];
  ReleaseSuccessor();
  WaitForPredecessor();
  const int seq = blockIdx.y;
  const StateAccess sequence = params.batch.sequences[seq];
  if (sequence.write < 0) return;
  const int first = params.batch.cu_seqlens_q[seq];
  const int num_tokens = params.batch.cu_seqlens_q[seq + 1] - first;
  Rule rule(params, blockIdx.x, shared);
  rule.LoadState(sequence.read);
  for (int token = 0; token < num_tokens; ++token) {
    rule.RunToken<T>(first + token);
    for (int i = 0; i < sequence.num_snapshots; ++i) {
      const StateSnapshot snapshot = params.batch.snapshots[sequence.first_snapshot + i];
      if (snapshot.num_tokens == token + 1) rule.SaveState(snapshot.slot);
    }
  }
  rule.SaveState(sequence.write);
}

template <typename T>
void Launch(const GatedDeltaParams& params, int num_tokens, cudaStream_t stream) {
  const size_t shared_bytes = SharedBytes(params.shape);
  CHECK_LE(shared_bytes,
           static_cast<size_t>(DeviceAttribute(cudaDevAttrMaxSharedMemoryPerBlockOptin)))
      << "a state of " << params.shape.k_head_dim << " x " << params.shape.v_head_dim
      << " does not fit a multiprocessor";
  cudaFuncSetAttribute(RuleKernel<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                       static_cast<int>(shared_bytes));
  const unsigned num_seqs = params.batch.num_seqs;
  const unsigned channel_ctas = CeilDiv(params.num_channels, kConvThreads);
  const dim3 conv_grid(channel_ctas, std::min(num_tokens, 65535));
  LaunchKernel(ConvKernel<T>, conv_grid, kConvThreads, 0, stream, params, num_tokens);
  LaunchKernel(SaveConvKernel<T>, dim3(channel_ctas, num_seqs), kConvThreads, 0, stream, params);
  LaunchKernel(RuleKernel<T>, dim3(params.shape.num_v_heads, num_seqs), kRuleThreads, shared_bytes,
               stream, params);
}

}  // namespace

void LaunchGatedDelta(const GatedDeltaArgs& args, cudaStream_t stream) {
  const auto num_tokens = static_cast<int>(args.qkvz.dim(0));
  if (num_tokens == 0 || args.batch.num_seqs == 0) return;
  const GatedDeltaParams params = {.shape = args.shape,
                                   .state = args.state,
                                   .batch = args.batch,
                                   .qkvz = args.qkvz.data(),
                                   .ba = args.ba.data(),
                                   .y = args.conv_out.data(),
                                   .out = args.out.data(),
                                   .qkvz_stride = args.qkvz.row_stride(),
                                   .ba_stride = args.ba.row_stride(),
                                   .y_stride = args.conv_out.row_stride(),
                                   .out_stride = args.out.row_stride(),
                                   .conv_weight = args.conv_weight.as<float>(),
                                   .a_log = args.a_log.as<float>(),
                                   .dt_bias = args.dt_bias.as<float>(),
                                   .norm_weight = args.norm_weight.as<float>(),
                                   .norm_eps = args.norm_eps,
                                   .num_channels = static_cast<int>(args.shape.num_channels())};
  DispatchFloat(args.qkvz.dtype(), [&]<typename T>() { Launch<T>(params, num_tokens, stream); });
}

}  // namespace quire::cuda
