// Quantized weights as AMX takes them, with every instruction set this machine has, and their
// products, where AMX is missing with an emulated one.
#include "kernels/cpu/gemm/quantized/pair_steps.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/base/types.h"
#include "kernels/cpu/gemm/gemm_kernel.h"
#include "kernels/cpu/gemm/quantized/quantized_gemm.h"
#include "tests/kernels/amx_emulator.h"
#include "tests/kernels/quantized_weight.h"
#include "tests/kernels/test_values.h"

namespace quire::cpu {
namespace {

constexpr int64_t kBlockColumns = 2 * kBlockSteps;

// A weight in the CPU's layout.
struct PackedWeight {
  LinearWeight weight;
  std::vector<CacheLine> data;

  PackedWeight(const QuantizedCase& c, const HostWeight& host)
      : weight{.format = c.format,
               .activations = c.activations,
               .dtype = DType::kBF16,
               .out_features = host.rows,
               .in_features = host.columns} {
    data.resize(CeilDiv<int64_t>(QuantizedLayout(weight).size_bytes(), sizeof(CacheLine)));
    weight.data = data.data();
    PackQuantizedRows(weight, 0, host.Rows(0, host.rows));
  }
};

// Formats whose x is multiplied as it is.
std::vector<QuantizedCase> Cases() {
  std::vector<QuantizedCase> cases = QuantizedCases();
  std::erase_if(
      cases, [](const QuantizedCase& c) { return c.activations.value == ActivationValue::kInt8; });
  return cases;
}

// Column `column` of a group, as a step has it: with its scale if that has 8 bits.
double ValueInStep(const HostWeight& host, int64_t row, int64_t group, int64_t column) {
  const WeightFormat& format = host.format;
  const int64_t group_columns = format.group_columns == 0 ? host.columns : format.group_columns;
  const uint8_t code = host.codes[row * host.columns + group * group_columns + column];
  const double value = ValueOfCode(format.value, code, 1 << (BitsOf(format.value) - 1));
  const uint8_t scale = host.scale_codes[row * host.num_groups + group];
  switch (format.scale) {
    case ScaleValue::kFloat32:
      return value;
    case ScaleValue::kFloat8:
      return value * Float8Value(scale);
    case ScaleValue::kPowerOfTwo:
      return std::ldexp(value, scale - 127);
  }
  return 0;
}

class PairStepsTest : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override { LimitHighwayTargets(GetParam()); }
  void TearDown() override { LimitHighwayTargets(BestIsa()); }
};

TEST_P(PairStepsTest, ValuesAreExact) {
  constexpr int64_t kRows = 64, kColumns = 384;
  for (const QuantizedCase& c : Cases()) {
    SCOPED_TRACE(c.name);
    HostWeight host(c.format, kRows, kColumns, 5);
    if (c.name == "mxfp4") {
      for (int i = 0; i < 255; ++i) host.scale_codes[i] = static_cast<uint8_t>(i);
    }
    const PackedWeight packed(c, host);
    const QuantizedLayout layout(packed.weight);
    const PairSteps steps(layout);
    const int64_t num_spans = c.format.scale == ScaleValue::kFloat32 ? host.num_groups : 1;
    ASSERT_EQ(steps.num_spans, num_spans);
    const int64_t half = layout.unit_columns / 2, span_columns = kColumns / num_spans;
    std::vector<uint32_t> out(steps.num_blocks * kBlockSteps * kPanelFeatures, ~0u);
    for (const int64_t block : {int64_t{0}, int64_t{1}}) {  // in two parts
      ExpandBlocks({.layout = &layout,
                    .steps = &steps,
                    .panel = static_cast<const char*>(packed.weight.data),
                    .first_block = block,
                    .num_blocks = block == 0 ? 1 : steps.num_blocks - 1,
                    .read_ahead = 0,
                    .out = out.data() + block * kBlockSteps * kPanelFeatures});
    }
    for (int64_t span = 0; span < num_spans; ++span) {
      const uint32_t* const of_span =
          out.data() + steps.FirstBlockOf(span) * kBlockSteps * kPanelFeatures;
      for (const uint32_t* pair = of_span + span_columns / 2 * kPanelFeatures;
           pair != out.data() + steps.FirstBlockOf(span + 1) * kBlockSteps * kPanelFeatures;
           ++pair) {
        ASSERT_EQ(*pair, 0u);
      }
      for (int64_t i = 0; i < span_columns / 2; ++i) {
        for (int64_t row = 0; row < kRows; ++row) {
          const uint32_t pair = of_span[i * kPanelFeatures + row];
          const int64_t column = span * span_columns + i / half * layout.unit_columns + i % half;
          for (const int64_t second : {0, 1}) {
            const int64_t at = column + second * half;
            const auto value = std::bit_cast<float>(second == 0 ? pair << 16 : pair & 0xffff0000u);
            const int64_t group = at / layout.group_columns;
            const auto expected =
                static_cast<float>(ValueInStep(host, row, group, at % layout.group_columns));
            // AMX takes numbers too small to be normal for zeros; the largest scales may count as
            // one that leaves every value in float32.
            const int scale = host.scale_codes[row * host.num_groups + group];
            if (std::abs(expected) < std::numeric_limits<float>::min() * 16) {
              ASSERT_LT(std::abs(value), std::numeric_limits<float>::min() * 16);
            } else if (scale > 251) {
              ASSERT_TRUE(value == expected || std::ldexp(value, scale - 251) == expected);
            } else {
              ASSERT_EQ(value, expected) << row << " " << at;
            }
          }
        }
      }
    }
  }
}

TEST_P(PairStepsTest, ColumnsOfXAreWhereTheirStepIs) {
  constexpr int64_t kRows = 1, kColumns = 200;
  for (const QuantizedCase& c : Cases()) {
    SCOPED_TRACE(c.name);
    const HostWeight host(c.format, kRows, kColumns, 6);
    const PackedWeight packed(c, host);
    const QuantizedLayout layout(packed.weight);
    const PairSteps steps(layout);
    std::vector<BFloat16> x(kColumns);
    for (int64_t i = 0; i < kColumns; ++i) x[i] = BFloat16(static_cast<float>(i + 1));
    std::vector<BFloat16> row(steps.num_blocks * kBlockColumns);
    PlaceColumns(layout, steps, x.data(), layout.OrderOf(packed.weight), row.data());
    constexpr int64_t kStride = 3 * 64;  // of three rows
    std::vector<char> out(steps.num_blocks * kStride);
    std::vector<float> sums(steps.num_spans * 2, -1.0f);
    PackSteps({.steps = &steps,
               .row = row.data(),
               .block_stride = kStride,
               .out = out.data(),
               .sum_stride = 2,
               .span_sums = sums.data()});
    const int64_t half = layout.unit_columns / 2;
    std::vector<float> expected_sums(steps.num_spans, 0.0f);
    std::vector<BFloat16> expected(steps.num_blocks * kBlockColumns);
    for (int64_t group = 0, column = 0; group < layout.num_groups; ++group) {
      const int64_t span = steps.has_scaled_values ? 0 : group;
      const int64_t first = steps.has_scaled_values
                                ? group * layout.group_units * layout.unit_columns
                                : steps.FirstBlockOf(group) * kBlockColumns;
      for (int64_t i = 0; i < layout.ColumnsOf(group); ++i, ++column) {
        const int64_t within = i % layout.unit_columns;
        const int64_t place = i - within + within % half * 2 + within / half;
        const BFloat16 value = x[host.order[column]];
        expected[first + place] = value;
        expected_sums[span] += static_cast<float>(value);
      }
    }
    for (int64_t i = 0; i < std::ssize(expected); ++i) {
      BFloat16 value;
      std::memcpy(&value, out.data() + i / kBlockColumns * kStride + i % kBlockColumns * 2, 2);
      ASSERT_EQ(value.bits, expected[i].bits) << i;
    }
    for (int64_t span = 0; span < steps.num_spans; ++span) {
      ASSERT_EQ(sums[2 * span], expected_sums[span]) << span;  // of whole numbers: exact
    }
  }
}

std::vector<Isa> Isas() {
  std::vector<Isa> isas;
  for (const Isa isa : kAllIsas) {
    if (IsaSupported(isa)) isas.push_back(isa);
  }
  return isas;
}

INSTANTIATE_TEST_SUITE_P(All, PairStepsTest, testing::ValuesIn(Isas()),
                         [](const auto& info) { return std::string(IsaName(info.param)); });

#if defined(__x86_64__)

std::vector<float> Multiply(const LinearWeight& weight, std::vector<BFloat16> x,
                            std::vector<float> bias) {
  const auto num_rows = static_cast<int64_t>(x.size()) / weight.in_features;
  std::vector<float> out(num_rows * weight.out_features, -1.0f);
  QuantizedGemm gemm(kGenericF32Tiles, /*has_amx_pairs=*/true, Int8KernelFor(Isa::kGeneric));
  ThreadPool pool(2);
  gemm.Linear({.x = Tensor(x.data(), DType::kBF16, {num_rows, weight.in_features}),
               .weight = &weight,
               .bias = Tensor(bias.data(), DType::kF32, {weight.out_features}),
               .out = Tensor(out.data(), DType::kF32, {num_rows, weight.out_features})},
              pool);
  return out;
}

TEST(PairGemmTest, MatchesFloat64AndARowsBitsAreItsOwn) {
  if (!EmulateAmxWhereMissing() && !IsaSupported(Isa::kAmxBf16)) GTEST_SKIP() << "needs AVX2";
  constexpr int64_t kFeatures = 70, kColumns = 320, kRows = 50;
  for (const QuantizedCase& c : Cases()) {
    SCOPED_TRACE(c.name);
    const HostWeight host(c.format, kFeatures, kColumns, 7);
    const PackedWeight packed(c, host);
    const std::vector<float> bias = RandomNormal(kFeatures, 3);
    std::vector<BFloat16> x;
    for (const float value : RandomNormal(kRows * kColumns, 1)) x.emplace_back(value);
    const std::vector<double> values = host.Values();
    const std::vector<float> out = Multiply(packed.weight, x, bias);
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t n = 0; n < kFeatures; ++n) {
        double sum = bias[n], size = std::abs(sum);
        for (int64_t k = 0; k < kColumns; ++k) {
          const double product =
              static_cast<float>(x[row * kColumns + k]) * values[n * kColumns + k];
          sum += product;
          size += std::abs(product);
        }
        ASSERT_NEAR(out[row * kFeatures + n], sum, size * 1e-5) << row << " " << n;
      }
    }
    for (const int64_t count : {1, 16, 17, 33}) {
      const std::vector<BFloat16> some(x.begin() + 3 * kColumns,
                                       x.begin() + (3 + count) * kColumns);
      ASSERT_EQ(
          Multiply(packed.weight, some, bias),
          std::vector<float>(out.begin() + 3 * kFeatures, out.begin() + (3 + count) * kFeatures))
          << count;
    }
  }
}

#endif

}  // namespace
}  // namespace quire::cpu
