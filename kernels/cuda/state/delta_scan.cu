// GatedDelta's rule for prompts, second part: the state from tile to tile, and the tokens' outputs.
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/state/delta_elements.cuh"
#include "kernels/cuda/state/delta_prompt.cuh"

namespace quire::cuda {

namespace {

constexpr int kDim = kDeltaHeadDim;
constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kTokenTiles = kTileTokens / 8;
constexpr int kOutStride = kDim + 4;  // in floats: what a warp writes lies in all banks
static_assert(kDim == 16 * kWarps, "a warp has 16 v elements");

constexpr int kOutBytes = kTileTokens * kOutStride * int{sizeof(float)};
constexpr int kNormBytes = kDim * int{sizeof(float)};
constexpr int kSharedBytes =
    2 * ScanStage::kBytes + kOutBytes + kNormBytes + ScanStage::Vectors::kAlignment;
static_assert(kSharedBytes <= 227 * 1024);

// A v head of a sequence. A warp has 16 v elements, which are the rows of all gemms: their sums
// become first operands of the next one as they lie in registers, and each second operand is a
// matrix of the tile. With S the state before the tile and d what its tokens write,
//   d = T (V - e^G K S), o = e^G Q S + scores d, and S becomes e^(G last) S + K^T (e^(G last - G)
//   d).
template <typename T, typename State>
class DeltaScan {
 public:
  __device__ DeltaScan(const GatedDeltaParams& params, const StateAccess& access,
                       const TiledSequence& sequence, int head, float* out)
      : params_(params), access_(access), sequence_(sequence), head_(head), out_(out) {
    for (int i = threadIdx.x; i < kDim; i += kThreads) norm_weight()[i] = params.norm_weight[i];
  }

  __device__ void CopyTile(const TileRoom& room, int tile, const ScanStage& stage) const {
    const GatedDeltaShape& shape = params_.shape;
    const int begin = sequence_.Begin(tile), num_rows = sequence_.End(tile) - begin;
    const int64_t stride = params_.y_stride;
    const T* y = static_cast<const T*>(params_.y) + (sequence_.first_row + begin) * stride;
    stage.keys().template CopyFrom<kThreads>(y + KeyChannel(shape, head_), stride, num_rows);
    stage.queries().template CopyFrom<kThreads>(y + QueryChannel(shape, head_), stride, num_rows);
    stage.values().template CopyFrom<kThreads>(y + ValueChannel(shape, head_), stride, num_rows);
    const T* z = static_cast<const T*>(params_.qkvz) +
                 (sequence_.first_row + begin) * params_.qkvz_stride + params_.num_channels +
                 head_ * kDim;
    stage.z().template CopyFrom<kThreads>(z, params_.qkvz_stride, num_rows);
    stage.solved().template CopyFrom<kThreads>(room.solved, kTileTokens, kTileTokens);
    stage.scores().template CopyFrom<kThreads>(room.scores, kTileTokens, kTileTokens);
    if (threadIdx.x < ScanStage::kGatesBytes / 16) {
      CopyAsync16(SharedAddress(stage.sums() + 4 * threadIdx.x), room.sums + 4 * threadIdx.x, true);
    }
  }

  __device__ void ClearState() {
#pragma unroll
    for (auto& tile : state_[0]) {
#pragma unroll
      for (float& value : tile) value = 0.0f;
    }
  }
  // Loads the head's matrix from memory.
  template <typename Element>
  __device__ void LoadState(const Element* from) {
#pragma unroll
    for (int tile = 0; tile < kDim / 8; ++tile) {
#pragma unroll
      for (int e = 0; e < 4; ++e) state_[0][tile][e] = At<Element>(from, StateIndex(tile, e));
    }
  }
  template <typename Element>
  __device__ void SaveState(Element* to) const {
    Save(state_, to);
  }

