// The register tile, written once over a vector type. Included by one file per instruction set,
// after its target pragma; everything is in an anonymous namespace, so that no function compiled
// for one instruction set can be linked in place of another's.
//
// A vector type V has: Floats (a register), kLanes, kNumRegisters, kBf16Pairs, and static functions
// Zero, Store, Load, Broadcast (a float), MulAdd(a, b, c) = a * b + c. With kBf16Pairs also Pairs,
// LoadPairs, BroadcastPair and MulAddPairs; otherwise LoadEven and LoadOdd, which widen the first
// and the second elements of a vector of bfloat16 pairs, and Even and Odd, which do so in
// registers. Its Expander (void: none) expands halves of compressed steps into vectors of pairs.

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

// What one vector of weights and one activation make: of floats, of bfloat16 pairs, and of the
// first or second elements of pairs after widening.
template <class V>
struct FloatProduct {
  using Operand = typename V::Floats;
  static Operand Weights(const char* p) { return V::Load(p); }
  static Operand Activation(const char* p) { return V::Broadcast(p); }
  static auto MulAdd(Operand x, Operand w, typename V::Floats acc) { return V::MulAdd(x, w, acc); }
};
template <class V>
struct EvenProduct : FloatProduct<V> {
  static auto Weights(const char* p) { return V::LoadEven(p); }
};
template <class V>
struct OddProduct : FloatProduct<V> {
  static auto Weights(const char* p) { return V::LoadOdd(p); }
};
template <class V>
struct PairProduct {
  using Operand = typename V::Pairs;
  static Operand Weights(const char* p) { return V::LoadPairs(p); }
  static Operand Activation(const char* p) { return V::BroadcastPair(p); }
  static auto MulAdd(Operand x, Operand w, typename V::Floats acc) {
    return V::MulAddPairs(x, w, acc);
  }
};

template <class V, int kRows, int kVectors>
struct Accumulators {
  typename V::Floats v[kRows][kVectors];
};

// Adds the products of each row's activation, kStride bytes apart, and the vectors of weights.
template <class Product, int kStride, class V, int kRows, int kVectors>
inline __attribute__((always_inline)) void AddProducts(const char* x, const char* weights,
                                                       Accumulators<V, kRows, kVectors>& acc) {
  typename Product::Operand w[kVectors];
#pragma GCC unroll 16
  for (int c = 0; c < kVectors; ++c) w[c] = Product::Weights(weights + c * sizeof(w[0]));
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    const typename Product::Operand xr = Product::Activation(x + r * kStride);
#pragma GCC unroll 16
    for (int c = 0; c < kVectors; ++c) acc.v[r][c] = Product::MulAdd(xr, w[c], acc.v[r][c]);
  }
}

// The same with one vector of expanded pairs.
template <class V>
inline __attribute__((always_inline)) typename V::Floats MulAddWords(const char* x,
                                                                     typename V::Expander::Words w,
                                                                     typename V::Floats acc) {
  if constexpr (V::kBf16Pairs) {
    return V::MulAddPairs(V::BroadcastPair(x), (typename V::Pairs)w, acc);
  } else {
    acc = V::MulAdd(V::Broadcast(x), V::Even(w), acc);
    return V::MulAdd(V::Broadcast(x + sizeof(float)), V::Odd(w), acc);
  }
}

template <int kHalf, int kStride, class V, int kRows, int kVectors>
inline __attribute__((always_inline)) void AddExpandedHalf(const char* x, const char* step,
                                                           const typename V::Expander& expander,
                                                           Accumulators<V, kRows, kVectors>& acc) {
  typename V::Expander::Words w[kVectors / 2];
  expander.template Half<kHalf>(step, w);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int c = 0; c < kVectors / 2; ++c) {
      auto& sum = acc.v[r][kHalf * (kVectors / 2) + c];
      sum = MulAddWords<V>(x + r * kStride, w[c], sum);
    }
  }
}

template <class V>
inline __attribute__((always_inline)) void ExpandStep(const char* step,
                                                      const typename V::Expander& expander,
                                                      char* out) {
  constexpr int kVectors = kPanelFeatures / V::kLanes;
  typename V::Expander::Words w[kVectors];
  expander.template Half<0>(step, w);
  expander.template Half<1>(step, w + kVectors / 2);
#pragma GCC unroll 16
  for (int c = 0; c < kVectors; ++c) V::Expander::Store(out + c * sizeof(w[0]), w[c]);
}

// Puts the exceptions of the step that comes first among them into its expanded weights.
inline void PatchStep(ExceptionRange* exceptions, char* weights) {
  const int32_t step = exceptions->next->step;
  for (; exceptions->next != exceptions->end && exceptions->next->step == step;
       ++exceptions->next) {
    const WeightException& e = *exceptions->next;
    __builtin_memcpy(weights + e.element * sizeof(e.bits), &e.bits, sizeof(e.bits));
  }
}

// See ExpandFn.
template <class V>
void Expand(const CompressedPanel& panel, int64_t first_step, int64_t last_step,
            ExceptionRange* exceptions, void* out) {
  const typename V::Expander expander(panel);
  char* const weights = static_cast<char*>(out) - first_step * kStepBytes;
  for (int64_t step = first_step; step < last_step; ++step) {
    ExpandStep<V>(panel.Step(step), expander, weights + step * kStepBytes);
  }
  for (int64_t step; (step = exceptions->NextStep(last_step)) < last_step;) {
    PatchStep(exceptions, weights + step * kStepBytes);
  }
}

