// The row-wise operations, against plain loops, at sizes around every vector boundary.
#include "tests/reference/elementwise.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "tests/kernels/kernel_test.h"

namespace quire {
namespace {

constexpr int64_t kRowCounts[] = {1, 7, 129};
constexpr int64_t kRowSizes[] = {1, 8, 33, 64, 1000};
constexpr Activation kActivations[] = {Activation::kSilu, Activation::kGeluTanh,
                                       Activation::kClampedSwish};

class ElementwiseTest : public KernelTest {
 protected:
  void CheckRmsNorm(DType dtype, int64_t rows, int64_t size, bool with_residual,
                    bool centred = false) {
    SCOPED_TRACE(testing::Message() << DTypeName(dtype) << " " << rows << "x" << size
                                    << " residual " << with_residual << " centred " << centred);
    std::vector<float> x = RandomNormal(rows * size, 1);
    if (centred) {
      for (float& value : x) value += 2;
    }
    x = RoundTo(dtype, x);
    const auto residual = RoundTo(dtype, RandomNormal(rows * size, 2));
    const auto weight = RoundTo(dtype, RandomNormal(size, 3));
    const DeviceTensor x_device = UploadTensor(x, dtype, {rows, size});
    const DeviceTensor residual_device = UploadTensor(residual, dtype, {rows, size});
    const DeviceTensor weight_device = UploadTensor(weight, dtype, {size});
    ops().RmsNorm(stream(), {.x = x_device.tensor,
                             .residual = with_residual ? residual_device.tensor : Tensor(),
                             .weight = weight_device.tensor,
                             .eps = 1e-5f,
                             .centred = centred,
                             .out = x_device.tensor});
    std::vector<float> sum = x;
    if (with_residual) {
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += residual[i];
      sum = RoundTo(dtype, sum);
      ASSERT_EQ(DownloadTensor(residual_device.tensor), sum);
    }
    std::vector<double> expected;
    for (int64_t row = 0; row < rows; ++row) {
      const std::vector<double> values(sum.begin() + row * size, sum.begin() + (row + 1) * size);
      const auto normal = centred ? reference::LayerNorm(values, weight, 1e-5f)
                                  : reference::RmsNorm(values, weight, 1e-5f);
      expected.insert(expected.end(), normal.begin(), normal.end());
    }
    // A mean is summed in float32, perhaps one by one: that leaves an error in every difference.
    ExpectNear(DownloadTensor(x_device.tensor), expected, dtype, centred ? 1e-5 : 1e-30);
  }

