// GatedDelta's rule for prompts, first part: what a tile's tokens find of each other, for all tiles
// at once.
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/state/delta_elements.cuh"
#include "kernels/cuda/state/delta_prompt.cuh"

namespace quire::cuda {

namespace {

constexpr int kThreads = 128;
constexpr int kStride = kTileTokens + 4;  // of A's rows, in floats: columns of a row in all banks
constexpr float kLeastLogDecay = -60.0f;  // less would cost the sums their precision
constexpr float kLog2E = 1.44269504f;

struct TileShared {
  union {
    struct {
      __half q[kTileTokens * kDeltaHeadDim], k[kTileTokens * kDeltaHeadDim];
    };
    float a[kTileTokens][kStride];  // A^T: [j][i]; where j's block of 16 is not behind i's
  };
  float sums[kTileTokens], betas[kTileTokens];
};

// A tile of a v head.
class DeltaTile {
 public:
  __device__ DeltaTile(TileShared& shared, TileRoom& room) : shared_(shared), room_(room) {}

  // Of unit vectors that the convolution has left.
  __device__ void LoadUnitVectors(const GatedDeltaParams& params, int64_t row, int num_rows,
                                  int head) const {
    const auto* y = static_cast<const __half*>(params.y) + row * params.y_stride;
    queries().CopyFrom<kThreads>(y + QueryChannel(params.shape, head), params.y_stride, num_rows);
    keys().CopyFrom<kThreads>(y + KeyChannel(params.shape, head), params.y_stride, num_rows);
    CommitCopies();
  }

  // By one warp; a lane has two rows.
  template <typename T>
  __device__ void SumLogDecays(const GatedDeltaParams& params, int64_t row, int num_rows,
                               int head) const {
    const int lane = threadIdx.x;
    float logs[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int at = 2 * lane + i;
      DeltaGates gates = {.log_decay = 0.0f, .beta = 0.0f};
      if (at < num_rows) gates = GatesOf<T>(params, row + at, head);
      // NaN is kept.
      logs[i] = kLog2E * (gates.log_decay < kLeastLogDecay ? kLeastLogDecay : gates.log_decay);
      shared_.betas[at] = gates.beta;
    }
    float sum = logs[0] + logs[1];
#pragma unroll
    for (int lanes = 1; lanes < 32; lanes *= 2) {
      const float before = __shfl_up_sync(0xffffffffu, sum, lanes);
      if (lane >= lanes) sum += before;
    }
    const float before = __shfl_up_sync(0xffffffffu, sum, 1);
    shared_.sums[2 * lane] = (lane == 0 ? 0.0f : before) + logs[0];
    shared_.sums[2 * lane + 1] = sum;
  }

  // K K^T and Q K^T, of which a warp has 16 rows; scores to the room and A to shared memory.
  __device__ void Multiply() const {
    const int warp = threadIdx.x / 32;
    float of_keys[8][4] = {}, of_queries[8][4] = {};
#pragma unroll
    for (int step = 0; step < kDeltaHeadDim / 16; ++step) {
      uint32_t k[4], q[4];
      keys().LoadRows(16 * warp, 16 * step, k);
      queries().LoadRows(16 * warp, 16 * step, q);
#pragma unroll
      for (int block = 0; block < 4; ++block) {
        if (block > warp) continue;
        uint32_t columns[4];
        keys().LoadColumns(16 * block, 16 * step, columns);
        MultiplyAdd<__half>(k, columns[0], columns[1], of_keys[2 * block]);
        MultiplyAdd<__half>(k, columns[2], columns[3], of_keys[2 * block + 1]);
        MultiplyAdd<__half>(q, columns[0], columns[1], of_queries[2 * block]);
        MultiplyAdd<__half>(q, columns[2], columns[3], of_queries[2 * block + 1]);
      }
    }
    __syncthreads();  // A lies where keys and queries were
#pragma unroll
    for (int tile = 0; tile < 8; ++tile) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int i = 16 * warp + threadIdx.x % 32 / 4 + 8 * half;
        const int j = 8 * tile + 2 * (threadIdx.x % 4);
        auto* score = reinterpret_cast<uint32_t*>(room_.scores + i * kTileTokens + j);
        *score = tile / 2 > warp
                     ? 0
                     : Decay(i, j, of_keys[tile] + 2 * half, of_queries[tile] + 2 * half);
      }
    }
  }

  // A thread has a column of (I + A)^-1: forward substitution.
  __device__ void Solve() const {
    const int column = threadIdx.x;
    float solved[kTileTokens];
#pragma unroll
    for (int i = 0; i < kTileTokens; ++i) solved[i] = i == column ? 1.0f : 0.0f;
    if (column < kTileTokens / 2) {
      Substitute<0>(solved);
    } else {
      Substitute<kTileTokens / 2>(solved);
    }
    const float beta = shared_.betas[column];
    auto* to = reinterpret_cast<uint4*>(room_.solved + column * kTileTokens);
#pragma unroll
    for (int i = 0; i < kTileTokens; i += 8) {
      to[i / 8] = {PackHalves(solved[i] * beta, solved[i + 1] * beta),
                   PackHalves(solved[i + 2] * beta, solved[i + 3] * beta),
                   PackHalves(solved[i + 4] * beta, solved[i + 5] * beta),
                   PackHalves(solved[i + 6] * beta, solved[i + 7] * beta)};
    }
  }

