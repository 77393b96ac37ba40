// Tiles over a matrix unit that multiplies blocks of 16 rows, 32 input features and 16 columns.
// Included after gemm_kernel-inl.h and expand_avx512-inl.h; everything is in an anonymous
// namespace, see gemm_tile-inl.h.
//
// A unit U has eight registers of 16 rows of 64 bytes and static functions: Configure(a0, a1) gives
// the first and second register of activations, and those of their sums, so many rows; Release();
// Zero<r>, Load<r> and Store<r> of rows so many bytes apart; MulAdd<sums, x, weights>, which adds
// to each sum two chains of 16 multiply-adds, one over the first elements of pairs, one over the
// second. Each output is therefore a chain over blocks of features, whatever the number of rows.

namespace quire::cpu {
namespace {  // NOLINT(google-build-namespaces): one copy per instruction set, see gemm_tile-inl.h

inline constexpr int kUnitRows = 16;
inline constexpr int kUnitColumns = 16;
inline constexpr int64_t kUnitRowBytes = 64;

template <int kCount, class F>
inline __attribute__((always_inline)) void Unrolled(F f) {
  [&]<int... kIndex>(std::integer_sequence<int, kIndex...>) {
    (f(std::integral_constant<int, kIndex>{}), ...);
  }
  (std::make_integer_sequence<int, kCount>{});
}

// The sums of kA registers of rows and kB registers of columns.
template <class U, int kA, int kB>
struct UnitSums {
  static_assert(kA * kB <= 4);
  static constexpr int Sums(int a, int b) { return a * kB + b; }
  static constexpr int Activations(int a) { return 4 + a; }
  static constexpr int Weights(int b) { return 4 + kA + b % (4 - kA); }

  static float* At(const TileArgs& args, int a, int b) {
    return args.out + a * kUnitRows * kPanelFeatures + args.first_column + b * kUnitColumns;
  }

  static void Open(const TileArgs& args) {
    U::Configure(std::min(args.num_rows, kUnitRows), std::max(args.num_rows - kUnitRows, 0), kB);
    Unrolled<kA>([&](auto a) {
      Unrolled<kB>([&](auto b) {
        constexpr int kSums = Sums(a, b);
        if (args.add) {
          U::template Load<kSums>(At(args, a, b), kPanelFeatures * sizeof(float));
        } else {
          U::template Zero<kSums>();
        }
      });
    });
  }

  // One block: activations of all rows one after the other, weights kStepBytes apart.
  static inline __attribute__((always_inline)) void Add(const char* x, const char* weights) {
    Unrolled<kA>([&](auto a) {
      U::template Load<Activations(a)>(x + a * kUnitRows * kUnitRowBytes, kUnitRowBytes);
    });
    Unrolled<kB>([&](auto b) {
      U::template Load<Weights(b)>(weights + b * kUnitRowBytes, kStepBytes);
      Unrolled<kA>([&](auto a) { U::template MulAdd<Sums(a, b), Activations(a), Weights(b)>(); });
    });
  }

