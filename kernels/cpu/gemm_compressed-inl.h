// The register tile over compressed weights (compression.h); see gemm_tile-inl.h, which comes
// first.

namespace quire::cpu {
namespace {  // NOLINT(google-build-namespaces): one copy per instruction set, see gemm_tile-inl.h

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
  acc.Open(args.add, args.out);
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
    AddPairs<kValueBytes>(x, expanded, acc);
    x += kRows * kValueBytes;
    weights += kCompressedStepBytes;
  }
  acc.Store(args.out);
}

}  // namespace
}  // namespace quire::cpu
