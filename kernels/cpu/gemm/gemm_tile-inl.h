// The register tile, written once over a vector type. Included by one file per instruction set,
// after its target pragma; everything is in an anonymous namespace, so that no function compiled
// for one instruction set can be linked in place of another's.
//
// A vector type V has: Floats (a register), kLanes, kNumRegisters, kBf16Pairs, and static functions
// Zero, Store, Load. With kBf16Pairs also Pairs, LoadPairs, BroadcastPair and MulAddPairs;
// otherwise Broadcast (a float), MulAdd(a, b, c) = a * b + c, LoadEven and LoadOdd, which widen the
// first and the second elements of a vector of bfloat16 pairs, and Even and Odd, which do so in
// registers. Its Expander (void: none) expands compressed steps part by part, two vectors of pairs
// each: those in the places Place(part, 0) and Place(part, 1) of the step.

namespace quire::cpu {
namespace {  // NOLINT(google-build-namespaces): one copy per instruction set, see above

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

// How often a tile of `num_rows` rows goes over its panel.
template <class V>
constexpr int NumPasses(int num_rows) {
  return kPanelFeatures / (NumColumnVectors<V>(num_rows) * V::kLanes);
}

// The products of one vector of weights and one activation: of floats, of bfloat16 pairs, and of
// the first or second elements of pairs after widening.
template <class V>
struct FloatDot {
  using Operand = typename V::Floats;
  static Operand Weights(const char* p) { return V::Load(p); }
  static Operand Activation(const char* p) { return V::Broadcast(p); }
  static auto MulAdd(Operand x, Operand w, typename V::Floats acc) { return V::MulAdd(x, w, acc); }
};
template <class V>
struct EvenDot : FloatDot<V> {
  static auto Weights(const char* p) { return V::LoadEven(p); }
};
template <class V>
struct OddDot : FloatDot<V> {
  static auto Weights(const char* p) { return V::LoadOdd(p); }
};
template <class V>
struct PairDot {
  using Operand = typename V::Pairs;
  static Operand Weights(const char* p) { return V::LoadPairs(p); }
  static Operand Activation(const char* p) { return V::BroadcastPair(p); }
  static auto MulAdd(Operand x, Operand w, typename V::Floats acc) {
    return V::MulAddPairs(x, w, acc);
  }
};

// The sums of some of a tile's columns: vector c belongs at place(c) of its rows of kPanelFeatures.
template <class V, int kRows, int kVectors>
struct Accumulators {
  typename V::Floats v[kRows][kVectors];

  // Zeros, or what is there already.
  template <class Place>
  inline __attribute__((always_inline)) void Open(bool add, const float* out, Place place) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (int c = 0; c < kVectors; ++c) {
        const float* at = out + r * kPanelFeatures + place(c) * V::kLanes;
        v[r][c] = add ? V::Load(at) : V::Zero();
      }
    }
  }

  template <class Place>
  inline __attribute__((always_inline)) void Store(float* out, Place place) const {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (int c = 0; c < kVectors; ++c) {
        V::Store(out + r * kPanelFeatures + place(c) * V::kLanes, v[r][c]);
      }
    }
  }
};

// Adds the products of each row's activation, kStride bytes apart, and the vectors of weights.
template <class Dot, int kStride, class V, int kRows, int kVectors>
inline __attribute__((always_inline)) void AddDots(const char* x, const char* weights,
                                                   Accumulators<V, kRows, kVectors>& acc) {
  typename Dot::Operand w[kVectors];
#pragma GCC unroll 16
  for (int c = 0; c < kVectors; ++c) w[c] = Dot::Weights(weights + c * sizeof(w[0]));
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    const typename Dot::Operand xr = Dot::Activation(x + r * kStride);
#pragma GCC unroll 16
    for (int c = 0; c < kVectors; ++c) acc.v[r][c] = Dot::MulAdd(xr, w[c], acc.v[r][c]);
  }
}

enum class Elements { kF32, kBf16 };

// One tile, see TileArgs. The columns are done in as many passes over the panel as the registers
// ask for.
template <class V, Elements kElements, int kRows>
void Tile(const TileArgs& args) {
  constexpr int kVectors = NumColumnVectors<V>(kRows);
  constexpr int kValueBytes = kElements == Elements::kBf16 && !V::kBf16Pairs ? 8 : 4;
  constexpr auto in_order = [](int c) { return c; };
  Prefetch prefetch = *args.prefetch;
  for (int column = 0; column < kPanelFeatures; column += kVectors * V::kLanes) {
    Accumulators<V, kRows, kVectors> acc;
    acc.Open(args.add, args.out + column, in_order);
    const char* x = static_cast<const char*>(args.activations);
    const char* weights = static_cast<const char*>(args.weights) + column * sizeof(float);
    for (int64_t step = 0; step < args.num_steps; ++step) {
      prefetch.Step();
      if constexpr (kElements == Elements::kF32) {
        AddDots<FloatDot<V>, kValueBytes>(x, weights, acc);
      } else if constexpr (V::kBf16Pairs) {
        AddDots<PairDot<V>, kValueBytes>(x, weights, acc);
      } else {  // one after the other: half the registers for weights
        AddDots<EvenDot<V>, kValueBytes>(x, weights, acc);
        AddDots<OddDot<V>, kValueBytes>(x + sizeof(float), weights, acc);
      }
      x += kRows * kValueBytes;
      weights += kStepBytes;
    }
    acc.Store(args.out + column, in_order);
  }
  *args.prefetch = prefetch;
}

}  // namespace
}  // namespace quire::cpu