  // float32 arithmetic in a row (1e-6) and one rounding to the dtype.
  static void ExpectNear(const std::vector<float>& actual, const std::vector<double>& expected,
                         DType dtype, double error = 1e-30) {
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      const double tolerance =
          (OutputRounding(dtype) + 1e-6) * std::abs(expected[i]) + SubnormalRounding(dtype) + error;
      ASSERT_NEAR(actual[i], expected[i], tolerance) << "element " << i;
    }
  }
};

TEST_P(ElementwiseTest, RmsNorm) {
  for (DType dtype : activation_dtypes()) {
    for (int64_t rows : kRowCounts) {
      for (int64_t size : kRowSizes) {
        for (bool with_residual : {false, true}) CheckRmsNorm(dtype, rows, size, with_residual);
      }
    }
  }
}

TEST_P(ElementwiseTest, LayerNorm) {
  for (DType dtype : activation_dtypes()) {
    for (int64_t rows : kRowCounts) {
      for (int64_t size : kRowSizes) {
        for (bool with_residual : {false, true}) {
          CheckRmsNorm(dtype, rows, size, with_residual, /*centred=*/true);
        }
      }
    }
  }
}

// A GPU has a kernel for rows that 512 threads hold, that 1,024 do, and that take several turns.
TEST_P(ElementwiseTest, RmsNormOfWideRows) {
  for (int64_t size : {1025, 4095, 4096, 4104, 8200, 16392}) {
    for (bool with_residual : {false, true}) {
      for (bool centred : {false, true}) {
        CheckRmsNorm(DType::kBF16, 2, size, with_residual, centred);
      }
    }
  }
}

TEST_P(ElementwiseTest, RmsNormWeightMayBeFloat32) {
  const auto x = RoundTo(DType::kBF16, RandomNormal(3 * 40, 1));
  const auto weight = RandomNormal(40, 2);
  const DeviceTensor x_device = UploadTensor(x, DType::kBF16, {3, 40});
  const DeviceTensor weight_device = UploadTensor(weight, DType::kF32, {40});
  const DeviceTensor out = UploadTensor(std::vector<float>(3 * 40), DType::kBF16, {3, 40});
  ops().RmsNorm(
      stream(),
      {.x = x_device.tensor, .weight = weight_device.tensor, .eps = 1e-6f, .out = out.tensor});
  std::vector<double> expected;
  for (int64_t row = 0; row < 3; ++row) {
    const auto normal =
        reference::RmsNorm({x.begin() + row * 40, x.begin() + (row + 1) * 40}, weight, 1e-6f);
    expected.insert(expected.end(), normal.begin(), normal.end());
  }
  ExpectNear(DownloadTensor(out.tensor), expected, DType::kBF16);
}

TEST_P(ElementwiseTest, GatedActivations) {
  for (Activation activation : kActivations) {
    for (DType dtype : activation_dtypes()) {
      for (int64_t rows : kRowCounts) {
        for (int64_t size : kRowSizes) {
          SCOPED_TRACE(testing::Message() << static_cast<int>(activation) << " " << DTypeName(dtype)
                                          << " " << rows << "x" << size);
          const auto gate_up = RoundTo(dtype, RandomNormal(rows * 2 * size, 4, 6.0f));
          const DeviceTensor in = UploadTensor(gate_up, dtype, {rows, 2 * size});
          const DeviceTensor out =
              UploadTensor(std::vector<float>(rows * size), dtype, {rows, size});
          ops().GatedActivation(stream(), {.gate = Columns(in.tensor, 0, size),
                                           .up = Columns(in.tensor, size, size),
                                           .activation = activation,
                                           .out = out.tensor});
          std::vector<double> expected;
          for (int64_t row = 0; row < rows; ++row) {
            const auto values = reference::GatedActivation(
                activation,
                {gate_up.begin() + row * 2 * size, gate_up.begin() + (row + 1) * 2 * size});
            expected.insert(expected.end(), values.begin(), values.end());
          }
          // The exponential's argument carries a relative error: 3e-6 at the largest silu gates
          // here, and the more of it the steeper GELU's cubic gets, whose values are then tiny.
          const double argument_error = activation == Activation::kGeluTanh ? 2e-4 : 3e-6;
          const auto actual = DownloadTensor(out.tensor);
          for (size_t i = 0; i < actual.size(); ++i) {
            ASSERT_NEAR(actual[i], expected[i],
                        (OutputRounding(dtype) + argument_error) * std::abs(expected[i]) +
                            SubnormalRounding(dtype) + 1e-9);
          }
        }
      }
    }
  }
}

TEST_P(ElementwiseTest, AGateOrWhatItGatesThatIsNotANumberStaysSo) {
  for (Activation activation : kActivations) {
    for (DType dtype : activation_dtypes()) {
      const DeviceTensor in = UploadTensor({NAN, 9, 9, 9, NAN, -9}, dtype, {1, 6});
      const DeviceTensor out = UploadTensor({0, 0, 0}, dtype, {1, 3});
      ops().GatedActivation(stream(), {.gate = Columns(in.tensor, 0, 3),
                                       .up = Columns(in.tensor, 3, 3),
                                       .activation = activation,
                                       .out = out.tensor});
      const auto actual = DownloadTensor(out.tensor);
      EXPECT_TRUE(std::isnan(actual[0]) && std::isnan(actual[1]) && !std::isnan(actual[2]))
          << static_cast<int>(activation) << " " << DTypeName(dtype) << " " << actual[0] << " "
          << actual[1] << " " << actual[2];
    }
  }
}

TEST_P(ElementwiseTest, ScalesAndSoftCapsInPlace) {
  for (DType dtype : activation_dtypes()) {
    for (int64_t rows : kRowCounts) {
      for (int64_t size : kRowSizes) {
        SCOPED_TRACE(testing::Message() << DTypeName(dtype) << " " << rows << "x" << size);
        const auto values = RoundTo(dtype, RandomNormal(rows * size, 5, 40.0f));
        const DeviceTensor scaled = UploadTensor(values, dtype, {rows, size});
        const DeviceTensor capped = UploadTensor(values, dtype, {rows, size});
        ops().Scale(stream(), {.x = scaled.tensor, .factor = 1.75f});
        ops().SoftCap(stream(), {.x = capped.tensor, .cap = 30.0f});
        const auto actual_scaled = DownloadTensor(scaled.tensor);
        const auto actual_capped = DownloadTensor(capped.tensor);
        for (size_t i = 0; i < values.size(); ++i) {
          const double scaled_value = 1.75 * values[i];
          ASSERT_NEAR(actual_scaled[i], scaled_value,
                      OutputRounding(dtype) * std::abs(scaled_value) + SubnormalRounding(dtype));
          const double capped_value = reference::SoftCap(values[i], 30.0);
          ASSERT_NEAR(actual_capped[i], capped_value,
                      (OutputRounding(dtype) + 1e-6) * std::abs(capped_value) + 1e-5);
        }
      }
    }
  }
}

// The rows of y are columns of a wider matrix, and what lies between them is NaN.
TEST_P(ElementwiseTest, AddsAndScalesInPlace) {
  const DeviceTensor factor = UploadTensor({0.6180339f}, DType::kF32, {1});
  for (DType dtype : activation_dtypes()) {
    for (int64_t rows : kRowCounts) {
      for (int64_t size : kRowSizes) {
        SCOPED_TRACE(testing::Message() << DTypeName(dtype) << " " << rows << "x" << size);
        const int64_t first = 8, row_size = first + size;
        const auto x = RoundTo(dtype, RandomNormal(rows * size, 8, 3.0f));
        const auto y = RoundTo(dtype, RandomNormal(rows * size, 9, 3.0f));
        std::vector<float> y_rows(rows * row_size, std::numeric_limits<float>::quiet_NaN());
        for (int64_t row = 0; row < rows; ++row) {
          std::copy_n(y.begin() + row * size, size, y_rows.begin() + row * row_size + first);
        }
        const DeviceTensor y_device = UploadTensor(y_rows, dtype, {rows, row_size});
        for (const bool with_factor : {false, true}) {
          const DeviceTensor x_device = UploadTensor(x, dtype, {rows, size});
          ops().Add(stream(), {.x = x_device.tensor,
                               .y = Columns(y_device.tensor, first, size),
                               .factor = with_factor ? factor.tensor : Tensor()});
          std::vector<double> expected;
          for (size_t i = 0; i < x.size(); ++i) {
            expected.push_back(reference::Add(x[i], y[i], with_factor ? 0.6180339f : 1.0f));
          }
          // A sum of opposites keeps the error of its summands.
          const auto actual = DownloadTensor(x_device.tensor);
          for (size_t i = 0; i < actual.size(); ++i) {
            ASSERT_NEAR(
                actual[i], expected[i],
                OutputRounding(dtype) * std::abs(expected[i]) + SubnormalRounding(dtype) + 1e-6)
                << "element " << i << ", factor " << with_factor;
          }
        }
      }
    }
  }
}

// Gates stand apart in their rows, and what lies between them is NaN.
TEST_P(ElementwiseTest, Gates) {
  constexpr int64_t kHeads = 3, kFirst = 8;
  for (DType dtype : activation_dtypes()) {
    for (int64_t rows : kRowCounts) {
      for (int64_t dim : kRowSizes) {
        SCOPED_TRACE(testing::Message() << DTypeName(dtype) << " " << rows << "x" << dim);
        const int64_t stride = 2 * dim, row_size = kFirst + kHeads * stride;
        const auto x = RoundTo(dtype, RandomNormal(rows * kHeads * dim, 6, 3.0f));
        const auto gates = RoundTo(dtype, RandomNormal(rows * kHeads * dim, 7, 6.0f));
        std::vector<float> gate_rows(rows * row_size, std::numeric_limits<float>::quiet_NaN());
        for (int64_t head = 0; head < rows * kHeads; ++head) {
          std::copy_n(
              gates.begin() + head * dim, dim,
              gate_rows.begin() + head / kHeads * row_size + kFirst + head % kHeads * stride);
        }
        const DeviceTensor x_device = UploadTensor(x, dtype, {rows, kHeads, dim});
        const DeviceTensor gate_device = UploadTensor(gate_rows, dtype, {rows, row_size});
        ops().Gate(stream(), {.x = x_device.tensor,
                              .gate = gate_device.tensor,
                              .gate_first = kFirst,
                              .gate_stride = stride});
        const auto actual = DownloadTensor(x_device.tensor);
        for (size_t i = 0; i < x.size(); ++i) {
          const double expected = reference::Gate(x[i], gates[i]);
          // The exponential's argument, of up to some 30, carries a relative error.
          ASSERT_NEAR(actual[i], expected,
                      (OutputRounding(dtype) + 4e-6) * std::abs(expected) +
                          SubnormalRounding(dtype) + 1e-30)
              << "element " << i;
        }
      }
    }
  }
}

TEST_P(ElementwiseTest, ExtremeGatesCloseAndOpen) {
  const DeviceTensor x = UploadTensor(std::vector<float>(5, 3.0f), DType::kF32, {1, 1, 5});
  const DeviceTensor gate = UploadTensor({-1e4f, -100.0f, 0.0f, 100.0f, 1e4f}, DType::kF32, {1, 5});
  ops().Gate(stream(), {.x = x.tensor, .gate = gate.tensor, .gate_stride = 5});
  const auto actual = DownloadTensor(x.tensor);
  EXPECT_NEAR(actual[0], 0.0f, 1e-30);
  EXPECT_NEAR(actual[1], 0.0f, 1e-30);
  EXPECT_EQ(actual[2], 1.5f);
  EXPECT_EQ(actual[3], 3.0f);
  EXPECT_EQ(actual[4], 3.0f);
}

// As in PyTorch; in both widths of access.
TEST_P(ElementwiseTest, BeyondTheRangeOfFloat16IsInfinity) {
  const std::vector<DType>& dtypes = activation_dtypes();
  if (std::find(dtypes.begin(), dtypes.end(), DType::kF16) == dtypes.end()) {
    GTEST_SKIP() << "float16 is not computed in here";
  }
  for (int64_t size : {8, 3}) {
    const DeviceTensor x = UploadTensor(std::vector<float>(size, 32768.0f), DType::kF16, {1, size});
    ops().Scale(stream(), {.x = x.tensor, .factor = 1.999f});
    EXPECT_EQ(DownloadTensor(x.tensor), std::vector<float>(size, 65504.0f));
    ops().Scale(stream(), {.x = x.tensor, .factor = -2.0f});
    EXPECT_EQ(DownloadTensor(x.tensor), std::vector<float>(size, -INFINITY));
  }
}

TEST_P(ElementwiseTest, SiluOfExtremeGates) {
  const DeviceTensor in =
      UploadTensor({-1e4f, -100.0f, 0.0f, 100.0f, 1e4f, 1, 1, 1, 1, 1}, DType::kF32, {1, 10});
  const DeviceTensor out = UploadTensor(std::vector<float>(5), DType::kF32, {1, 5});
  ops().GatedActivation(
      stream(),
      {.gate = Columns(in.tensor, 0, 5), .up = Columns(in.tensor, 5, 5), .out = out.tensor});
  const auto actual = DownloadTensor(out.tensor);
  EXPECT_NEAR(actual[0], 0.0f, 1e-30);
  EXPECT_NEAR(actual[1], 0.0f, 1e-30);
  EXPECT_EQ(actual[2], 0.0f);
  EXPECT_EQ(actual[3], 100.0f);
  EXPECT_EQ(actual[4], 1e4f);
}

// A row has the same bits by itself and among 129 others.
TEST_P(ElementwiseTest, RowsAreBatchInvariant) {
  const int64_t rows = 129, size = 1000;
  const auto x = RandomNormal(rows * size, 5);
  const DeviceTensor weight = UploadTensor(RandomNormal(size, 6), DType::kF32, {size});
  const DeviceTensor all = UploadTensor(x, DType::kF32, {rows, size});
  ops().RmsNorm(stream(),
                {.x = all.tensor, .weight = weight.tensor, .eps = 1e-6f, .out = all.tensor});
  const auto together = DownloadTensor(all.tensor);
  for (int64_t row : {0, 64, 128}) {
    const std::vector<float> values(x.begin() + row * size, x.begin() + (row + 1) * size);
    const DeviceTensor one = UploadTensor(values, DType::kF32, {1, size});
    ops().RmsNorm(stream(),
                  {.x = one.tensor, .weight = weight.tensor, .eps = 1e-6f, .out = one.tensor});
    const auto alone = DownloadTensor(one.tensor);
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), together.begin() + row * size));
  }
}