  static void Close(const TileArgs& args) {
    Unrolled<kA>([&](auto a) {
      Unrolled<kB>([&](auto b) {
        U::template Store<Sums(a, b)>(At(args, a, b), kPanelFeatures * sizeof(float));
      });
    });
    U::Release();
  }
};

template <class U, int kA, int kB>
void MultiplyPacked(const TileArgs& args) {
  using Sums = UnitSums<U, kA, kB>;
  Sums::Open(args);
  const char* x = static_cast<const char*>(args.activations);
  const char* weights = static_cast<const char*>(args.weights) + args.first_column * sizeof(float);
  Prefetch prefetch = *args.prefetch;
  int64_t step = 0;
  for (; step + kBlockSteps <= args.num_steps; step += kBlockSteps) {
    prefetch.Step(kBlockSteps);
    Sums::Add(x, weights + step * kStepBytes);
    x += args.num_rows * kUnitRowBytes;
  }
  if (step < args.num_steps) {
    alignas(64) char last[kBlockSteps * kStepBytes] = {};
    for (int i = 0; step + i < args.num_steps; ++i) {
      __builtin_memcpy(last + i * kStepBytes, weights + (step + i) * kStepBytes,
                       kB * kUnitRowBytes);
    }
    Sums::Add(x, last);
  }
  *args.prefetch = prefetch;
  Sums::Close(args);
}

// Expands the columns of kParts parts (Expander) of some steps of a block; the others are zeros.
template <int kFirstPart, int kParts>
inline __attribute__((always_inline)) void ExpandBlock(const char* steps, int64_t num_steps,
                                                       const ExpanderAvx512& expander,
                                                       Prefetch* prefetch, char* out) {
  const auto expand = [&] {
    prefetch->Step();
    Unrolled<kParts>([&](auto p) {
      constexpr int kPart = kFirstPart + p;
      ExpanderAvx512::Words w[kPartVectors];
      expander.template Part<kPart>(steps, w);
      for (int c = 0; c < kPartVectors; ++c) {
        ExpanderAvx512::Store(out + ExpanderAvx512::Place(kPart, c) * sizeof(w[0]), w[c]);
      }
    });
    steps += kCompressedStepBytes;
    out += kStepBytes;
  };
  for (int64_t i = 0; i < num_steps; ++i) expand();
  __builtin_memset(out, 0, (kBlockSteps - num_steps) * kStepBytes);
}

template <class U, int kA, int kB, int kFirstPart>
void MultiplyCompressed(const TileArgs& args) {
  using Sums = UnitSums<U, kA, kB>;
  constexpr int kParts = kB / kPartVectors;
  constexpr int64_t kBlockBytes = kBlockSteps * kStepBytes;
  // All columns at once are those of the only tile, which leaves nothing behind.
  constexpr bool kLeavesSteps = kB * kUnitColumns < kPanelFeatures;
  alignas(64) char here[kLeavesSteps ? 64 : 2 * kBlockBytes];
  Sums::Open(args);
  const CompressedSteps& steps = args.compressed;
  const ExpanderAvx512 expander(*steps.panel);
  ExceptionRange exceptions = steps.exceptions;
  Prefetch prefetch = *args.prefetch;
  const char* x = static_cast<const char*>(args.activations);
  for (int64_t step = 0; step < args.num_steps; step += kBlockSteps) {
    char* const block = kLeavesSteps ? steps.expanded + step * kStepBytes
                                     : here + step / kBlockSteps % 2 * kBlockBytes;
    const int64_t num_steps = std::min(args.num_steps - step, kBlockSteps);
    const int64_t first = steps.first + step;
    ExpandBlock<kFirstPart, kParts>(steps.panel->Step(first), num_steps, expander, &prefetch,
                                    block);
    for (int64_t next; (next = exceptions.NextStep(first + num_steps)) < first + num_steps;) {
      PatchStep(&exceptions, block + (next - first) * kStepBytes);
    }
    Sums::Add(x, block + kFirstPart * kPartVectors * kUnitRowBytes);
    x += args.num_rows * kUnitRowBytes;
  }
  *args.prefetch = prefetch;
  Sums::Close(args);
}

template <class U>
void UnitTile(const TileArgs& args) {
  if (args.num_columns == kPanelFeatures) return MultiplyPacked<U, 1, 4>(args);
  if (args.num_rows > kUnitRows) return MultiplyPacked<U, 2, 2>(args);
  return MultiplyPacked<U, 1, 2>(args);
}

template <class U>
void CompressedUnitTile(const TileArgs& args) {
  if (args.num_columns == kPanelFeatures) return MultiplyCompressed<U, 1, 4, 0>(args);
  const bool is_first = args.first_column == 0;
  if (args.num_rows > kUnitRows) {
    return is_first ? MultiplyCompressed<U, 2, 2, 0>(args) : MultiplyCompressed<U, 2, 2, 1>(args);
  }
  return is_first ? MultiplyCompressed<U, 1, 2, 0>(args) : MultiplyCompressed<U, 1, 2, 1>(args);
}

template <class U>
constexpr TileSet MakeUnitTileSet() {
  TileSet set = {};
  set.layout = ActivationLayout::kBlocks;
  set.max_rows = 2 * kUnitRows;
  set.row_unit = kUnitRows;
  for (int rows = 1; rows <= set.max_rows; ++rows) {
    set.tiles[rows] = UnitTile<U>;
    set.compressed[rows] = CompressedUnitTile<U>;
    // Four registers of sums: 16 rows of all columns, or 32 of half of them.
    set.num_columns[rows] = rows > kUnitRows ? kPanelFeatures / 2 : kPanelFeatures;
    set.num_passes[rows] = 1;
  }
  set.store_f32 = StoreTile<float>;
  set.store_bf16 = StoreTile<BFloat16>;
  return set;
}

}  // namespace
}  // namespace quire::cpu
