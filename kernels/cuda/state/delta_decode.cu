// GatedDelta for sequences of one token. For few sequences one kernel does all of it; for more
// sequences another kernel does the part after the convolution.
#include "kernels/cuda/gemm/hopper/cluster.cuh"
#include "kernels/cuda/runtime/float_dispatch.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/state/delta_elements.cuh"

namespace quire::cuda {

namespace {

constexpr int kDim = kDeltaHeadDim;
constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kRows = kDim / kWarps;  // of the state, that a warp has: whole rows
constexpr int kMaxWidth = GatedDeltaShape::kMaxConvWidth;
constexpr int kColumns = kDim / 32;  // that a lane has of each

// The values that the warps of a CTA hand each other.
struct DecodeShared {
  float q[kDim], k[kDim], v[kDim];
  float recalled[kWarps][kDim];  // sums over the warp's rows of k * state
  float asked[kWarps][kDim];     // and of q * state
  float out_gate[kDim];          // what the normed result is multiplied with
  float decay, beta;
};

// The convolution of a head's query, key and value. Its data lies in shared memory, as registers
// hold the state.
template <typename T>
class DecodeConv {
 public:
  struct Shared {
    float taps[3][kDim * kMaxWidth];  // [channel][conv_width]
    T inputs[3][kMaxWidth][kDim];     // of conv_width tokens, the oldest first
  };

  __device__ DecodeConv(const GatedDeltaParams& params, int head, Shared& shared)
      : params_(params), shared_(shared), head_(head), width_(params.shape.conv_width) {}

  // Sends for the taps and the inputs before this step's; by all threads.
  __device__ void SendForPast(int slot) const {
    const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
    for (int kind = 0; kind < 3; ++kind) {
      if (thread < kDim) {
        if (thread * 4 >= kDim * width_) continue;
        const float* from = params_.conv_weight + int64_t{FirstChannel(kind)} * width_;
        CopyAsync16(Address(shared_.taps[kind] + thread * 4), from + thread * 4, true);
      } else if (thread - kDim < NumPieces()) {
        CopyAsync16(Address(shared_.inputs[kind][0] + (thread - kDim) * kPiece),
                    Stored(max(slot, 0), kind, thread - kDim), slot >= 0);
      }
    }
    CommitCopies();
  }

  // A lane's channels of query, key or value, by a warp; rounded as what a gemm leaves.
  __device__ void Run(int kind, int64_t token, float (&y)[kColumns]) const {
    const int channel = static_cast<int>(threadIdx.x) % 32 * kColumns;
    *reinterpret_cast<Quad<T>*>(shared_.inputs[kind][width_ - 1] + channel) =
        *reinterpret_cast<const Quad<T>*>(static_cast<const T*>(params_.qkvz) +
                                          token * params_.qkvz_stride + FirstChannel(kind) +
                                          channel);
#pragma unroll
    for (float& value : y) value = 0.0f;
    for (int j = 0; j < width_; ++j) {
      float inputs[kColumns];
      LoadQuad<T>(shared_.inputs[kind][j], channel, inputs);
#pragma unroll
      for (int i = 0; i < kColumns; ++i) {
        y[i] = fmaf(inputs[i], shared_.taps[kind][(channel + i) * width_ + j], y[i]);
      }
    }
#pragma unroll
    for (float& value : y) value = Rounded<T>(SiluApprox(value));
  }

  // The value's last inputs and, by the first v head of a k head, those of query and key; by all
  // threads.
  __device__ void Save(int slot) const {
    const int piece = static_cast<int>(threadIdx.x);
    if (piece >= NumPieces()) return;
    const bool is_first = head_ % (params_.shape.num_v_heads / params_.shape.num_k_heads) == 0;
#pragma unroll
    for (int kind = 0; kind < 3; ++kind) {
      if (kind < 2 && !is_first) continue;
      *reinterpret_cast<uint4*>(Stored(slot, kind, piece)) =
          *reinterpret_cast<const uint4*>(shared_.inputs[kind][1] + piece * kPiece);
    }
  }