TEST_P(ElementwiseTest, GatherRows) {
  for (DType dtype : activation_dtypes()) {
    const int64_t size = 33;
    const auto in = RoundTo(dtype, RandomNormal(50 * size, 7));
    const std::vector<int32_t> indices = {49, 0, 7, 7, 23};
    const DeviceTensor in_device = UploadTensor(in, dtype, {50, size});
    const DeviceBuffer indices_device = Upload(indices);
    const DeviceTensor out = UploadTensor(std::vector<float>(5 * size), dtype, {5, size});
    ops().GatherRows(
        stream(),
        {.in = in_device.tensor, .indices = indices_device.as<int32_t>(), .out = out.tensor});
    const auto actual = DownloadTensor(out.tensor);
    for (int64_t i = 0; i < 5 * size; ++i) {
      ASSERT_EQ(actual[i], in[indices[i / size] * size + i % size]);
    }
  }
}

TEST_P(ElementwiseTest, UpdateBlockTables) {
  const int64_t max_num_seqs = 3, max_blocks = 4;
  std::vector<int32_t> tables(2 * max_num_seqs * max_blocks, -1);
  const std::vector<BlockTableUpdate> updates = {
      {0, 0, 0, 5}, {1, 2, 3, 9}, {0, 2, 1, 6}, {0, 0, 0, 8}, {0, 0, -1, 7}};
  const DeviceBuffer tables_device = Upload(tables);
  const DeviceBuffer updates_device = Upload(updates);
  ops().UpdateBlockTables(stream(), {.updates = updates_device.as<BlockTableUpdate>(),
                                     .num_updates = 5,
                                     .block_tables = tables_device.as<int32_t>(),
                                     .max_num_seqs = max_num_seqs,
                                     .max_blocks_per_seq = max_blocks});
  tables[0] = 8;  // the later update wins, padding (index -1) writes nothing
  tables[(3 + 2) * 4 + 3] = 9;
  tables[2 * 4 + 1] = 6;
  EXPECT_EQ(Download<int32_t>(tables_device.data(), tables.size()), tables);
}

INSTANTIATE_TEST_SUITE_P(Targets, ElementwiseTest, testing::ValuesIn(KernelTargets()), TargetName);

}  // namespace
}  // namespace quire
