// Int8 times int8 on the CPU, with every instruction set this machine has and with emulated AMX:
// every sum is exact, so every way to one has the same bits.
#include "kernels/cpu/gemm/quantized/int8_tile.h"

#include <algorithm>
#include <atomic>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/base/types.h"
#include "kernels/cpu/gemm/quantized/quantized_gemm.h"
#include "tests/kernels/amx_emulator.h"
#include "tests/kernels/quantized_weight.h"
#include "tests/kernels/test_values.h"

namespace quire::cpu {
namespace {

struct Int8Target {
  std::string name;
  Int8Kernel kernel;
};

void PrintTo(const Int8Target& target, std::ostream* out) { *out << target.name; }

std::vector<Int8Target> Int8Targets() {
  std::vector<Int8Target> targets;
  for (const Isa isa : kAllIsas) {
    if (IsaSupported(isa)) targets.push_back({IsaName(isa), Int8KernelFor(isa)});
  }
#if defined(__x86_64__)
  if (EmulateAmxWhereMissing()) {
    targets.push_back(
        {"emulated_amx_int8",
         {.vector_tile = Int8KernelFor(Isa::kGeneric).vector_tile, .amx_tile = Int8AmxTile}});
  }
#endif
  return targets;
}

class Int8TileTest : public testing::TestWithParam<Int8Target> {
 protected:
  const Int8Kernel& kernel() const { return GetParam().kernel; }
};

// A tile's operands as plain matrices, and as its arguments want them. Memory ends where they do.
struct Operands {
  int64_t num_units;
  int num_rows;
  std::vector<uint8_t> x;       // [num_rows, 4 * num_units]
  std::vector<int8_t> weights;  // [kPanelFeatures, 4 * num_units]

  template <typename Next>
  Operands(int64_t num_units, int num_rows, Next next)
      : num_units(num_units),
        num_rows(num_rows),
        x(num_rows * 4 * num_units),
        weights(kPanelFeatures * 4 * num_units) {
    for (uint8_t& code : x) code = static_cast<uint8_t>(next());
    for (int8_t& code : weights) code = static_cast<int8_t>(next());
  }

  std::vector<uint8_t> XInBlocks() const {
    // What is beyond the columns may be anything.
    std::vector<uint8_t> blocks(CeilDiv(num_units, kInt8BlockUnits) * num_rows * 64, 0xAB);
    for (int64_t r = 0; r < num_rows; ++r) {
      for (int64_t i = 0; i < 4 * num_units; ++i) {
        blocks[(i / 64 * num_rows + r) * 64 + i % 64] = x[r * 4 * num_units + i];
      }
    }
    return blocks;
  }

  std::vector<uint32_t> Words() const {
    std::vector<uint32_t> words(num_units * kPanelFeatures);
    for (int64_t f = 0; f < kPanelFeatures; ++f) {
      for (int64_t i = 0; i < 4 * num_units; ++i) {
        words[i / 4 * kPanelFeatures + f] |=
            static_cast<uint32_t>(static_cast<uint8_t>(weights[f * 4 * num_units + i]))
            << i % 4 * 8;
      }
    }
    return words;
  }

  std::vector<int32_t> Products() const {
    std::vector<int32_t> products(num_rows * kPanelFeatures);
    for (int64_t i = 0; i < std::ssize(products); ++i) {
      const uint8_t* const row = x.data() + i / kPanelFeatures * 4 * num_units;
      const int8_t* const feature = weights.data() + i % kPanelFeatures * 4 * num_units;
      for (int64_t k = 0; k < 4 * num_units; ++k) products[i] += row[k] * feature[k];
    }
    return products;
  }
};

void ExpectProducts(const Operands& operands, Int8TileFn multiply) {
  SCOPED_TRACE(testing::Message() << operands.num_rows << " rows, " << operands.num_units
                                  << " units");
  const std::vector<uint8_t> x = operands.XInBlocks();
  const std::vector<uint32_t> words = operands.Words();
  for (const int64_t read_ahead : {0, 8192}) {
    std::vector<int32_t> out(operands.num_rows * kPanelFeatures + 1, 77);  // one that must stay
    multiply({.words = words.data(),
              .num_units = operands.num_units,
              .x = x.data(),
              .num_rows = operands.num_rows,
              .read_ahead = read_ahead,
              .out = out.data()});
    ASSERT_EQ(out.back(), 77);
    out.pop_back();
    ASSERT_EQ(out, operands.Products());
  }
}

TEST_P(Int8TileTest, SumsAreExact) {
  std::mt19937 rng(1);
  const auto check = [&](Int8TileFn multiply, int max_rows) {
    for (const int64_t num_units : {1, 3, 15, 16, 17, 32, 47, 100}) {
      for (int num_rows = 1; num_rows <= max_rows; ++num_rows) {
        ExpectProducts(Operands(num_units, num_rows, rng), multiply);
        if (HasFatalFailure()) return;
      }
    }
  };
  check(kernel().vector_tile, kInt8VectorRows);
  if (kernel().amx_tile != nullptr) check(kernel().amx_tile, kInt8AmxRows);
}

// Sums of four such products do not fit 16 bits, where some instructions would clip them.
TEST_P(Int8TileTest, SumsOfTheLargestProductsAreExact) {
  for (const int8_t weight : {-128, 127}) {
    const auto check = [&](Int8TileFn multiply, int num_rows) {
      Operands operands(1000, num_rows, [&] { return weight; });
      std::fill(operands.x.begin(), operands.x.end(), uint8_t{255});
      ExpectProducts(operands, multiply);
    };
    check(kernel().vector_tile, kInt8VectorRows);
    if (kernel().amx_tile != nullptr) check(kernel().amx_tile, kInt8AmxRows);
  }
}

// An int8 weight for int8 activations at random.
struct PackedInt8 {
  std::vector<CacheLine> data;
  LinearWeight weight;