 private:
  static constexpr int kPiece = 16 / static_cast<int>(sizeof(T));  // elements of 16 bytes
  static constexpr int kRowPieces = kDim / kPiece;
  static_assert(kDim + (kMaxWidth - 1) * kRowPieces <= kThreads);

  __device__ int NumPieces() const { return (width_ - 1) * kRowPieces; }
  __device__ int FirstChannel(int kind) const {
    return kind == 0   ? QueryChannel(params_.shape, head_)
           : kind == 1 ? KeyChannel(params_.shape, head_)
                       : ValueChannel(params_.shape, head_);
  }
  __device__ T* Stored(int slot, int kind, int piece) const {
    return ConvSlot<T>(params_.state, slot) + int64_t{piece / kRowPieces} * params_.num_channels +
           FirstChannel(kind) + piece % kRowPieces * kPiece;
  }
  static __device__ uint32_t Address(const void* shared) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  }

  const GatedDeltaParams& params_;
  Shared& shared_;
  const int head_, width_;
};

// A v head of a sequence. With S the state as it was,
//   d = beta (v - e^g S^T k), o = e^g S^T q + (k^T q) d, and S becomes e^g S + k d^T:
// both products need S only once, and it stays in registers.
template <typename T, typename State>
class DecodeHead {
 public:
  __device__ DecodeHead(const GatedDeltaParams& params, int seq, int head, DecodeShared& shared)
      : params_(params), shared_(shared), head_(head), token_(params.batch.cu_seqlens_q[seq]) {}

  // All of it under way at once.
  __device__ void LoadState(int slot) {
    if (slot < 0) {
#pragma unroll
      for (Quad<State>& row : rows_) row = {};
      return;
    }
    const State* from = RecurrentSlot<State>(params_, slot, head_) + First();
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      rows_[i] = __ldcs(reinterpret_cast<const Quad<State>*>(from + i * kDim));
    }
  }

  // The state's gates and what the result is multiplied with, by the warps that have no vector.
  __device__ void ShareGates() {
    if (Warp() == 3) {
      float z[4], weight[4];
      LoadQuad<T>(params_.qkvz,
                  token_ * params_.qkvz_stride + params_.num_channels + head_ * kDim + Column(), z);
      Load(params_.norm_weight + Column(), weight);
#pragma unroll
      for (int j = 0; j < 4; ++j) z[j] = weight[j] * SiluApprox(z[j]);
      Store(z, shared_.out_gate + Column());
    } else if (Warp() == 4) {
      const DeltaGates gates = GatesOf<T>(params_, token_, head_);
      shared_.decay = expf(gates.log_decay);
      shared_.beta = gates.beta;
    }
  }

  // Loads the query, key and value that the convolution left, by a warp each.
  __device__ void LoadVectors() {
    if (Warp() > 2) return;
    const GatedDeltaShape& shape = params_.shape;
    float values[4];
    LoadQuad<T>(params_.y,
                token_ * params_.y_stride +
                    (Warp() == 0   ? QueryChannel(shape, head_)
                     : Warp() == 1 ? KeyChannel(shape, head_)
                                   : ValueChannel(shape, head_)) +
                    Column(),
                values);
    ShareVectors(values);
  }
  __device__ void ShareVectors(float (&values)[4]) {
    if (Warp() == 2) return Store(values, shared_.v + Column());
    const bool is_query = Warp() == 0;
    float sum = 0.0f;
#pragma unroll
    for (const float value : values) sum = fmaf(value, value, sum);
    const float factor = is_query ? rsqrtf(static_cast<float>(kDim)) : 1.0f;
    const float scale = factor / sqrtf(WarpSum(sum) + 1e-6f);
#pragma unroll
    for (float& value : values) value *= scale;
    Store(values, (is_query ? shared_.q : shared_.k) + Column());
  }

