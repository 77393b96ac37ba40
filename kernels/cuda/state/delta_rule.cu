// GatedDelta's rule, token after token, for heads of any size.
#include "kernels/base/check.h"
#include "kernels/cuda/runtime/float_dispatch.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/state/delta_elements.cuh"

namespace quire::cuda {

namespace {

constexpr int kRuleThreads = 512;

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
      s_[i] = slot < 0 ? 0.0f
              : params_.state.dtype == DType::kF32
                  ? At<float>(Slot<float>(slot), i)
                  : At<__nv_bfloat16>(Slot<__nv_bfloat16>(slot), i);
    }
    __syncthreads();
  }

  __device__ void SaveState(int slot) const {
    for (int i = threadIdx.x; i < dk_ * dv_; i += kRuleThreads) {
      if (params_.state.dtype == DType::kF32) {
        Set<float>(s_[i], Slot<float>(slot), i);
      } else {
        Set<__nv_bfloat16>(s_[i], Slot<__nv_bfloat16>(slot), i);
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
          At<T>(params_.y, token * params_.y_stride + ValueChannel(params_.shape, head_) + column_);
      results_[Mine()] = Updated(decay, beta * (v - decay * SumOfSlices(recalled_)));
    }
    __syncthreads();
    if (computes_ && slice_ == 0) o_[column_] = SumOfSlices(results_);
    __syncthreads();
    if (slice_ == 0) StoreNormed<T>(token);
  }

 private:
  template <typename State>
  __device__ State* Slot(int slot) const {
    return RecurrentSlot<State>(params_, slot, head_);
  }
  __device__ int Mine() const { return slice_ * dv_ + column_; }

  // Query and key by a warp each, the gates by a lane of another one.
  template <typename T>
  __device__ void LoadToken(int64_t token) {
    const int warp = threadIdx.x / 32;
    const int64_t row = token * params_.y_stride;
    if (warp == 0) {
      LoadHead<T>(row + QueryChannel(params_.shape, head_), rsqrtf(static_cast<float>(dk_)), q_);
    } else if (warp == 1) {
      LoadHead<T>(row + KeyChannel(params_.shape, head_), 1.0f, k_);
    } else if (threadIdx.x == 64) {
      const DeltaGates gates = GatesOf<T>(params_, token, head_);
      gates_[0] = expf(gates.log_decay);
      gates_[1] = gates.beta;
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
    Set<T>(normal * SiluApprox(z), params_.out, token * params_.out_stride + at);
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
__global__ void __launch_bounds__(kRuleThreads)
    RuleKernel(const GatedDeltaParams params, int first_seq) {
  extern __shared__ float shared[];
  ReleaseSuccessor();
  WaitForPredecessor();
  const int seq = first_seq + blockIdx.y;
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

}  // namespace

void LaunchDeltaRule(const GatedDeltaParams& params, int first_seq, cudaStream_t stream) {
  const size_t shared_bytes = SharedBytes(params.shape);
  CHECK_LE(shared_bytes,
           static_cast<size_t>(DeviceAttribute(cudaDevAttrMaxSharedMemoryPerBlockOptin)))
      << "a state of " << params.shape.k_head_dim << " x " << params.shape.v_head_dim
      << " does not fit a multiprocessor";
  const dim3 grid(params.shape.num_v_heads, params.batch.num_seqs - first_seq);
  DispatchFloat(params.dtype, [&]<typename T>() {
    cudaFuncSetAttribute(RuleKernel<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         static_cast<int>(shared_bytes));
    LaunchKernel(RuleKernel<T>, grid, kRuleThreads, shared_bytes, stream, params, first_seq);
  });
}

}  // namespace quire::cuda
