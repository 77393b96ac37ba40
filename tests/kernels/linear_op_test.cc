// Weights and Linear through the doors, on every backend: loading, random filling, reading back
// through Embedding, gemms against plain loops.
#include <thread>
#include <vector>

#include "kernels/base/random_weight.h"
#include "tests/kernels/kernel_test.h"
#include "tests/reference/linear.h"

namespace quire {
namespace {

// The types that files of weights hold.
constexpr DType kFileDTypes[] = {DType::kF32, DType::kBF16, DType::kF16};

struct DeviceWeight {
  DeviceBuffer buffer;
  LinearWeight weight;
};

// Host rows in some dtype of a checkpoint.
struct HostRows {
  std::vector<char> bytes;
  Tensor tensor;

  HostRows(const std::vector<float>& values, DType dtype, int64_t rows, int64_t cols)
      : bytes(BytesOf(dtype, values)), tensor(bytes.data(), dtype, {rows, cols}) {}
};

class LinearOpTest : public KernelTest {
 protected:
  // Memory that is all NaN first: padding must be harmless.
  DeviceWeight MakeWeight(DType dtype, int64_t out_features, int64_t in_features) {
    LinearWeight weight{.dtype = dtype, .out_features = out_features, .in_features = in_features};
    DeviceWeight result{.buffer = Upload(std::vector<char>(weight_store().BytesOf(weight), '\xff')),
                        .weight = {}};
    weight.data = result.buffer.data();
    result.weight = weight;
    return result;
  }

  DeviceWeight LoadWeight(const std::vector<float>& values, DType dtype, int64_t out_features,
                          int64_t in_features) {
    DeviceWeight result = MakeWeight(dtype, out_features, in_features);
    const HostRows rows(values, DType::kF32, out_features, in_features);
    EXPECT_TRUE(LoadRows(weight_store(), result.weight, 0, rows.tensor).ok());
    return result;
  }

  // The whole weight, row-major.
  std::vector<float> ReadBack(const LinearWeight& weight) {
    std::vector<int32_t> ids(weight.out_features);
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i);
    const DeviceBuffer ids_device = Upload(ids);
    const DeviceTensor out =
        UploadTensor(std::vector<float>(weight.out_features * weight.in_features, -1.0f),
                     weight.dtype, {weight.out_features, weight.in_features});
    ops().Embedding(stream(), {.input_ids = ids_device.as<int32_t>(),
                               .row_last_token = nullptr,
                               .table = &weight,
                               .out = out.tensor});
    return DownloadTensor(out.tensor);
  }

  struct Case {
    int64_t m, n, k;
    DType dtype, out_dtype;
    bool bias = false;
  };

  // Float32 sums in any order, in the rounding of a tensor core; one rounding to the output's dtype
  // before and one after a bias is added.
  void ExpectMatchesReference(const Case& c) {
    SCOPED_TRACE(testing::Message()
                 << "m " << c.m << " n " << c.n << " k " << c.k << " " << DTypeName(c.dtype)
                 << " to " << DTypeName(c.out_dtype) << " bias " << c.bias);
    const auto x = RoundTo(c.dtype, RandomNormal(c.m * c.k, 1));
    const auto weight = RoundTo(c.dtype, RandomNormal(c.n * c.k, 2));
    const auto bias = c.bias ? RandomNormal(c.n, 3) : std::vector<float>();
    const DeviceWeight weight_device = LoadWeight(weight, c.dtype, c.n, c.k);
    const DeviceTensor x_device = UploadTensor(x, c.dtype, {c.m, c.k});
    const DeviceTensor bias_device = UploadTensor(bias, DType::kF32, {c.n});
    const DeviceTensor out =
        UploadTensor(std::vector<float>(c.m * c.n, NAN), c.out_dtype, {c.m, c.n});
    ops().Linear(stream(), {.x = x_device.tensor,
                            .weight = &weight_device.weight,
                            .bias = c.bias ? bias_device.tensor : Tensor(),
                            .out = out.tensor});
    const auto expected = reference::Linear(x, weight, bias, c.m, c.n, c.k);
    const auto actual = DownloadTensor(out.tensor);
    for (int64_t i = 0; i < c.m * c.n; ++i) {
      const double addend = c.bias ? bias[i % c.n] : 0.0;
      const double rounded = std::abs(expected.out[i]) + std::abs(expected.out[i] - addend);
      const double tolerance = (c.k + 2) * 0x1p-22 * expected.magnitude[i] +
                               OutputRounding(c.out_dtype) * rounded +
                               2 * SubnormalRounding(c.out_dtype) + 1e-30;
      ASSERT_NEAR(actual[i], expected.out[i], tolerance)
          << "row " << i / c.n << " column " << i % c.n;
    }
  }