enum class Elements { kF32, kBf16 };

// One tile, see TileArgs. The columns are done in as many passes over the panel as the registers
// ask for.
template <class V, Elements kElements, int kRows>
void Tile(const TileArgs& args) {
  constexpr int kVectors = NumColumnVectors<V>(kRows);
  constexpr int kValueBytes = kElements == Elements::kBf16 && !V::kBf16Pairs ? 8 : 4;
  // One pass over the panel reads memory in order, which the processor foresees. Several passes
  // would leave the memory idle in all but the first, so each fetches a part of the next panel.
  const char* fetch = static_cast<const char*>(args.prefetch);
  for (int column = 0; column < kPanelFeatures; column += kVectors * V::kLanes) {
    Accumulators<V, kRows, kVectors> acc;
    float* const out = args.out + column;
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (int c = 0; c < kVectors; ++c) {
        acc.v[r][c] = args.add ? V::Load(out + r * kPanelFeatures + c * V::kLanes) : V::Zero();
      }
    }
    const char* x = static_cast<const char*>(args.activations);
    const char* weights = static_cast<const char*>(args.panel) + column * sizeof(float);
    for (int64_t step = 0; step < args.num_steps; ++step) {
      if constexpr (NumPasses<V>(kRows) > 1) {
        for (int i = 0; i < args.prefetch_lines; ++i) __builtin_prefetch(fetch + 64 * i, 0, 2);
        fetch += 64 * args.prefetch_lines;
      }
      if constexpr (kElements == Elements::kF32) {
        AddProducts<FloatProduct<V>, kValueBytes>(x, weights, acc);
      } else if constexpr (V::kBf16Pairs) {
        AddProducts<PairProduct<V>, kValueBytes>(x, weights, acc);
      } else {  // one after the other: half the registers for weights
        AddProducts<EvenProduct<V>, kValueBytes>(x, weights, acc);
        AddProducts<OddProduct<V>, kValueBytes>(x + sizeof(float), weights, acc);
      }
      x += kRows * kValueBytes;
      weights += kStepBytes;
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (int c = 0; c < kVectors; ++c) {
        V::Store(out + r * kPanelFeatures + c * V::kLanes, acc.v[r][c]);
      }
    }
  }
}

// One tile of one pass over a compressed panel: expanded in registers, but for steps with an
// exception.
template <class V, int kRows>
void CompressedTile(const TileArgs& args) {
  constexpr int kVectors = NumColumnVectors<V>(kRows);
  static_assert(NumPasses<V>(kRows) == 1);
  constexpr int kValueBytes = V::kBf16Pairs ? 4 : 8;
  const CompressedPanel& panel = *static_cast<const CompressedPanel*>(args.panel);
  const typename V::Expander expander(panel);
  ExceptionRange exceptions = panel.Exceptions(args.num_steps);
  Accumulators<V, kRows, kVectors> acc;
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int c = 0; c < kVectors; ++c) acc.v[r][c] = V::Zero();
  }
  const char* x = static_cast<const char*>(args.activations);
  const char* weights = panel.Step(0);
  for (int64_t step = 0;; ++step) {
    const int64_t stop = exceptions.NextStep(args.num_steps);
    for (; step < stop; ++step) {
      AddExpandedHalf<0, kValueBytes>(x, weights, expander, acc);
      AddExpandedHalf<1, kValueBytes>(x, weights, expander, acc);
      x += kRows * kValueBytes;
      weights += kCompressedStepBytes;
    }
    if (step == args.num_steps) break;
    alignas(64) char expanded[kStepBytes];
    ExpandStep<V>(weights, expander, expanded);
    PatchStep(&exceptions, expanded);
    if constexpr (V::kBf16Pairs) {
      AddProducts<PairProduct<V>, kValueBytes>(x, expanded, acc);
    } else {
      AddProducts<EvenProduct<V>, kValueBytes>(x, expanded, acc);
      AddProducts<OddProduct<V>, kValueBytes>(x + sizeof(float), expanded, acc);
    }
    x += kRows * kValueBytes;
    weights += kCompressedStepBytes;
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int c = 0; c < kVectors; ++c) {
      V::Store(args.out + r * kPanelFeatures + c * V::kLanes, acc.v[r][c]);
    }
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
  kernel.num_passes[kRows] = NumPasses<V>(kRows);
  if constexpr (!std::is_void_v<typename V::Expander> && NumPasses<V>(kRows) == 1) {
    kernel.compressed[kRows] = CompressedTile<V, kRows>;
  }
  if constexpr (kRows > 1) AddTiles<V, kRows - 1>(kernel);
}

template <class V, int kMaxRows>
constexpr GemmKernel MakeGemmKernel() {
  static_assert(kMaxRows <= kMaxTileRows);
  GemmKernel kernel = {};
  kernel.max_rows = kMaxRows;
  kernel.bf16_pairs = V::kBf16Pairs;
  AddTiles<V, kMaxRows>(kernel);
  if constexpr (!std::is_void_v<typename V::Expander>) kernel.expand = Expand<V>;
  kernel.store_f32 = StoreTile<float>;
  kernel.store_bf16 = StoreTile<BFloat16>;
  return kernel;
}

}  // namespace
}  // namespace quire::cpu
