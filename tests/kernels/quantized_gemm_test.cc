// Every way in which Gemm may compute a gemm with a quantized weight, since which one serves is
// decided by measuring: each gives the products of the values that the codes stand for, and a gated
// gemm what its two operations give.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/gemm/quantized/quantize_activations.h"
#include "kernels/float8_rows.h"
#include "tests/kernels/quantized_weight_test.h"

namespace quire::cuda {
namespace {

class QuantizedGemmTest : public QuantizedWeightTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    gemm_ = Gemm::Create(backend().device()).value();
  }

  CudaStream& cuda_stream() { return CudaStream::From(stream()); }

  // visit(choice) for each candidate.
  template <typename Visit>
  void ForEachCandidate(const LinearArgs& args, const Visit& visit) {
    const std::vector<GemmChoice> candidates = gemm_->Candidates(args).value();
    for (const GemmChoice& choice : candidates) {
      SCOPED_TRACE(testing::Message() << "kernel " << static_cast<int>(choice.kernel) << " variant "
                                      << choice.variant);
      visit(choice);
      if (HasFatalFailure()) return;
    }
  }

  // x times the weight's values, and the sum of the products' magnitudes.
  struct Products {
    std::vector<double> sums, magnitudes;  // [rows of x, features]
  };
  static Products Multiply(const std::vector<float>& x, const std::vector<double>& values,
                           const std::vector<float>& bias, int64_t columns) {
    const auto features = static_cast<int64_t>(bias.size());
    const int64_t size = static_cast<int64_t>(x.size()) / columns * features;
    Products products{std::vector<double>(size), std::vector<double>(size)};
    for (int64_t i = 0; i < size; ++i) {
      const int64_t row = i / features, n = i % features;
      double sum = bias[n], magnitude = std::abs(bias[n]);
      for (int64_t k = 0; k < columns; ++k) {
        const double product = x[row * columns + k] * values[n * columns + k];
        sum += product, magnitude += std::abs(product);
      }
      products.sums[i] = sum, products.magnitudes[i] = magnitude;
    }
    return products;
  }

  // Of [num_rows, columns] x, whose results of each candidate must be `expected` within the
  // magnitudes times `precision`, the rounding to the weight's dtype and `vanishing`; or `rounded`,
  // if that is given (MayRoundValues). A row more must stay as it is.
  void ExpectCandidates(const LinearWeight& weight, const std::vector<float>& x, int64_t num_rows,
                        const std::vector<float>& bias, const Products& expected, double precision,
                        const Products& rounded = {}, double vanishing = 0) {
    const DType dtype = weight.dtype;
    const int64_t n = weight.out_features;
    const DeviceTensor x_device = UploadTensor(x, dtype, {num_rows, weight.in_features});
    const DeviceTensor bias_device = UploadTensor(bias, DType::kF32, {n});
    const std::vector<float> unwritten((num_rows + 1) * n, 77.0f);
    const DeviceTensor out = UploadTensor(unwritten, dtype, {num_rows + 1, n});
    const LinearArgs args = {.x = x_device.tensor,
                             .weight = &weight,
                             .bias = bias_device.tensor,
                             .out = Tensor(out.buffer.data(), dtype, {num_rows, n})};
    ForEachCandidate(args, [&](const GemmChoice& choice) {
      Overwrite(out.buffer, BytesOf(dtype, unwritten));
      ASSERT_TRUE(gemm_->Run(args, choice, cuda_stream()).ok());
      const std::vector<float> actual = DownloadTensor(out.tensor);
      const auto is_near = [&](int64_t i, const Products& products, double share) {
        const double sum = products.sums[i];
        return std::abs(actual[i] - sum) <= share * products.magnitudes[i] +
                                                OutputRounding(dtype) * std::abs(sum) +
                                                SubnormalRounding(dtype) + vanishing;
      };
      for (int64_t i = 0; i < num_rows * n; ++i) {
        if (!rounded.sums.empty() && is_near(i, rounded, kRoundedPrecision)) continue;
        ASSERT_TRUE(is_near(i, expected, precision))
            << "row " << i / n << " column " << i % n << ": " << actual[i] << ", not "
            << expected.sums[i];
      }
      for (int64_t i = num_rows * n; i < (num_rows + 1) * n; ++i) ASSERT_EQ(actual[i], 77.0f);
    });
  }

  std::unique_ptr<Gemm> gemm_;
};

