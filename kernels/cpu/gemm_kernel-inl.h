// The register tile, written once over a vector type. Included by one file per instruction set,
// after its target pragma; everything is in an anonymous namespace, so that no function compiled
// for one instruction set can be linked in place of another's.
//
// A vector type V has: Floats (a register), kLanes, kNumRegisters, kBf16Pairs, and static functions
// Zero, Store, Load (floats), Broadcast (a float), MulAdd(a, b, c) = a * b + c; with kBf16Pairs
// MulAddPairs(pair of one row, weights, c), otherwise LoadEven and LoadOdd, which widen the first
// and the second elements of a vector of bfloat16 pairs.

namespace quire::cpu {
namespace {

// How many vectors of columns a tile of `num_rows` rows holds at a time: as many as the registers
// allow next to the weights (which one row uses up one by one) and an activation, a power of two
// that divides the panel.
template <class V>
constexpr int NumColumnVectors(int num_rows) {
  int vectors = kPanelFeatures / V::kLanes;
  const auto num_used = [&] { return num_rows * vectors + (num_rows > 1 ? vectors : 1) + 2; };
  while (vectors > 1 && num_used() > V::kNumRegisters) vectors /= 2;
  return vectors;
}

template <class V, int kRows, int kVectors>
struct Accumulators {
  typename V::Floats v[kRows][kVectors];
};

template <class V, int kRows, int kVectors>
inline __attribute__((always_inline)) void StepF32(const float* x, const char* weights,
                                                   Accumulators<V, kRows, kVectors>& acc) {
  typename V::Floats w[kVectors];
#pragma GCC unroll 16
  for (int c = 0; c < kVectors; ++c) w[c] = V::Load(weights + c * sizeof(w[0]));
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    const typename V::Floats xr = V::Broadcast(x + r);
#pragma GCC unroll 16
    for (int c = 0; c < kVectors; ++c) acc.v[r][c] = V::MulAdd(xr, w[c], acc.v[r][c]);
  }
}

template <class V, int kRows, int kVectors>
inline __attribute__((always_inline)) void StepBf16Pairs(const uint32_t* x, const char* weights,
                                                         Accumulators<V, kRows, kVectors>& acc) {
  typename V::Pairs w[kVectors];
#pragma GCC unroll 16
  for (int c = 0; c < kVectors; ++c) w[c] = V::LoadPairs(weights + c * sizeof(w[0]));
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    const typename V::Pairs xr = V::BroadcastPair(x + r);
#pragma GCC unroll 16
    for (int c = 0; c < kVectors; ++c) acc.v[r][c] = V::MulAddPairs(xr, w[c], acc.v[r][c]);
  }
}

// The first elements of all pairs, then the second: half the registers for weights.
template <class V, int kRows, int kVectors>
inline __attribute__((always_inline)) void StepBf16Widened(const float* x, const char* weights,
                                                           Accumulators<V, kRows, kVectors>& acc) {
  typename V::Floats w[kVectors];
#pragma GCC unroll 16
  for (int c = 0; c < kVectors; ++c) w[c] = V::LoadEven(weights + c * sizeof(w[0]));
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    const typename V::Floats xr = V::Broadcast(x + 2 * r);
#pragma GCC unroll 16
    for (int c = 0; c < kVectors; ++c) acc.v[r][c] = V::MulAdd(xr, w[c], acc.v[r][c]);
  }
#pragma GCC unroll 16
  for (int c = 0; c < kVectors; ++c) w[c] = V::LoadOdd(weights + c * sizeof(w[0]));
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    const typename V::Floats xr = V::Broadcast(x + 2 * r + 1);
#pragma GCC unroll 16
    for (int c = 0; c < kVectors; ++c) acc.v[r][c] = V::MulAdd(xr, w[c], acc.v[r][c]);
  }
}

enum class Elements { kF32, kBf16 };

template <class V, Elements kElements, int kRows>
void Tile(const TileArgs& args) {
  constexpr int kVectors = NumColumnVectors<V>(kRows);
  using Floats = typename V::Floats;
  constexpr int kValueBytes = kElements == Elements::kBf16 && !V::kBf16Pairs ? 8 : 4;
  constexpr int kColumnBytes = kVectors * sizeof(Floats);
  // One pass over the panel reads memory in order, which the processor foresees. Several passes
  // would leave the memory idle in all but the first, so each fetches its share of the next panel.
  constexpr bool kOnePass = kColumnBytes == kStepBytes;
  const char* ahead = static_cast<const char*>(args.prefetch);
  for (int column = 0; column < kPanelFeatures; column += kVectors * V::kLanes) {
    Accumulators<V, kRows, kVectors> acc;
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (int c = 0; c < kVectors; ++c) acc.v[r][c] = V::Zero();
    }
    const char* x = static_cast<const char*>(args.activations);
    const char* weights = static_cast<const char*>(args.panel) + column * sizeof(float);
    for (int64_t step = 0; step < args.num_steps; ++step) {
      if constexpr (!kOnePass) {
        for (int i = 0; i < kColumnBytes; i += 64) __builtin_prefetch(ahead + i, 0, 2);
        ahead += kColumnBytes;
      }
      if constexpr (kElements == Elements::kF32) {
        StepF32(reinterpret_cast<const float*>(x), weights, acc);
      } else if constexpr (V::kBf16Pairs) {
        StepBf16Pairs(reinterpret_cast<const uint32_t*>(x), weights, acc);
      } else {
        StepBf16Widened(reinterpret_cast<const float*>(x), weights, acc);
      }
      x += kRows * kValueBytes;
      weights += kStepBytes;
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (int c = 0; c < kVectors; ++c) {
        V::Store(args.out + r * kPanelFeatures + column + c * V::kLanes, acc.v[r][c]);
      }
    }
    static_assert(sizeof(Floats) == V::kLanes * sizeof(float));
  }
}

template <typename Out>
void StoreTile(const StoreArgs& args) {
  for (int r = 0; r < args.num_rows; ++r) {
    const float* tile = args.tile + r * kPanelFeatures;
    Out* out = static_cast<Out*>(args.out) + r * args.row_stride;
    for (int c = 0; c < args.num_cols; ++c) out[c] = Out(tile[c] + args.bias[c]);
  }
}

template <class V, int kRows>
constexpr void AddTiles(GemmKernel& kernel) {
  kernel.f32[kRows] = Tile<V, Elements::kF32, kRows>;
  kernel.bf16[kRows] = Tile<V, Elements::kBf16, kRows>;
  if constexpr (kRows > 1) AddTiles<V, kRows - 1>(kernel);
}

template <class V, int kMaxRows>
constexpr GemmKernel MakeGemmKernel() {
  static_assert(kMaxRows <= kMaxTileRows);
  GemmKernel kernel = {};
  kernel.max_rows = kMaxRows;
  kernel.bf16_pairs = V::kBf16Pairs;
  AddTiles<V, kMaxRows>(kernel);
  kernel.store_f32 = StoreTile<float>;
  kernel.store_bf16 = StoreTile<BFloat16>;
  return kernel;
}

}  // namespace
}  // namespace quire::cpu
