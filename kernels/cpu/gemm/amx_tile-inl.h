// The tile of AMX (amx.h), written once over what a packed step holds: blocks of 16 rows, 16 steps
// and 16 columns. Included by those who need it after their target pragmas; everything is in an
// anonymous namespace, see gemm_tile-inl.h.

namespace quire::cpu {
namespace {  // NOLINT(google-build-namespaces): one copy per instruction set, see above

// A column's four bytes of a step: a pair of bfloat16, summed up in float32, or four int8, whose
// activations are uint8, in int32.
enum class AmxStep : uint8_t { kBf16, kInt8 };

// Calls f(std::integral_constant<int, i>) for i in [0, kCount).
template <int kCount, class F>
inline __attribute__((always_inline)) void Unrolled(F f) {
  [&]<int... kIndex>(std::integer_sequence<int, kIndex...>) {
    (f(std::integral_constant<int, kIndex>{}), ...);
  }
  (std::make_integer_sequence<int, kCount>{});
}

// The sums of kA registers of rows and kB registers of columns: registers 0 to 3. Those that follow
// are activations, those after them weights, in turn.
template <AmxStep kStep, int kA, int kB>
struct AmxSums {
  static_assert(kA * kB <= 4);
  static constexpr int Register(int a, int b) { return a * kB + b; }
  static constexpr int X(int a) { return 4 + a; }
  static constexpr int Weights(int b) { return 4 + kA + b % (4 - kA); }

  static constexpr int64_t Offset(int a, int b) {
    return a * kAmxRows * kPanelFeatures + b * kAmxColumns;
  }

  static void Configure(int num_rows) {
    AmxConfiguration config;
    for (int a = 0; a < kA; ++a) {
      const auto rows = static_cast<uint8_t>(std::min(num_rows - a * kAmxRows, kAmxRows));
      config.num_rows[X(a)] = rows;
      for (int b = 0; b < kB; ++b) config.num_rows[Register(a, b)] = rows;
    }
    AmxConfigure(config);
  }

  // out: [rows, kPanelFeatures], from the first column on.
  static void Load(const float* out) {
    Unrolled<kA>([&](auto a) {
      Unrolled<kB>([&](auto b) {
        AmxLoad<Register(a, b)>(out + Offset(a, b), kPanelFeatures * sizeof(float));
      });
    });
  }
  static void Zero() {
    Unrolled<kA>([&](auto a) { Unrolled<kB>([&](auto b) { AmxZero<Register(a, b)>(); }); });
  }
  static void Store(float* out) {
    Unrolled<kA>([&](auto a) {
      Unrolled<kB>([&](auto b) {
        AmxStore<Register(a, b)>(out + Offset(a, b), kPanelFeatures * sizeof(float));
      });
    });
  }

  static void Open(const TileArgs& args) {
    Configure(args.num_rows);
    args.add ? Load(args.out + args.first_column) : Zero();
  }
  static void Close(const TileArgs& args) {
    Store(args.out + args.first_column);
    AmxRelease();
  }

  // Adds a block's products: activations of all rows one after the other, weights kStepBytes apart.
  // Calls on_column() before each register of columns.
  template <class F>
  static inline __attribute__((always_inline)) void Add(const char* x, const char* weights,
                                                        F on_column) {
    Unrolled<kA>([&](auto a) { AmxLoad<X(a)>(x + a * kAmxRows * kAmxRowBytes, kAmxRowBytes); });
    Unrolled<kB>([&](auto b) {
      on_column();
      AmxLoad<Weights(b)>(weights + b * kAmxRowBytes, kStepBytes);
      Unrolled<kA>([&](auto a) {
        if constexpr (kStep == AmxStep::kBf16) {
          AmxMulAdd<Register(a, b), X(a), Weights(b)>();
        } else {
          AmxMulAddInt8<Register(a, b), X(a), Weights(b)>();
        }
      });
    });
  }
};

// The products with the columns from first_column on, as many as kB registers have. Activations are
// in ActivationLayout::kBlocks; what they have beyond num_steps is multiplied by zero.
template <AmxStep kStep, int kA, int kB>
void MultiplyPacked(const TileArgs& args) {
  using Sums = AmxSums<kStep, kA, kB>;
  Sums::Open(args);
  const char* x = static_cast<const char*>(args.activations);
  const char* weights = static_cast<const char*>(args.weights) + args.first_column * sizeof(float);
  Prefetch prefetch = *args.prefetch;
  const auto fetch = [&] { prefetch.Step(kBlockSteps / kB); };
  int64_t step = 0;
  for (; step + kBlockSteps <= args.num_steps; step += kBlockSteps) {
    Sums::Add(x, weights + step * kStepBytes, fetch);
    x += args.num_rows * kAmxRowBytes;
  }
  if (step < args.num_steps) {
    alignas(64) char last[kBlockSteps * kStepBytes] = {};
    for (int i = 0; step + i < args.num_steps; ++i) {
      std::memcpy(last + i * kStepBytes, weights + (step + i) * kStepBytes, kB * kAmxRowBytes);
    }
    Sums::Add(x, last, fetch);
  }
  *args.prefetch = prefetch;
  Sums::Close(args);
}

}  // namespace
}  // namespace quire::cpu