// Rows on both sides of every kernel's size; features that fill no tile, of the second CTA of a
// cluster none; depths of one line and of more lines than a ring has stages, the last one cut off.
TEST_P(QuantizedGemmTest, EveryCandidateMatchesFloat64) {
  constexpr int64_t kMaxRows = 300;
  for (const QuantizedCase& c : QuantizedCases()) {
    for (const auto& [features, columns] :
         {std::pair<int64_t, int64_t>(208, 128), {72, 1280}, {400, 640}, {192, 1000}}) {
      if (c.format.group_columns > 0 && columns % c.format.group_columns != 0 &&
          c.format.value != WeightValue::kFloat8) {
        continue;  // only blocks may be cut off
      }
      const HostWeight host(c.format, features, columns, 7);
      const std::vector<double> values = host.Values();
      const std::vector<float> bias = RandomNormal(features, 3);
      for (const DType dtype : {DType::kBF16, DType::kF16}) {
        if (!Serves(c.format, dtype)) continue;
        const DeviceWeight weight = Load(c, host, dtype);
        const std::vector<float> x = RoundTo(dtype, RandomNormal(kMaxRows * columns, 1, 0.1f));
        const bool is_float8 = c.activations.value == ActivationValue::kFloat8;
        Products rounded;
        if (MayRoundValues(c.format)) {
          const std::vector<float> of_dtype = RoundTo(dtype, {values.begin(), values.end()});
          rounded = Multiply(x, {of_dtype.begin(), of_dtype.end()}, bias, columns);
        }
        const Products expected =
            Multiply(is_float8 ? RoundToFloat8(x, columns) : x, values, bias, columns);
        for (const int64_t num_rows : {1, 8, 9, 17, 64, 65, 128, 129, 300}) {
          SCOPED_TRACE(testing::Message() << c.name << " " << num_rows << " x " << features << " x "
                                          << columns << " " << DTypeName(dtype));
          ExpectCandidates(weight.weight, {x.begin(), x.begin() + num_rows * columns}, num_rows,
                           bias, expected, is_float8 ? kFloat8Precision : 1e-5, rounded);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

// In bfloat16, which has the exponents of float32; without a bias, which would hide small sums.
TEST_P(QuantizedGemmTest, EveryCandidateMatchesFloat64WithExtremeScales) {
  constexpr int64_t kMaxRows = 129, kFeatures = 208, kColumns = 640;
  const std::vector<float> no_bias(kFeatures);
  const std::vector<float> x = RoundTo(DType::kBF16, RandomNormal(kMaxRows * kColumns, 4));
  for (const QuantizedCase& c : QuantizedCases()) {
    if (!Serves(c.format, DType::kBF16)) continue;
    const HostWeight host(c.format, kFeatures, kColumns, 13, ScaleSizes::kExtreme);
    const std::vector<double> values = host.Values();
    const DeviceWeight weight = Load(c, host, DType::kBF16);
    const bool is_float8 = c.activations.value == ActivationValue::kFloat8;
    const Products expected =
        Multiply(is_float8 ? RoundToFloat8(x, kColumns) : x, values, no_bias, kColumns);
    Products rounded;
    if (MayRoundValues(c.format)) {
      const std::vector<float> of_dtype = RoundTo(DType::kBF16, {values.begin(), values.end()});
      rounded = Multiply(x, {of_dtype.begin(), of_dtype.end()}, no_bias, kColumns);
    }
    for (const int64_t num_rows : {1, 9, 64, 65, 129}) {
      SCOPED_TRACE(testing::Message() << c.name << " " << num_rows);
      ExpectCandidates(weight.weight, {x.begin(), x.begin() + num_rows * kColumns}, num_rows,
                       no_bias, expected, is_float8 ? kFloat8Precision : 1e-5, rounded, kVanishing);
      if (HasFatalFailure()) return;
    }
  }
}

// More rows of the weight than the CTAs of a gemv take at once: they take tiles in turn.
TEST_P(QuantizedGemmTest, EveryCandidateMatchesFloat64WithManyFeatures) {
  constexpr int64_t kMaxRows = 8, kFeatures = 9000, kColumns = 256;
  const std::vector<float> bias = RandomNormal(kFeatures, 3);
  const std::vector<float> x = RoundTo(DType::kBF16, RandomNormal(kMaxRows * kColumns, 6, 0.1f));
  for (const QuantizedCase& c : QuantizedCases()) {
    if (!Serves(c.format, DType::kBF16)) continue;
    const HostWeight host(c.format, kFeatures, kColumns, 17);
    const DeviceWeight weight = Load(c, host, DType::kBF16);
    const bool is_float8 = c.activations.value == ActivationValue::kFloat8;
    const Products expected =
        Multiply(is_float8 ? RoundToFloat8(x, kColumns) : x, host.Values(), bias, kColumns);
    for (const int64_t num_rows : {1, 8}) {
      SCOPED_TRACE(testing::Message() << c.name << " " << num_rows);
      ExpectCandidates(weight.weight, {x.begin(), x.begin() + num_rows * kColumns}, num_rows, bias,
                       expected, is_float8 ? kFloat8Precision : 1e-5);
      if (HasFatalFailure()) return;
    }
  }
}

// More rows than there is room for what becomes of them: they are computed in parts. Their number
// is two more than whole tiles of 192 or of 128.
TEST_P(QuantizedGemmTest, EveryCandidateMatchesFloat64WithMoreRowsThanThereIsRoomFor) {
  constexpr int64_t kNumRows = 1540, kFeatures = 64, kColumns = 21504;  // room is for 1,509
  const std::vector<float> bias = RandomNormal(kFeatures, 3);
  const std::vector<float> x = RoundTo(DType::kBF16, RandomNormal(kNumRows * kColumns, 6, 0.1f));
  for (const QuantizedCase& c : QuantizedCases()) {
    if (!Serves(c.format, DType::kBF16) || c.activations.value != ActivationValue::kFloat8)
      continue;
    SCOPED_TRACE(c.name);
    const HostWeight host(c.format, kFeatures, kColumns, 17);
    const DeviceWeight weight = Load(c, host, DType::kBF16);
    ExpectCandidates(weight.weight, x, kNumRows, bias,
                     Multiply(RoundToFloat8(x, kColumns), host.Values(), bias, kColumns),
                     kFloat8Precision);
  }
}

// Each row of x of another size, its numbers of sizes that differ: gemvs multiply integers with x
// times a power of two.
TEST_P(QuantizedGemmTest, EveryCandidateMatchesFloat64WithXOfAllSizes) {
  constexpr int64_t kFeatures = 208, kColumns = 640;
  constexpr int kExponents[] = {-90, -40, -17, 0, 14, 40, 80, 100};
  constexpr auto kNumRows = static_cast<int64_t>(std::size(kExponents));
  const std::vector<float> no_bias(kFeatures);
  std::vector<float> x = RandomNormal(kNumRows * kColumns, 8);
  for (int64_t i = 0; i < kNumRows * kColumns; ++i) {
    x[i] = std::ldexp(x[i], kExponents[i / kColumns] - static_cast<int>(i % 11) * 2);
  }
  x = RoundTo(DType::kBF16, x);
  for (const QuantizedCase& c : QuantizedCases()) {
    if (!Serves(c.format, DType::kBF16)) continue;
    const HostWeight host(c.format, kFeatures, kColumns, 19);
    const DeviceWeight weight = Load(c, host, DType::kBF16);
    const bool is_float8 = c.activations.value == ActivationValue::kFloat8;
    SCOPED_TRACE(c.name);
    ExpectCandidates(
        weight.weight, x, kNumRows, no_bias,
        Multiply(is_float8 ? RoundToFloat8(x, kColumns) : x, host.Values(), no_bias, kColumns),
        is_float8 ? kFloat8Precision : 1e-5);
    if (HasFatalFailure()) return;
  }
}

// Blocks of 128 x 128 have one scale for the neighbours that a kernel adds up with it; a weight
// whose rows have their own is not told from them by its format.
TEST_P(QuantizedGemmTest, BlocksAndRowsOfScalesAreOneFormat) {
  const QuantizedCase c = {"fp8_blocks",
                           {.value = WeightValue::kFloat8, .group_columns = 128},
                           {.value = ActivationValue::kFloat8}};
  if (!Serves(c.format, DType::kBF16)) GTEST_SKIP() << "kept in 16 bits here";
  constexpr int64_t kFeatures = 512, kColumns = 512, kRows = 260;
  HostWeight host(c.format, kFeatures, kColumns, 5);
  for (int64_t row = 0; row < kFeatures; ++row) {
    for (int64_t g = 0; g < host.num_groups; ++g) {
      // The second block of lines keeps a scale for each row.
      if (g != 1)
        host.scales[row * host.num_groups + g] = host.scales[row / 128 * 128 * host.num_groups + g];
    }
  }
  const std::vector<double> values = host.Values();
  const DeviceWeight weight = Load(c, host, DType::kBF16);
  const std::vector<float> x = RoundTo(DType::kBF16, RandomNormal(kRows * kColumns, 1));
  const std::vector<float> bias(kFeatures);
  ExpectCandidates(weight.weight, x, kRows, bias,
                   Multiply(RoundToFloat8(x, kColumns), values, bias, kColumns), kFloat8Precision);
}

// The GPU divides by a reciprocal: that must not be seen, whatever the size of numbers.
TEST_P(QuantizedGemmTest, XBecomesE4m3AsDivisionHasIt) {
  constexpr int64_t kRows = 300, kColumns = 1100;  // the last line is filled up with zeros
  std::vector<float> x = RandomNormal(kRows * kColumns, 5);
  const std::vector<float> exponents = RandomNormal(kRows * kColumns, 6, 35.0f);
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    // Each line has an exponent of its own; in some lines a number is zero.
    const int64_t first = i - i % kColumns % 128;
    const int exponent = std::clamp(static_cast<int>(exponents[first]), -120, 120);
    x[i] = std::abs(x[i]) < 0.02f ? 0 : std::ldexp(x[i], exponent);
  }
  std::fill_n(x.begin(), 128, 0.0f);
  x = RoundTo(DType::kBF16, x);
  const DeviceTensor x_device = UploadTensor(x, DType::kBF16, {kRows, kColumns});
  const DeviceBuffer memory =
      Upload(std::vector<char>(Float8Rows::MaxBytes(kRows, kColumns), '\xff'));
  const Float8Rows rows(kRows, kColumns, memory.data());
  cuda_stream().Run("test", [&](cudaStream_t s) { LaunchQuantizeRows(x_device.tensor, rows, s); });
  const std::vector<char> bytes = Download<char>(memory.data(), memory.size_bytes());
  const auto* const codes = reinterpret_cast<const uint8_t*>(bytes.data());
  const auto* const scales = reinterpret_cast<const float*>(bytes.data() + rows.scales_at());
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t column = 0; column < rows.row_bytes(); ++column) {
      const int64_t line = column / 128, first = line * 128;
      float most = 0;
      for (int64_t i = first; i < std::min(first + 128, kColumns); ++i) {
        most = std::max(most, std::abs(x[row * kColumns + i]));
      }
      const float scale = most / 448;
      const float value = column < kColumns && most > 0 ? x[row * kColumns + column] / scale : 0;
      ASSERT_EQ(scales[line * rows.scale_stride() + row], scale) << row << " " << line;
      ASSERT_EQ(Float8Value(codes[row * rows.row_bytes() + column]),
                static_cast<float>(Float8E4M3(value)))
          << row << " " << column << ": " << value;
    }
  }
}

// What a norm leaves as Float8Rows gives the same bits as what it leaves in 16 bits, and it leaves
// the same of each whether it leaves one of them or both.
TEST_P(QuantizedGemmTest, NormsMakeXAsGemmsDo) {
  for (const QuantizedCase& c : QuantizedCases()) {
    if (c.activations.value != ActivationValue::kFloat8) continue;
    for (const DType dtype : {DType::kBF16, DType::kF16}) {
      if (!Serves(c.format, dtype)) continue;
      // One pack of eight columns for a thread of the norm, or several; more than 512 threads.
      for (const auto& [num_rows, columns] :
           {std::pair<int64_t, int64_t>(1, 256), {7, 4096}, {8, 4352}, {130, 8320}}) {
        SCOPED_TRACE(testing::Message()
                     << c.name << " " << num_rows << " x " << columns << " " << DTypeName(dtype));
        constexpr int64_t kFeatures = 200;
        const HostWeight host(c.format, kFeatures, columns, 7);
        const DeviceWeight weight = Load(c, host, dtype);
        std::vector<float> values = RandomNormal(num_rows * columns, 1);
        std::fill_n(values.begin() + 128, 128, 0.0f);  // a line without a largest number
        const DeviceTensor x = UploadTensor(values, dtype, {num_rows, columns});
        const DeviceTensor norm = UploadTensor(RandomNormal(columns, 2), DType::kF32, {columns});
        const DeviceTensor normed =
            UploadTensor(std::vector<float>(values.size()), dtype, {num_rows, columns});
        const DeviceBuffer memory =
            Upload(std::vector<char>(Float8Rows::MaxBytes(num_rows, columns), '\xff'));
        const Float8Rows float8(num_rows, columns, memory.data());
        const Tensor rows = float8.tensor();
        const int64_t size_bytes = float8.size_bytes();
        const DeviceTensor out =
            UploadTensor(std::vector<float>(num_rows * kFeatures), dtype, {num_rows, kFeatures});
        RmsNormArgs to = {.x = x.tensor,
                          .weight = norm.tensor,
                          .eps = 1e-5f,
                          .centred = num_rows == 7,
                          .out = {},
                          .float8_out = rows};
        ops().RmsNorm(stream(), to);
        const std::vector<char> float8_alone = Download<char>(rows.data(), size_bytes);
        to.out = normed.tensor;
        Overwrite(memory, std::vector<char>(size_bytes, '\xff'));
        ops().RmsNorm(stream(), to);
        EXPECT_EQ(Download<char>(rows.data(), size_bytes), float8_alone);
        const std::vector<float> with_float8 = DownloadTensor(normed.tensor);
        Overwrite(normed.buffer, std::vector<char>(2 * values.size(), '\xff'));
        to.float8_out = {};
        ops().RmsNorm(stream(), to);
        EXPECT_EQ(DownloadTensor(normed.tensor), with_float8);
        LinearArgs args = {.x = rows, .weight = &weight.weight, .out = out.tensor};
        ForEachCandidate(args, [&](const GemmChoice& choice) {
          args.x = normed.tensor;
          ASSERT_TRUE(gemm_->Run(args, choice, cuda_stream()).ok());
          const std::vector<float> expected = DownloadTensor(out.tensor);
          Overwrite(out.buffer, std::vector<char>(num_rows * kFeatures * 2, '\xff'));
          args.x = rows;
          ASSERT_TRUE(gemm_->Run(args, choice, cuda_stream()).ok());
          ASSERT_EQ(DownloadTensor(out.tensor), expected);
        });
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(QuantizedGemmTest, EveryGatedCandidateIsItsTwoOperations) {
  for (const QuantizedCase& c : QuantizedCases()) {
    if (!Serves(c.format, DType::kBF16)) continue;
    constexpr int64_t kColumns = 384;
    for (const auto& [num_rows, size] :
         {std::pair<int64_t, int64_t>(3, 128), {40, 64}, {100, 320}, {257, 192}}) {
      SCOPED_TRACE(testing::Message() << c.name << " " << num_rows << " x " << size);
      const HostWeight host(c.format, 2 * size, kColumns, 11);
      const DeviceWeight weight = Load(c, host, DType::kBF16);
      const DeviceTensor x = UploadTensor(RandomNormal(num_rows * kColumns, 9, 0.01f), DType::kBF16,
                                          {num_rows, kColumns});
      const DeviceTensor bias = UploadTensor(RandomNormal(2 * size, 10), DType::kF32, {2 * size});
      const DeviceTensor gate_up =
          UploadTensor(std::vector<float>(2 * num_rows * size), DType::kBF16, {num_rows, 2 * size});
      const DeviceTensor out =
          UploadTensor(std::vector<float>(num_rows * size), DType::kBF16, {num_rows, size});
      const GatedLinearArgs args = {
          .x = x.tensor,
          .weight = &weight.weight,
          .bias = bias.tensor,
          .activation = num_rows % 2 == 0 ? Activation::kSilu : Activation::kClampedSwish,
          .gate_up = gate_up.tensor,
          .out = out.tensor};
      ForEachCandidate(args.Linear(), [&](const GemmChoice& choice) {
        ASSERT_TRUE(gemm_->Run(args.Linear(), choice, cuda_stream()).ok());
        ops().GatedActivation(stream(), args.Activate());
        const std::vector<float> expected = DownloadTensor(out.tensor);
        Overwrite(out.buffer, std::vector<char>(num_rows * size * 2, '\xff'));
        ASSERT_TRUE(gemm_->Run(args, choice, cuda_stream()).ok());
        ASSERT_EQ(DownloadTensor(out.tensor), expected);
      });
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, QuantizedGemmTest, testing::ValuesIn(CudaTargets()), TargetName);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(QuantizedGemmTest);

}  // namespace
}  // namespace quire::cuda