  // Ends with the outputs before the norm in shared memory, not synchronised, and with the state
  // unfinished. Calls copy_next() early.
  template <typename CopyNext>
  __device__ void RunTile(const ScanStage& stage, int tile, const CopyNext& copy_next) {
    TokenSums recalled, out;
    uint32_t s[kDim / 16][4];
    Pack(state_, s);
    StartRowSums(s, stage.keys(), false, recalled);
    StartRowSums(s, stage.queries(), false, out);
    copy_next();
    WaitForGemms<1>(recalled);
    Operand operand;
    Compare(stage, recalled, operand);
    TokenSums written = {};
    StartColumnSums(operand, stage.solved(), written);
    WaitForGemms<0>(written);
    WaitForGemms<0>(out);
    SaveSnapshotsWithin(stage, tile, written);
    Pack(written, operand);
    Scale(stage.decays(), out);
    StartRowSums(operand, stage.scores(), true, out);
    Scale(stage.remains(), written);
    Operand remaining;
    Pack(written, remaining);
    Decay(stage.decays()[kTileTokens - 1], state_);
    StartColumnSums(remaining, stage.keys(), state_);
    WaitForGemms<1>(out);
    StoreOut(out);
  }

  __device__ void FinishState() { WaitForGemms<0>(state_); }

  // After all warps' RunTile. Four threads have a token, of whose columns each has every fourth
  // piece of eight.
  __device__ void StoreNormed(const ScanStage& stage, int tile) const {
    constexpr int kPieces = kDim / 8 / 4;
    const int row = Warp() * 8 + threadIdx.x % 8, first = threadIdx.x % 32 / 8;
    const int begin = sequence_.Begin(tile), num_rows = sequence_.End(tile) - begin;
    float o[kPieces][8], sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      Load(out_ + row * kOutStride + (4 * i + first) * 8, o[i]);
#pragma unroll
      for (const float value : o[i]) sum = fmaf(value, value, sum);
    }
    sum += __shfl_xor_sync(0xffffffffu, sum, 8);
    sum += __shfl_xor_sync(0xffffffffu, sum, 16);
    // Queries are unit vectors here: o is sqrt(kDim) times what it should be.
    const float scale = rsqrtf(fmaf(sum, 1.0f / kDim, kDim * params_.norm_eps));
    if (row >= num_rows) return;
    T* to = static_cast<T*>(params_.out) +
            (sequence_.first_row + begin + row) * params_.out_stride + head_ * kDim;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const int piece = 4 * i + first;
      const uint4 raw = LoadShared16(stage.z().Piece(row, piece));
      float z[2][4], weight[8];
      Widen<T>(uint2{raw.x, raw.y}, z[0]);
      Widen<T>(uint2{raw.z, raw.w}, z[1]);
      Load(norm_weight() + piece * 8, weight);
#pragma unroll
      for (int j = 0; j < 8; ++j) o[i][j] *= scale * weight[j] * SiluApprox(z[j / 4][j % 4]);
      Store(o[i], to + piece * 8);
    }
  }

  // After FinishState.
  __device__ void SaveSnapshotsAtEnd(int tile) const {
    const int end = sequence_.End(tile);
    ForSnapshots(end, end,
                 [&](int, int slot) { Save(state_, RecurrentSlot<State>(params_, slot, head_)); });
  }

 private:
  // Of 16 v elements: and the tile's tokens, and as a first operand whose columns these are, and
  // the k elements.
  using TokenSums = float[1][kTokenTiles][4];
  using Operand = uint32_t[kTokenTiles / 2][4];
  using StateSums = float[1][kDim / 8][4];

  static __device__ int Warp() { return threadIdx.x / 32; }
  __device__ float* norm_weight() const { return out_ + kTileTokens * kOutStride; }
  // Of a sum: its v element of the head, and its column.
  static __device__ int VElement(int e) { return 16 * Warp() + threadIdx.x % 32 / 4 + e / 2 * 8; }
  static __device__ int Column(int tile, int e) { return 8 * tile + 2 * (threadIdx.x % 4) + e % 2; }
  static __device__ int StateIndex(int tile, int e) { return Column(tile, e) * kDim + VElement(e); }

  template <typename Element>
  static __device__ void Save(const StateSums& state, Element* to) {
#pragma unroll
    for (int tile = 0; tile < kDim / 8; ++tile) {
#pragma unroll
      for (int e = 0; e < 4; ++e) Set<Element>(state[0][tile][e], to, StateIndex(tile, e));
    }
  }

