// The register tile over compressed weights (compression.h); see gemm_tile-inl.h, which comes
// first. Each pass expands what it multiplies in registers: multiply-adds leave the units idle that
// this takes.

namespace quire::cpu {
namespace {  // NOLINT(google-build-namespaces): one copy per instruction set, see gemm_tile-inl.h

inline constexpr int kPartVectors = 2;  // see Expander in gemm_tile-inl.h

template <class V>
inline constexpr int kNumParts = kPanelFeatures / (kPartVectors * V::kLanes);

// One pass of a tile: parts [kFirstPart, kFirstPart + kParts) of each step.
template <class V, int kRows, int kPass>
struct CompressedPass {
  using Expander = typename V::Expander;
  using Words = typename Expander::Words;
  static constexpr int kVectors = NumColumnVectors<V>(kRows);
  static constexpr int kParts = kVectors / kPartVectors;
  static constexpr int kFirstPart = kPass * kParts;
  static constexpr int kValueBytes = V::kBf16Pairs ? 4 : 8;
  // Several passes leave what they expanded behind.
  static constexpr bool kStores = NumPasses<V>(kRows) > 1;
  // Whether first and second elements of pairs take too many registers, a part's two vectors of
  // each next to an activation and a mask. The second ones then come from what is stored.
  static constexpr bool kReloads =
      !V::kBf16Pairs && kRows * kVectors + 2 * kPartVectors + 2 >= V::kNumRegisters;
  static_assert(kStores || !kReloads);

  // Which vector of a step is the pass's `c`th.
  static constexpr int Place(int c) {
    return Expander::Place(kFirstPart + c / kPartVectors, c % kPartVectors);
  }

  Accumulators<V, kRows, kVectors> acc;

  // Adds the products with the words of the pass's part kPart, which are also in `stored`, a step.
  template <int kPart>
  inline __attribute__((always_inline)) void AddPart(const char* x, const Words* w,
                                                     const char* stored, const Expander& expander) {
    constexpr int kFirst = kPart * kPartVectors;
    if constexpr (V::kBf16Pairs) {
      const typename V::Pairs pairs[] = {(typename V::Pairs)w[0], (typename V::Pairs)w[1]};
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const auto xr = V::BroadcastPair(x + r * kValueBytes);
        acc.v[r][kFirst] = V::MulAddPairs(xr, pairs[0], acc.v[r][kFirst]);
        acc.v[r][kFirst + 1] = V::MulAddPairs(xr, pairs[1], acc.v[r][kFirst + 1]);
      }
    } else {
      AddFloats<kFirst>(x, V::Even(w[0]), V::Even(w[1]));
      x += sizeof(float);
      if constexpr (kReloads) {
        AddFloats<kFirst>(x, expander.LoadOdd(stored + Place(kFirst) * sizeof(Words)),
                          expander.LoadOdd(stored + Place(kFirst + 1) * sizeof(Words)));
      } else {
        AddFloats<kFirst>(x, V::Odd(w[0]), V::Odd(w[1]));
      }
    }
  }

  template <int kFirst>
  inline __attribute__((always_inline)) void AddFloats(const char* x, typename V::Floats first,
                                                       typename V::Floats second) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const auto xr = V::Broadcast(x + r * kValueBytes);
      acc.v[r][kFirst] = V::MulAdd(xr, first, acc.v[r][kFirst]);
      acc.v[r][kFirst + 1] = V::MulAdd(xr, second, acc.v[r][kFirst + 1]);
    }
  }

  // All parts of the pass from kPart on; `out` is the expanded step if any is left behind.
  template <int kPart = 0>
  inline __attribute__((always_inline)) void AddStep(const char* x, const char* step,
                                                     const Expander& expander, char* out) {
    Words w[kPartVectors];
    expander.template Part<kFirstPart + kPart>(step, w);
    if constexpr (kStores) {
      Expander::Store(out + Place(kPart * kPartVectors) * sizeof(Words), w[0]);
      Expander::Store(out + Place(kPart * kPartVectors + 1) * sizeof(Words), w[1]);
    }
    AddPart<kPart>(x, w, out, expander);
    if constexpr (kPart + 1 < kParts) AddStep<kPart + 1>(x, step, expander, out);
  }

  // The same of an expanded step.
  template <int kPart = 0>
  inline __attribute__((always_inline)) void AddExpandedStep(const char* x, const char* step,
                                                             const Expander& expander) {
    const Words w[kPartVectors] = {
        Expander::Load(step + Place(kPart * kPartVectors) * sizeof(Words)),
        Expander::Load(step + Place(kPart * kPartVectors + 1) * sizeof(Words))};
    AddPart<kPart>(x, w, step, expander);
    if constexpr (kPart + 1 < kParts) AddExpandedStep<kPart + 1>(x, step, expander);
  }
};

// Parts [kFirst, kFirst + kCount) of a step, in their places.
template <class Expander, int kFirst, int kCount>
inline void ExpandParts(const char* step, const Expander& expander, char* out) {
  typename Expander::Words w[kPartVectors];
  expander.template Part<kFirst>(step, w);
  Expander::Store(out + Expander::Place(kFirst, 0) * sizeof(w[0]), w[0]);
  Expander::Store(out + Expander::Place(kFirst, 1) * sizeof(w[0]), w[1]);
  if constexpr (kCount > 1) ExpandParts<Expander, kFirst + 1, kCount - 1>(step, expander, out);
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

// All passes of a tile from kPass on.
template <class V, int kRows, int kPass>
inline __attribute__((always_inline)) void RunCompressedPasses(const TileArgs& args) {
  using Pass = CompressedPass<V, kRows, kPass>;
  constexpr auto kPlace = [](int c) { return Pass::Place(c); };
  const CompressedSteps& steps = args.compressed;
  const typename V::Expander expander(*steps.panel);
  ExceptionRange exceptions = steps.exceptions;
  Pass pass;
  pass.acc.Open(args.add, args.out, kPlace);
  const char* x = static_cast<const char*>(args.activations);
  const char* weights = steps.panel->Step(steps.first);
  char* out = steps.expanded;
  Prefetch prefetch = *args.prefetch;
  const int64_t last = steps.first + args.num_steps;
  for (int64_t step = steps.first;; ++step) {
    const int64_t stop = std::min(exceptions.NextStep(last), last);
    for (; step < stop; ++step) {
      prefetch.Step();
      pass.AddStep(x, weights, expander, out);
      x += kRows * Pass::kValueBytes;
      weights += kCompressedStepBytes;
      if constexpr (Pass::kStores) out += kStepBytes;
    }
    if (step == last) break;
    prefetch.Step();
    alignas(64) char here[kStepBytes];
    char* const expanded = Pass::kStores ? out : here;
    ExpandParts<typename V::Expander, 0, kNumParts<V>>(weights, expander, expanded);
    PatchStep(&exceptions, expanded);
    pass.AddExpandedStep(x, expanded, expander);
    x += kRows * Pass::kValueBytes;
    weights += kCompressedStepBytes;
    if constexpr (Pass::kStores) out += kStepBytes;
  }
  pass.acc.Store(args.out, kPlace);
  *args.prefetch = prefetch;
  if constexpr (kPass + 1 < NumPasses<V>(kRows)) {
    RunCompressedPasses<V, kRows, kPass + 1>(args);
  }
}

// One tile over compressed steps.
template <class V, int kRows>
void CompressedTile(const TileArgs& args) {
  RunCompressedPasses<V, kRows, 0>(args);
}

}  // namespace
}  // namespace quire::cpu