  PackedInt8(int64_t features, int64_t columns, uint32_t seed)
      : weight{.format = {.value = WeightValue::kInt8},
               .activations = {.value = ActivationValue::kInt8},
               .dtype = DType::kF32,
               .out_features = features,
               .in_features = columns} {
    data.resize(QuantizedLayout(weight).size_bytes() / 64);
    weight.data = data.data();
    const HostWeight host(weight.format, features, columns, seed);
    PackQuantizedRows(weight, 0, host.Rows(0, features));
  }
};

// The first rows of x [.., columns of the weight] with a bias, of one kernel and some threads.
std::vector<float> Multiply(const Int8Kernel& kernel, const LinearWeight& weight,
                            std::vector<float>& x, std::vector<float>& bias, int64_t num_rows,
                            ThreadPool& pool) {
  std::vector<float> out(num_rows * weight.out_features);
  QuantizedGemm(kGenericF32Tiles, /*has_amx_pairs=*/false, kernel)
      .Linear({.x = Tensor(x.data(), DType::kF32, {num_rows, weight.in_features}),
               .weight = &weight,
               .bias = Tensor(bias.data(), DType::kF32, {weight.out_features}),
               .out = Tensor(out.data(), DType::kF32, {num_rows, weight.out_features})},
              pool);
  return out;
}

// A row's bits are those of the generic kernel for only this row, whatever the number of rows.
TEST_P(Int8TileTest, BitsAreThoseOfTheGenericKernelWithAnyNumberOfRows) {
  constexpr int64_t kMaxRows = 300;
  const Int8Kernel generic = Int8KernelFor(Isa::kGeneric);
  ThreadPool one(1), three(3);
  for (const auto& [features, columns] :
       {std::pair<int64_t, int64_t>(70, 131), {1, 64}, {130, 1}, {64, 1000}}) {
    SCOPED_TRACE(testing::Message() << features << " x " << columns);
    const PackedInt8 packed(features, columns, 5);
    std::vector<float> x = RandomNormal(kMaxRows * columns, 1), bias = RandomNormal(features, 2);
    std::vector<float> expected;
    for (int64_t row = 0; row < kMaxRows; ++row) {
      std::vector<float> alone(x.begin() + row * columns, x.begin() + (row + 1) * columns);
      const std::vector<float> out = Multiply(generic, packed.weight, alone, bias, 1, one);
      expected.insert(expected.end(), out.begin(), out.end());
    }
    for (int64_t num_rows = 1; num_rows <= kMaxRows; num_rows += num_rows < 40 ? 1 : 13) {
      ASSERT_EQ(Multiply(GetParam().kernel, packed.weight, x, bias, num_rows, three),
                std::vector<float>(expected.begin(), expected.begin() + num_rows * features))
          << num_rows << " rows";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Int8TileTest, testing::ValuesIn(Int8Targets()),
                         [](const auto& info) { return info.param.name; });

TEST(Int8KernelTest, HasAmxWhereTheProcessorHasItAndTheInstructionSetAllowsIt) {
  for (const Isa isa : kAllIsas) {
    if (!IsaSupported(isa)) continue;
    EXPECT_EQ(Int8KernelFor(isa).amx_tile != nullptr, isa == Isa::kAmxBf16 && HasAmxInt8())
        << IsaName(isa);
  }
}

std::atomic<int> num_amx_rows;  // that CountedTile was given

void CountedTile(const Int8TileArgs& args) {
  EXPECT_LE(args.num_rows, kInt8AmxRows);
  num_amx_rows += args.num_rows;
  std::fill_n(args.out, args.num_rows * kPanelFeatures, 0);
}

TEST(Int8KernelTest, MoreRowsThanVectorsTakeAtATimeGoToAmx) {
  const Int8Kernel kernel = {.vector_tile = Int8KernelFor(Isa::kGeneric).vector_tile,
                             .amx_tile = CountedTile};
  const PackedInt8 packed(kPanelFeatures, 8, 3);
  std::vector<float> x = RandomNormal(300 * 8, 1), bias(kPanelFeatures);
  ThreadPool pool(2);
  for (const auto& [num_rows, expected] :
       {std::pair<int64_t, int>(1, 0), {4, 0}, {5, 5}, {33, 33}, {224, 224}, {226, 224}}) {
    num_amx_rows = 0;
    Multiply(kernel, packed.weight, x, bias, num_rows, pool);
    EXPECT_EQ(num_amx_rows, expected) << num_rows << " rows";
  }
}

}  // namespace
}  // namespace quire::cpu