  // By a factor of each token.
  static __device__ void Scale(const float* factors, int tile, float (&values)[4]) {
    const float2 pair = *reinterpret_cast<const float2*>(factors + Column(tile, 0));
    values[0] *= pair.x, values[1] *= pair.y, values[2] *= pair.x, values[3] *= pair.y;
  }
  static __device__ void Scale(const float* factors, TokenSums& values) {
#pragma unroll
    for (int i = 0; i < kTokenTiles; ++i) Scale(factors, i, values[0][i]);
  }

  static __device__ void Decay(float decay, StateSums& state) {
#pragma unroll
    for (auto& tile : state[0]) {
#pragma unroll
      for (float& value : tile) value *= decay;
    }
  }

  template <int kSteps>
  static __device__ void Pack(const float (&from)[1][2 * kSteps][4], uint32_t (&to)[kSteps][4]) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const float(&low)[4] = from[0][2 * step], (&high)[4] = from[0][2 * step + 1];
      to[step][0] = PackHalves(low[0], low[1]);
      to[step][1] = PackHalves(low[2], low[3]);
      to[step][2] = PackHalves(high[0], high[1]);
      to[step][3] = PackHalves(high[2], high[3]);
    }
  }

  // (V - e^G K S)^T.
  static __device__ void Compare(const ScanStage& stage, TokenSums& recalled, Operand& to) {
    Scale(stage.decays(), recalled);
#pragma unroll
    for (int i = 0; i < kTokenTiles; i += 2) {
      uint32_t v[4];
      stage.values().LoadTransposed(8 * i, 16 * Warp(), v);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float values[4];
        Widen<T>(uint2{v[j], v[2 + j]}, values);
#pragma unroll
        for (int e = 0; e < 4; ++e) recalled[0][i + j][e] = values[e] - recalled[0][i + j][e];
      }
    }
    Pack(recalled, to);
  }

  __device__ void StoreOut(const TokenSums& out) const {
#pragma unroll
    for (int i = 0; i < kTokenTiles; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) out_[Column(i, e) * kOutStride + VElement(e)] = out[0][i][e];
    }
  }

  // Calls save(tokens of the tile, slot) for each snapshot after [first, last] tokens of the step.
  template <typename Save>
  __device__ void ForSnapshots(int first, int last, const Save& save) const {
    const int lane = threadIdx.x % 32;
    for (int at = 0; at < access_.num_snapshots; at += 32) {
      StateSnapshot snapshot = {.num_tokens = -1, .slot = -1};
      if (at + lane < access_.num_snapshots) {
        snapshot = params_.batch.snapshots[access_.first_snapshot + at + lane];
      }
      uint32_t found =
          __ballot_sync(0xffffffffu, snapshot.num_tokens >= first && snapshot.num_tokens <= last);
      for (; found != 0; found &= found - 1) {
        const int from = __ffs(static_cast<int>(found)) - 1;
        save(__shfl_sync(0xffffffffu, snapshot.num_tokens, from),
             __shfl_sync(0xffffffffu, snapshot.slot, from));
      }
    }
  }

  // Saves the states after the tile's first tokens, which do not know of the later ones.
  __device__ void SaveSnapshotsWithin(const ScanStage& stage, int tile,
                                      const TokenSums& written) const {
    const int begin = sequence_.Begin(tile), end = sequence_.End(tile);
    ForSnapshots(begin + 1, end - 1, [&](int num_tokens, int slot) {
      const int last = num_tokens - begin - 1;
      TokenSums kept;
#pragma unroll
      for (int i = 0; i < kTokenTiles; ++i) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float remains = exp2f(stage.sums()[last] - stage.sums()[Column(i, e)]);
          kept[0][i][e] = Column(i, e) <= last ? remains * written[0][i][e] : 0.0f;
        }
      }
      Operand operand;
      Pack(kept, operand);
      StateSums state;
#pragma unroll
      for (int i = 0; i < kDim / 8; ++i) {
#pragma unroll
        for (int e = 0; e < 4; ++e) state[0][i][e] = state_[0][i][e];
      }
      Decay(stage.decays()[last], state);
      StartColumnSums(operand, stage.keys(), state);
      WaitForGemms<0>(state);
      Save(state, RecurrentSlot<State>(params_, slot, head_));
    });
  }

  const GatedDeltaParams& params_;
  const StateAccess access_;
  const TiledSequence& sequence_;
  const int head_;
  float* const out_;  // [kTileTokens, kOutStride] in shared memory, then the norm's weight
  StateSums state_;
};