  __device__ void SumRows() {
    float recalled[4] = {}, asked[4] = {};
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const float k = shared_.k[FirstRow() + i], q = shared_.q[FirstRow() + i];
      float s[4];
      Widen<State>(rows_[i], s);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        recalled[j] = fmaf(k, s[j], recalled[j]);
        asked[j] = fmaf(q, s[j], asked[j]);
      }
    }
    KeepNarrow();
    Store(recalled, shared_.recalled[Warp()] + Column());
    Store(asked, shared_.asked[Warp()] + Column());
  }

  // What is written: d.
  __device__ void Compare() {
    decay_ = shared_.decay;
    const float beta = shared_.beta;
    Load(shared_.v + Column(), d_);
    float recalled[4];
    SumWarps(shared_.recalled, recalled);
#pragma unroll
    for (int j = 0; j < 4; ++j) d_[j] = beta * (d_[j] - decay_ * recalled[j]);
  }

  __device__ void SaveState(int slot) const {
    State* to = RecurrentSlot<State>(params_, slot, head_) + First();
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const float k = shared_.k[FirstRow() + i];
      float s[4];
      Widen<State>(rows_[i], s);
#pragma unroll
      for (int j = 0; j < 4; ++j) s[j] = fmaf(k, d_[j], decay_ * s[j]);
      __stcs(reinterpret_cast<Quad<State>*>(to + i * kDim), Narrow<State>(s));
    }
  }

  // By one warp.
  __device__ void StoreNormed() const {
    float o[4], q[4], k[4], gate[4];
    Load(shared_.out_gate + Column(), gate);
    Load(shared_.q + Column(), q);
    Load(shared_.k + Column(), k);
    SumWarps(shared_.asked, o);
    float product = 0.0f;
#pragma unroll
    for (int j = 0; j < 4; ++j) product = fmaf(k[j], q[j], product);
    product = WarpSum(product);
    float squares = 0.0f;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      o[j] = fmaf(product, d_[j], decay_ * o[j]);
      squares = fmaf(o[j], o[j], squares);
    }
    const float scale =
        1.0f / sqrtf(WarpSum(squares) / static_cast<float>(kDim) + params_.norm_eps);
#pragma unroll
    for (int j = 0; j < 4; ++j) o[j] *= scale * gate[j];
    T* to = static_cast<T*>(params_.out) + token_ * params_.out_stride + head_ * kDim + Column();
    *reinterpret_cast<Quad<T>*>(to) = Narrow<T>(o);
  }

  __device__ int64_t token() const { return token_; }
  static __device__ int Warp() { return threadIdx.x / 32; }

 private:
  static __device__ int FirstRow() { return Warp() * kRows; }
  static __device__ int Column() { return threadIdx.x % 32 * kColumns; }
  static __device__ int First() { return FirstRow() * kDim + Column(); }

  // To widen the state twice takes less than to keep it in twice as many registers.
  __device__ void KeepNarrow() {
    if constexpr (sizeof(State) == 2) {
#pragma unroll
      for (Quad<State>& row : rows_) asm volatile("" : "+r"(row.x), "+r"(row.y));
    }
  }

  static __device__ void SumWarps(const float (&sums)[kWarps][kDim], float (&total)[4]) {
    Load(sums[0] + Column(), total);
#pragma unroll
    for (int warp = 1; warp < kWarps; ++warp) {
      float more[4];
      Load(sums[warp] + Column(), more);
#pragma unroll
      for (int j = 0; j < 4; ++j) total[j] += more[j];
    }
  }

  const GatedDeltaParams& params_;
  DecodeShared& shared_;
  const int head_;
  const int64_t token_;
  Quad<State> rows_[kRows];
  float decay_;
  float d_[4];
};