  __device__ void StoreDecays(int row) const {
    const float sum = shared_.sums[row];
    room_.sums[row] = sum;
    room_.decays[row] = exp2f(sum);
    room_.remains[row] = exp2f(shared_.sums[kTileTokens - 1] - sum);
  }

 private:
  __device__ SharedMatrix<kDeltaHeadDim> queries() const { return {SharedAddress(shared_.q)}; }
  __device__ SharedMatrix<kDeltaHeadDim> keys() const { return {SharedAddress(shared_.k)}; }

  // Elements [i][j] and [i][j + 1]: those of A to shared memory, the scores returned.
  __device__ uint32_t Decay(int i, int j, const float* of_keys, const float* of_queries) const {
    float scores[2];
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const float decay = exp2f(shared_.sums[i] - shared_.sums[j + e]);
      scores[e] = j + e <= i ? of_queries[e] * decay : 0.0f;
      shared_.a[j + e][i] = j + e < i ? shared_.betas[i] * of_keys[e] * decay : 0.0f;
    }
    return PackHalves(scores[0], scores[1]);
  }

  // The columns are from kFirst on, so that what is before is 0.
  template <int kFirst>
  __device__ void Substitute(float (&solved)[kTileTokens]) const {
#pragma unroll
    for (int j = kFirst; j < kTileTokens - 1; ++j) {
#pragma unroll
      for (int i = (j + 1) / 4 * 4; i < kTileTokens; i += 4) {
        const float4 a = *reinterpret_cast<const float4*>(&shared_.a[j][i]);
        solved[i] = fmaf(-a.x, solved[j], solved[i]);
        solved[i + 1] = fmaf(-a.y, solved[j], solved[i + 1]);
        solved[i + 2] = fmaf(-a.z, solved[j], solved[i + 2]);
        solved[i + 3] = fmaf(-a.w, solved[j], solved[i + 3]);
      }
    }
  }

  TileShared& shared_;
  TileRoom& room_;
};

template <typename T>
__device__ void RunTile(const GatedDeltaParams& params, const PassRoom& room, TileShared& shared) {
  const StateBatch& batch = params.batch;
  const int slot = room.first_slot + blockIdx.x, head = blockIdx.y;
  const int seq = SequenceOfSlot(batch, slot);
  const TiledSequence sequence(batch, seq);
  const int tile = slot - sequence.first_slot;
  if (batch.sequences[seq].write < 0 || tile >= sequence.num_tiles()) return;
  const int64_t row = sequence.first_row + sequence.Begin(tile);
  const int num_rows = sequence.End(tile) - sequence.Begin(tile);
  const DeltaTile delta(shared, room.tiles[blockIdx.x * params.shape.num_v_heads + head]);
  delta.LoadUnitVectors(params, row, num_rows, head);
  if (threadIdx.x < 32) delta.SumLogDecays<T>(params, row, num_rows, head);
  WaitForCopies<0>();
  __syncthreads();
  delta.Multiply();
  __syncthreads();
  if (threadIdx.x < kTileTokens) {
    delta.Solve();
  } else {
    delta.StoreDecays(threadIdx.x - kTileTokens);
  }
}

// Grid: (slots of the pass, v heads).
// Bytes: queries and keys read by each v head, from the L2 cache; a TileRoom written.
// Accumulation: float32, of products of float16; (I + A)^-1 in float32, rows in order.
// Limit: the latency of the substitution.
template <typename T>
__global__ void __launch_bounds__(kThreads, 4)
    DeltaTileKernel(const GatedDeltaParams params, const PassRoom room, bool is_first) {
  __shared__ __align__(SharedMatrix<kDeltaHeadDim>::kAlignment) TileShared shared;
  ReleaseSuccessor();
  // Later passes' predecessor, DeltaScanKernel, waited before it released this kernel, and reads
  // another part of the room.
  if (is_first) WaitForPredecessor();
  RunTile<T>(params, room, shared);
  if (!is_first) WaitForPredecessor();
}

}  // namespace

void LaunchDeltaTiles(const GatedDeltaParams& params, const PassRoom& room, bool is_first,
                      cudaStream_t stream) {
  const dim3 grid(kGatedDeltaTilesPerPass, params.shape.num_v_heads);
  const auto kernel =
      params.dtype == DType::kBF16 ? DeltaTileKernel<__nv_bfloat16> : DeltaTileKernel<__half>;
  LaunchKernel(kernel, grid, kThreads, 0, stream, params, room, is_first);
}

}  // namespace quire::cuda