  // Tuned, then captured: the choice is not made on the way, and is a correct one.
  void ExpectTunedIsCapturedAndReplayed(DType dtype) {
    const int64_t n = 200, k = 264, num_weights = 3;
    std::vector<std::vector<float>> values;
    std::vector<DeviceWeight> weights;
    LinearGroup group = {.out_dtype = dtype, .max_num_rows = 40};
    for (int64_t i = 0; i < num_weights; ++i) {
      values.push_back(RoundTo(dtype, RandomNormal(n * k, 20 + i)));
      weights.push_back(LoadWeight(values.back(), dtype, n, k));
    }
    for (const DeviceWeight& weight : weights) group.weights.push_back(&weight.weight);
    const std::vector<LinearGroup> groups = {group};
    ASSERT_TRUE(weight_store().Tune(stream(), groups, nullptr).ok());
    for (int64_t m : {1, 7, 16, 33}) {
      const DeviceTensor x = UploadTensor(std::vector<float>(m * k), dtype, {m, k});
      const DeviceTensor out = UploadTensor(std::vector<float>(m * n), dtype, {m, n});
      stream().BeginCapture();
      ops().Linear(stream(), {.x = x.tensor, .weight = &weights[1].weight, .out = out.tensor});
      const auto graph = stream().EndCapture();
      ASSERT_TRUE(graph.ok()) << graph.status();
      for (uint32_t replay = 0; replay < 2; ++replay) {
        const auto x_values = RoundTo(dtype, RandomNormal(m * k, 30 + replay));
        Overwrite(x.buffer, BytesOf(dtype, x_values));
        stream().Launch(**graph);
        const auto expected = reference::Linear(x_values, values[1], {}, m, n, k);
        const auto actual = DownloadTensor(out.tensor);
        for (int64_t i = 0; i < m * n; ++i) {
          ASSERT_NEAR(actual[i], expected.out[i],
                      (k + 2) * 0x1p-22 * expected.magnitude[i] +
                          OutputRounding(dtype) * std::abs(expected.out[i]))
              << m << " rows, element " << i;
        }
      }
    }
  }
};

// The embedding is a weight's row; ~row stands for a row's last sampled token.
TEST_P(LinearOpTest, EmbeddingLooksUpRowsOfAWeight) {
  for (const DType dtype : activation_dtypes()) {
    for (const int64_t hidden_size : {8, 27, 264}) {
      SCOPED_TRACE(testing::Message() << DTypeName(dtype) << " " << hidden_size);
      constexpr int64_t kVocabSize = 70;
      const auto values = RoundTo(dtype, RandomNormal(kVocabSize * hidden_size, 3));
      const DeviceWeight table = LoadWeight(values, dtype, kVocabSize, hidden_size);
      const std::vector<int32_t> last_tokens = {5, 69, 0};
      const std::vector<int32_t> ids = {0, 69, ~1, 33, ~2, ~0, 33};
      const std::vector<int32_t> tokens = {0, 69, 69, 33, 0, 5, 33};
      const DeviceBuffer device_last = Upload(last_tokens);
      const DeviceBuffer device_ids = Upload(ids);
      const auto num_tokens = static_cast<int64_t>(ids.size());
      const DeviceTensor out = UploadTensor(std::vector<float>(num_tokens * hidden_size), dtype,
                                            {num_tokens, hidden_size});
      ops().Embedding(stream(), {.input_ids = device_ids.as<int32_t>(),
                                 .row_last_token = device_last.as<int32_t>(),
                                 .table = &table.weight,
                                 .out = out.tensor});
      const std::vector<float> actual = DownloadTensor(out.tensor);
      for (int64_t i = 0; i < num_tokens * hidden_size; ++i) {
        ASSERT_EQ(actual[i], values[tokens[i / hidden_size] * hidden_size + i % hidden_size]);
      }
    }
  }
}

TEST_P(LinearOpTest, MatchesReference) {
  for (DType dtype : activation_dtypes()) {
    for (int64_t m : {1, 5, 33, 129}) {
      for (auto [n, k] : {std::pair(64, 64), {96, 1000}, {17, 33}, {512, 256}, {1, 1}}) {
        ExpectMatchesReference({.m = m, .n = n, .k = k, .dtype = dtype, .out_dtype = dtype});
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Every number of rows that has a way of its own to be computed, and one more.
TEST_P(LinearOpTest, MatchesReferenceForFewRows) {
  for (DType dtype : half_dtypes()) {
    for (int64_t m = 1; m <= 17; ++m) {
      for (auto [n, k] : {std::pair(75, 520), {8, 1032}, {130, 72}}) {
        for (DType out_dtype : {dtype, DType::kF32}) {
          ExpectMatchesReference(
              {.m = m, .n = n, .k = k, .dtype = dtype, .out_dtype = out_dtype, .bias = m % 2 == 0});
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_P(LinearOpTest, HalfDTypesToFloat32) {
  for (DType dtype : half_dtypes()) {
    for (int64_t m : {9, 40}) {
      ExpectMatchesReference({.m = m, .n = 80, .k = 64, .dtype = dtype, .out_dtype = DType::kF32});
    }
  }
}

TEST_P(LinearOpTest, AddsAFloat32Bias) {
  for (DType dtype : activation_dtypes()) {
    for (DType out_dtype : {dtype, DType::kF32}) {
      ExpectMatchesReference(
          {.m = 6, .n = 72, .k = 64, .dtype = dtype, .out_dtype = out_dtype, .bias = true});
    }
  }
}

TEST_P(LinearOpTest, NoRowsIsNothingToDo) {
  const DeviceWeight weight = LoadWeight(RandomNormal(64, 1), DType::kF32, 8, 8);
  const DeviceTensor empty = UploadTensor({}, DType::kF32, {0, 8});
  ops().Linear(stream(), {.x = empty.tensor, .weight = &weight.weight, .out = empty.tensor});
  Synchronize();
}

TEST_P(LinearOpTest, ReadsAndWritesColumnSlices) {
  std::vector<std::pair<DType, int64_t>> cases = {{DType::kF32, 20}};
  for (DType dtype : half_dtypes()) {
    cases.insert(cases.end(), {{dtype, 3}, {dtype, 12}, {dtype, 20}});
  }
  for (auto [dtype, m] : cases) {
    const int64_t n = 64, k = 32, x_stride = 48, out_stride = 96;
    const auto wide = RoundTo(dtype, RandomNormal(m * x_stride, 4));
    const auto weight = RoundTo(dtype, RandomNormal(n * k, 5));
    const DeviceWeight weight_device = LoadWeight(weight, dtype, n, k);
    const DeviceTensor x = UploadTensor(wide, dtype, {m, x_stride});
    const DeviceTensor out =
        UploadTensor(std::vector<float>(m * out_stride, 77.0f), dtype, {m, out_stride});
    ops().Linear(stream(),
                 {.x = Tensor(x.buffer.data(), dtype, {m, k}).WithRowStride(x_stride),
                  .weight = &weight_device.weight,
                  .out = Tensor(out.buffer.data(), dtype, {m, n}).WithRowStride(out_stride)});
    std::vector<float> narrow;
    for (int64_t r = 0; r < m; ++r) {
      narrow.insert(narrow.end(), wide.begin() + r * x_stride, wide.begin() + r * x_stride + k);
    }
    const auto expected = reference::Linear(narrow, weight, {}, m, n, k);
    const auto actual = DownloadTensor(out.tensor);
    for (int64_t i = 0; i < m * out_stride; ++i) {
      const int64_t r = i / out_stride, c = i % out_stride;
      if (c >= n) {
        ASSERT_EQ(actual[i], 77.0f);
      } else {
        ASSERT_NEAR(actual[i], expected.out[r * n + c],
                    2 * OutputRounding(dtype) * std::abs(expected.out[r * n + c]) + 1e-4);
      }
    }
  }
}

TEST_P(LinearOpTest, LoadsAndConvertsRows) {
  const int64_t rows = 70, cols = 37;
  const auto values = RandomNormal(rows * cols, 6);
  for (DType dtype : activation_dtypes()) {
    for (DType source : kFileDTypes) {
      DeviceWeight weight = MakeWeight(dtype, rows, cols);
      const HostRows host(values, source, rows, cols);
      for (auto [begin, end] : {std::pair<int64_t, int64_t>(50, 70), {0, 1}, {1, 50}}) {
        const Tensor part(
            static_cast<char*>(host.tensor.data()) + begin * cols * DTypeBytes(source), source,
            {end - begin, cols});
        ASSERT_TRUE(LoadRows(weight_store(), weight.weight, begin, part).ok());
      }
      EXPECT_EQ(ReadBack(weight.weight), RoundTo(dtype, RoundTo(source, values)));
    }
  }
}

// A weight that is a range of a file's rows and columns, as one rank of several has it.
TEST_P(LinearOpTest, LoadsARangeOfColumns) {
  const int64_t rows = 33, file_cols = 150, cols = 70, first_col = 41;
  const auto values = RandomNormal(rows * file_cols, 9);
  for (DType dtype : activation_dtypes()) {
    for (DType source : kFileDTypes) {
      DeviceWeight weight = MakeWeight(dtype, rows, cols);
      const HostRows host(values, source, rows, file_cols);
      const int64_t element_bytes = DTypeBytes(source);
      auto loader = weight_store().CreateLoader(rows * file_cols * int64_t{sizeof(float)});
      ASSERT_TRUE(loader.ok()) << loader.status();
      for (auto [begin, end] : {std::pair<int64_t, int64_t>(0, 20), {20, 33}}) {
        auto* const staging = static_cast<char*>((*loader)->Staging().value());
        std::memcpy(
            staging,
            static_cast<const char*>(host.tensor.data()) + begin * file_cols * element_bytes,
            (end - begin) * file_cols * element_bytes);
        const Tensor part = Tensor(staging + first_col * element_bytes, source, {end - begin, cols})
                                .WithRowStride(file_cols);
        ASSERT_TRUE((*loader)->Load(weight.weight, begin, part).ok());
      }
      ASSERT_TRUE((*loader)->Finish().ok());
      std::vector<float> expected;
      for (int64_t row = 0; row < rows; ++row) {
        const auto first = values.begin() + row * file_cols + first_col;
        expected.insert(expected.end(), first, first + cols);
      }
      EXPECT_EQ(ReadBack(weight.weight), RoundTo(dtype, RoundTo(source, expected)));
    }
  }
}

TEST_P(LinearOpTest, LoadsFloat16) {
  const std::vector<uint16_t> halves = {0x3c00, 0xc000, 0x3555, 0x0001, 0x7bff, 0x8000, 0, 0x3800};
  for (DType dtype : activation_dtypes()) {
    DeviceWeight weight = MakeWeight(dtype, 1, 8);
    std::vector<uint16_t> host = halves;
    ASSERT_TRUE(
        LoadRows(weight_store(), weight.weight, 0, Tensor(host.data(), DType::kF16, {1, 8})).ok());
    EXPECT_EQ(ReadBack(weight.weight),
              RoundTo(dtype, {1.0f, -2.0f, 0x1.554p-2f, 0x1p-24f, 65504.0f, -0.0f, 0.0f, 0.5f}));
  }
}

// Many times what the staging memory holds, from several threads.
TEST_P(LinearOpTest, LoadsLargeWeightsFromSeveralThreads) {
  const int64_t rows = 2400, cols = 1024, num_threads = 3, max_rows = 70;
  auto values = RandomNormal(rows * cols, 7);
  for (DType dtype : activation_dtypes()) {
    DeviceWeight weight = MakeWeight(dtype, rows, cols);
    std::vector<std::thread> threads;
    threads.reserve(num_threads);
    for (int64_t t = 0; t < num_threads; ++t) {
      threads.emplace_back([&, t] {
        const int64_t first = t * rows / num_threads;
        const Tensor part(values.data() + first * cols, DType::kF32, {rows / num_threads, cols});
        EXPECT_TRUE(LoadRows(weight_store(), weight.weight, first, part, max_rows).ok());
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(ReadBack(weight.weight), RoundTo(dtype, values));
  }
}

TEST_P(LinearOpTest, RandomWeightsAreTheSameOnEveryBackend) {
  for (DType dtype : activation_dtypes()) {
    for (int64_t cols : {40, 37}) {
      const int64_t rows = 70;
      const DeviceWeight weight = MakeWeight(dtype, rows, cols);
      weight_store().Fill(stream(), weight.weight, {.seed = 5, .tensor_id = 7, .stddev = 0.25f});
      const float scale = RandomWeightScale(0.25f);
      std::vector<float> expected;
      for (int64_t row = 0; row < rows; ++row) {
        const uint64_t key = RandomRowKey(5, 7, row);
        for (int64_t col = 0; col < cols; ++col) {
          expected.push_back(static_cast<float>(RandomByteSum(key, col)) * scale);
        }
      }
      EXPECT_EQ(ReadBack(weight.weight), RoundTo(dtype, expected));
    }
  }
}

// Embedding, then Linear; replayed with other ids at the same address.
TEST_P(LinearOpTest, ACapturedStepReadsTheContentsOfTheDay) {
  const int64_t size = 8;
  std::vector<float> values(size * size);  // out[n] = (n + 1) * x[n]
  for (int64_t n = 0; n < size; ++n) values[n * size + n] = static_cast<float>(n + 1);
  const DeviceWeight weight = LoadWeight(values, DType::kF32, size, size);
  const DeviceBuffer ids = Upload(std::vector<int32_t>{0, 3});
  const DeviceBuffer last = Upload(std::vector<int32_t>{2});
  const DeviceTensor hidden = UploadTensor(std::vector<float>(2 * size), DType::kF32, {2, size});
  const DeviceTensor out = UploadTensor(std::vector<float>(2 * size), DType::kF32, {2, size});
  const auto expect = [&](int64_t first, int64_t second) {
    std::vector<float> expected(2 * size);
    expected[first] = static_cast<float>((first + 1) * (first + 1));
    expected[size + second] = static_cast<float>((second + 1) * (second + 1));
    EXPECT_EQ(DownloadTensor(out.tensor), expected);
  };
  stream().BeginCapture();
  ops().Embedding(stream(), {.input_ids = ids.as<int32_t>(),
                             .row_last_token = last.as<int32_t>(),
                             .table = &weight.weight,
                             .out = hidden.tensor});
  ops().Linear(stream(), {.x = hidden.tensor, .weight = &weight.weight, .out = out.tensor});
  const auto graph = stream().EndCapture();
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(DownloadTensor(out.tensor), std::vector<float>(2 * size));  // nothing ran
  stream().Launch(**graph);
  expect(0, 3);
  Overwrite(ids, std::vector<int32_t>{~0, 1});
  stream().Launch(**graph);
  expect(2, 1);
}

// Whether or not the two operations are one.
TEST_P(LinearOpTest, GatedLinearIsLinearAndThenGatedActivation) {
  for (DType dtype : activation_dtypes()) {
    for (int64_t m : {1, 3, 8, 11, 16, 18}) {
      const int64_t size = 44, k = 328;
      const DeviceWeight weight =
          LoadWeight(RandomNormal(2 * size * k, 8, 0.1f), dtype, 2 * size, k);
      const DeviceTensor x = UploadTensor(RandomNormal(m * k, 9), dtype, {m, k});
      const DeviceTensor bias = UploadTensor(RandomNormal(2 * size, 10), DType::kF32, {2 * size});
      const DeviceTensor gate_up =
          UploadTensor(std::vector<float>(2 * m * size, NAN), dtype, {m, 2 * size});
      const DeviceTensor out = UploadTensor(std::vector<float>(m * size, NAN), dtype, {m, size});
      for (Activation activation :
           {Activation::kSilu, Activation::kGeluTanh, Activation::kClampedSwish}) {
        for (const Tensor& added : {Tensor(), bias.tensor}) {
          const GatedLinearArgs args = {.x = x.tensor,
                                        .weight = &weight.weight,
                                        .bias = added,
                                        .activation = activation,
                                        .gate_up = gate_up.tensor,
                                        .out = out.tensor};
          ops().Linear(stream(), args.Linear());
          ops().GatedActivation(stream(), args.Activate());
          const auto expected = DownloadTensor(out.tensor);
          Overwrite(out.buffer, std::vector<char>(m * size * DTypeBytes(dtype), '\xff'));
          ops().GatedLinear(stream(), args);
          EXPECT_EQ(DownloadTensor(out.tensor), expected) << m << " rows " << DTypeName(dtype);
        }
      }
    }
  }
}

TEST_P(LinearOpTest, ATunedLinearIsCapturedAndReplayed) {
  for (DType dtype : half_dtypes()) {
    SCOPED_TRACE(DTypeName(dtype));
    ExpectTunedIsCapturedAndReplayed(dtype);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, LinearOpTest, testing::ValuesIn(KernelTargets()), TargetName);

}  // namespace
}  // namespace quire