// Grid: (v heads, sequences).
// Bytes: a state read and written, for each snapshot written again; y, z and ba read, out written.
// Accumulation: float32; a warp's rows in order, then warps.
// Limit: memory bandwidth; of a few sequences, one state's latency.
template <typename T, typename State>
__global__ void __launch_bounds__(kThreads, sizeof(State) == 2 ? 3 : 2)
    DecodeAfterConvKernel(const GatedDeltaParams params) {
  __shared__ __align__(16) DecodeShared shared;
  ReleaseSuccessor();
  // All but y is there: ConvKernel waited before it released this kernel.
  const StateAccess access = params.batch.sequences[blockIdx.y];
  if (access.write < 0) {
    WaitForPredecessor();
    return;
  }
  DecodeHead<T, State> head(params, blockIdx.y, blockIdx.x, shared);
  head.LoadState(access.read);
  head.ShareGates();
  WaitForPredecessor();
  head.LoadVectors();
  __syncthreads();
  head.SumRows();
  __syncthreads();
  head.Compare();
  for (int i = 0; i < access.num_snapshots; ++i) {
    head.SaveState(params.batch.snapshots[access.first_snapshot + i].slot);
  }
  head.SaveState(access.write);
  if (head.Warp() == 0) head.StoreNormed();
}

// The same with the convolution. The v heads of a k head are a cluster: each convolves the query
// and the key for itself, and none writes their inputs before all have read them. Bytes: besides
// those, u in place of y, the taps, and the inputs before it read and written.
template <typename T, typename State>
__global__ void __launch_bounds__(kThreads, sizeof(State) == 2 ? 3 : 2)
    DecodeKernel(const GatedDeltaParams params) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  __shared__ __align__(16) DecodeShared shared;
  __shared__ __align__(16) typename DecodeConv<T>::Shared shared_conv;
  ReleaseSuccessor();
  // States are an earlier step's, before whose end no kernel of this one has begun.
  const StateAccess access = params.batch.sequences[blockIdx.y];
  if (access.write < 0) {
    WaitForPredecessor();
    return;
  }
  DecodeHead<T, State> head(params, blockIdx.y, blockIdx.x, shared);
  const DecodeConv<T> conv(params, blockIdx.x, shared_conv);
  conv.SendForPast(access.read);
  head.LoadState(access.read);
  WaitForCopies<0>();
  __syncthreads();
  WaitForPredecessor();
  if (head.Warp() < 3) {
    float y[kColumns];
    conv.Run(head.Warp(), head.token(), y);
    head.ShareVectors(y);
  } else {
    head.ShareGates();
  }
  __syncthreads();
  ArriveAtCluster();
  head.SumRows();
  __syncthreads();
  head.Compare();
  for (int i = 0; i < access.num_snapshots; ++i) {
    head.SaveState(params.batch.snapshots[access.first_snapshot + i].slot);
  }
  head.SaveState(access.write);
  if (head.Warp() == 0) head.StoreNormed();
  WaitForCluster();
  for (int i = 0; i < access.num_snapshots; ++i) {
    conv.Save(params.batch.snapshots[access.first_snapshot + i].slot);
  }
  conv.Save(access.write);
#endif
}

}  // namespace

void LaunchDeltaDecode(const GatedDeltaParams& params, cudaStream_t stream) {
  const dim3 grid(params.shape.num_v_heads, params.batch.num_decodes);
  const bool in_float = params.state.dtype == DType::kF32;
  DispatchFloat(params.dtype, [&]<typename T>() {
    LaunchAs({.cluster_size = params.shape.num_v_heads / params.shape.num_k_heads},
             in_float ? DecodeKernel<T, float> : DecodeKernel<T, __nv_bfloat16>, grid,
             dim3(kThreads), 0, stream, params);
  });
}

void LaunchDeltaDecodeAfterConv(const GatedDeltaParams& params, cudaStream_t stream) {
  const dim3 grid(params.shape.num_v_heads, params.batch.num_decodes);
  const bool in_float = params.state.dtype == DType::kF32;
  DispatchFloat(params.dtype, [&]<typename T>() {
    LaunchKernel(
        in_float ? DecodeAfterConvKernel<T, float> : DecodeAfterConvKernel<T, __nv_bfloat16>, grid,
        dim3(kThreads), 0, stream, params);
  });
}

}  // namespace quire::cuda