template <typename T, typename State>
__device__ void RunSequence(const GatedDeltaParams& params, const PassRoom& room,
                            unsigned char* shared) {
  const int seq = params.batch.num_decodes + blockIdx.y, head = blockIdx.x;
  const StateAccess access = params.batch.sequences[seq];
  if (access.write < 0) return;
  const TiledSequence sequence(params.batch, seq);
  const int num_tiles = sequence.num_tiles();
  const int first = max(room.first_slot - sequence.first_slot, 0);
  const int end = min(room.first_slot + kGatedDeltaTilesPerPass - sequence.first_slot, num_tiles);
  if (first >= end) return;
  const ScanStage stages[2] = {{shared}, {shared + ScanStage::kBytes}};
  DeltaScan<T, State> scan(params, access, sequence, head,
                           reinterpret_cast<float*>(shared + 2 * ScanStage::kBytes));
  const auto copy = [&](int tile) {
    const int at = sequence.first_slot + tile - room.first_slot;
    scan.CopyTile(room.tiles[at * params.shape.num_v_heads + head], tile, stages[tile % 2]);
    CommitCopies();
  };
  const int64_t carried = int64_t{head} * kDim * kDim;
  copy(first);
  if (first > 0) {
    scan.LoadState(room.carry_in + carried);
  } else if (access.read < 0) {
    scan.ClearState();
  } else {
    scan.LoadState(RecurrentSlot<State>(params, access.read, head));
  }
  for (int tile = first; tile < end; ++tile) {
    WaitForCopies<0>();
    FenceSharedWrites();
    __syncthreads();  // and all warps are done with the other stage and the outputs
    scan.RunTile(stages[tile % 2], tile, [&] {
      if (tile + 1 < end) copy(tile + 1);
    });
    __syncthreads();
    scan.StoreNormed(stages[tile % 2], tile);
    scan.FinishState();
    scan.SaveSnapshotsAtEnd(tile);
  }
  if (end < num_tiles) {
    scan.SaveState(room.carry_out + carried);
  } else {
    scan.SaveState(RecurrentSlot<State>(params, access.write, head));
  }
}

// Grid: (v heads, prompts). All but those whose tiles are not of the pass end at once.
// Bytes: y, z and a TileRoom read by each v head, the output written; a state read and written,
// for each snapshot, too.
// Accumulation: float32, of products of float16; tiles in order.
// Limit: the latency of a tile's four gemms, one after the other.
template <typename T, typename State>
__global__ void __launch_bounds__(kThreads, 1)
    DeltaScanKernel(const GatedDeltaParams params, const PassRoom room) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ unsigned char unaligned[];
  constexpr uint32_t kAlignment = ScanStage::Vectors::kAlignment;
  unsigned char* shared =
      unaligned + (kAlignment - SharedAddress(unaligned) % kAlignment) % kAlignment;
  WaitForPredecessor();
  ReleaseSuccessor();  // after all before is complete, as DeltaTileKernel needs it
  RunSequence<T, State>(params, room, shared);
#endif
}

template <typename T, typename State>
void Launch(const GatedDeltaParams& params, const PassRoom& room, cudaStream_t stream) {
  const dim3 grid(params.shape.num_v_heads, params.batch.num_seqs - params.batch.num_decodes);
  cudaFuncSetAttribute(DeltaScanKernel<T, State>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                       kSharedBytes);
  LaunchKernel(DeltaScanKernel<T, State>, grid, kThreads, kSharedBytes, stream, params, room);
}

}  // namespace

void LaunchDeltaScan(const GatedDeltaParams& params, const PassRoom& room, cudaStream_t stream) {
  const bool is_f32 = params.state.dtype == DType::kF32;
  if (params.dtype == DType::kBF16) {
    is_f32 ? Launch<__nv_bfloat16, float>(params, room, stream)
           : Launch<__nv_bfloat16, __nv_bfloat16>(params, room, stream);
  } else {
    is_f32 ? Launch<__half, float>(params, room, stream)
           : Launch<__half, __nv_bfloat16>(params, room, stream);
  }
}

}  // namespace quire::cuda
