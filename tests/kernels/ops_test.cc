// CpuOps: operations are checked when called, run on the stream, and can be captured.
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "tests/kernels/load_rows.h"

namespace quire {
namespace {

using testing::HasSubstr;

class OpsTest : public testing::Test {
 protected:
  OpsTest()
      : backend_(*OpenBackend({.num_threads = 2})),
        ops_(backend_->ops()),
        store_(backend_->weight_store()),
        stream_(*backend_->device().CreateStream()) {}

  // A weight whose feature n is the n-th unit vector, times n + 1: out[n] = (n + 1) * x[n].
  LinearWeight Scaling(int64_t size) {
    LinearWeight weight{.dtype = DType::kF32, .out_features = size, .in_features = size};
    memory_ = *backend_->device().Allocate(store_.BytesOf(weight));
    weight.data = memory_.data();
    std::vector<float> rows(size * size);
    for (int64_t n = 0; n < size; ++n) rows[n * size + n] = static_cast<float>(n + 1);
    EXPECT_TRUE(LoadRows(store_, weight, 0, Tensor(rows.data(), DType::kF32, {size, size})).ok());
    return weight;
  }
  static Tensor Matrix(std::vector<float>& values, int64_t rows) {
    return Tensor(values.data(), DType::kF32, {rows, static_cast<int64_t>(values.size()) / rows});
  }

  std::unique_ptr<Backend> backend_;
  Ops& ops_;
  WeightStore& store_;
  std::unique_ptr<Stream> stream_;
  DeviceBuffer memory_;
};

TEST_F(OpsTest, LinearThroughTheStream) {
  const LinearWeight weight = Scaling(3);
  std::vector<float> x = {1, 2, 3, 4, 5, 6}, bias = {10, 0, 0}, out(6);
  ops_.Linear(*stream_, {.x = Matrix(x, 2),
                         .weight = &weight,
                         .bias = Tensor(bias.data(), DType::kF32, {3}),
                         .out = Matrix(out, 2)});
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_EQ(out, (std::vector<float>{11, 4, 9, 14, 10, 18}));
}

TEST_F(OpsTest, FillLinearThroughTheStream) {
  const LinearWeight weight = Scaling(2);
  store_.Fill(*stream_, weight, {.seed = 1, .tensor_id = 2, .stddev = 0.0f});
  std::vector<float> x = {1, 1}, out = {7, 7};
  ops_.Linear(*stream_, {.x = Matrix(x, 1), .weight = &weight, .out = Matrix(out, 1)});
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_EQ(out, (std::vector<float>{0, 0}));
}

// Embedding, then Linear; replayed with other ids at the same address.
TEST_F(OpsTest, ACapturedStepReadsTheContentsOfTheDay) {
  const LinearWeight table = Scaling(4);
  std::vector<int32_t> ids = {0, 3}, row_last_token = {2};
  std::vector<float> hidden(8), out(8);
  stream_->BeginCapture();
  ops_.Embedding(*stream_, {.input_ids = ids.data(),
                            .row_last_token = row_last_token.data(),
                            .table = &table,
                            .out = Matrix(hidden, 2)});
  ops_.Linear(*stream_, {.x = Matrix(hidden, 2), .weight = &table, .out = Matrix(out, 2)});
  auto graph = stream_->EndCapture();
  ASSERT_TRUE(graph.ok());
  stream_->Launch(**graph);
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_EQ(out, (std::vector<float>{1, 0, 0, 0, 0, 0, 0, 16}));
  ids = {~0, 1};
  stream_->Launch(**graph);
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_EQ(out, (std::vector<float>{0, 0, 9, 0, 0, 4, 0, 0}));
}

TEST_F(OpsTest, LoadingChecksTheFile) {
  const LinearWeight weight = Scaling(3);
  std::vector<float> values(12);
  const auto loader = *store_.CreateLoader(64);
  const auto error = [&](int64_t first_row, const Tensor& rows) {
    EXPECT_TRUE(loader->Staging().ok());
    const absl::Status status = loader->Load(weight, first_row, rows);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(error(0, Matrix(values, 4)), HasSubstr("rows 0 to 4 are outside the 3"));
  EXPECT_THAT(error(2, Tensor(values.data(), DType::kF32, {2, 3})), HasSubstr("rows 2 to 4"));
  EXPECT_THAT(error(-1, Tensor(values.data(), DType::kF32, {1, 3})), HasSubstr("rows -1 to 0"));
  EXPECT_THAT(error(0, Matrix(values, 3)), HasSubstr("4 columns"));
  EXPECT_THAT(error(0, Tensor(values.data(), DType::kI32, {1, 3})), HasSubstr("int32"));
  EXPECT_THAT(error(0, Tensor(values.data(), DType::kF32, {3})), HasSubstr("rank 1"));
}

using OpsDeathTest = OpsTest;

TEST_F(OpsDeathTest, ShapesThatDoNotFitAreRefusedAtTheCall) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const LinearWeight weight = Scaling(3);
  std::vector<float> x(4), out(6);
  EXPECT_DEATH(ops_.Linear(*stream_, {.x = Matrix(x, 2), .weight = &weight, .out = Matrix(out, 2)}),
               "2 vs 3");
  EXPECT_DEATH(ops_.Linear(*stream_, {.x = Tensor(out.data(), DType::kBF16, {2, 3}),
                                      .weight = &weight,
                                      .out = Matrix(out, 2)}),
               "bfloat16, not float32");
}

TEST_F(OpsDeathTest, ANormWithoutAnOutputIsRefusedAtTheCall) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  std::vector<float> x(4);
  const Tensor weight(x.data(), DType::kF32, {4});
  EXPECT_DEATH(ops_.RmsNorm(*stream_, {.x = Matrix(x, 1), .weight = weight, .eps = 1e-6f}),
               "float8_out");
}

// The head operations' strides and pairs could reach outside of a row or of a head.
TEST_F(OpsDeathTest, HeadsThatDoNotFitAreRefusedAtTheCall) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  std::vector<float> x(24), cache(64), table(8), weight(8);
  const HeadsArgs heads = {.num_heads = 1, .first = 0, .stride = 8, .rotate = true};
  const auto run = [&](void (*change)(StoreHeadsArgs&)) {
    StoreHeadsArgs args = {
        .x = Matrix(x, 1),
        .q = heads,
        .k = heads,
        .v = heads,
        .cos_sin = table.data(),
        .num_pairs = 4,
        .pair_distance = 4,
        .positions = nullptr,
        .slot_mapping = nullptr,
        .kv_cache = {.k = {.head_dim = 8}, .v = {.head_dim = 8}, .num_kv_heads = 1},
        .q_out = Tensor(cache.data(), DType::kF32, {1, 1, 8})};
    change(args);
    CheckArgs(args);
  };
  run([](StoreHeadsArgs&) {});
  run([](StoreHeadsArgs& args) { args.k.first = args.v.first = 16; });
  EXPECT_DEATH(run([](StoreHeadsArgs& args) { args.k.first = 17; }), "25 vs 24");
  EXPECT_DEATH(run([](StoreHeadsArgs& args) { args.v.first = -1; }), "-1 vs 0");
  EXPECT_DEATH(run([](StoreHeadsArgs& args) { args.q.stride = 7; }), "7 vs 8");
  EXPECT_DEATH(run([](StoreHeadsArgs& args) { args.q.num_heads = 2; }), "1 vs 2");
  EXPECT_DEATH(run([](StoreHeadsArgs& args) { args.k.num_heads = 2; }), "num_kv_heads");
  EXPECT_DEATH(run([](StoreHeadsArgs& args) { args.v.num_heads = 0; }), "0 vs 1");
  EXPECT_DEATH(run([](StoreHeadsArgs& args) { args.pair_distance = 3; }), "4 pairs of distance 3");
  EXPECT_DEATH(run([](StoreHeadsArgs& args) { args.pair_distance = 5; }), "4 pairs of distance 5");
  run([](StoreHeadsArgs& args) { args.pair_distance = 1; });
  EXPECT_DEATH(run([](StoreHeadsArgs& args) {
                 args.num_pairs = 5;
                 args.pair_distance = 1;
               }),
               "5 pairs of distance 1");
  EXPECT_DEATH(run([](StoreHeadsArgs& args) { args.cos_sin = nullptr; }), "cos_sin");
  EXPECT_DEATH(run([](StoreHeadsArgs& args) { args.q.norm = HeadNormKind::kWeight; }), "0 vs 1");
  EXPECT_DEATH(CheckArgs(GateArgs{.x = Tensor(cache.data(), DType::kF32, {1, 2, 8}),
                                  .gate = Matrix(x, 1),
                                  .gate_first = 8,
                                  .gate_stride = 16}),
               "32 vs 24");
}

// The CPU's kernels would take them for bfloat16.
TEST_F(OpsDeathTest, Float16IsRefusedAtTheCall) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  constexpr char kWhy[] = "the CPU does not compute in float16";
  std::vector<uint16_t> memory(16);
  const auto tensor = [&](std::initializer_list<int64_t> shape, DType dtype = DType::kF16) {
    return Tensor(memory.data(), dtype, shape);
  };
  const LinearWeight weight = {
      .data = memory.data(), .dtype = DType::kF16, .out_features = 2, .in_features = 2};
  const std::vector<int32_t> ids = {0};
  EXPECT_DEATH(store_.BytesOf(weight), kWhy);
  EXPECT_DEATH(
      ops_.Linear(*stream_, {.x = tensor({1, 2}), .weight = &weight, .out = tensor({1, 2})}), kWhy);
  EXPECT_DEATH(ops_.Embedding(*stream_, {.input_ids = ids.data(),
                                         .row_last_token = nullptr,
                                         .table = &weight,
                                         .out = tensor({1, 2})}),
               kWhy);
  EXPECT_DEATH(ops_.RmsNorm(*stream_, {.x = tensor({1, 4}, DType::kBF16),
                                       .weight = tensor({4}),
                                       .eps = 1e-6f,
                                       .out = tensor({1, 4}, DType::kBF16)}),
               kWhy);
  EXPECT_DEATH(ops_.RmsNorm(*stream_, {.x = tensor({1, 128}, DType::kBF16),
                                       .weight = tensor({128}, DType::kBF16),
                                       .eps = 1e-6f,
                                       .float8_out = tensor({1, 128}, DType::kF8E4M3)}),
               "does not compute in fp8_e4m3");
  EXPECT_DEATH(ops_.GatedActivation(
                   *stream_, {.gate = tensor({1, 2}), .up = tensor({1, 2}), .out = tensor({1, 2})}),
               kWhy);
  EXPECT_DEATH(ops_.Add(*stream_, {.x = tensor({1, 4}), .y = tensor({1, 4})}), kWhy);
  EXPECT_DEATH(ops_.Scale(*stream_, {.x = tensor({1, 4}), .factor = 2}), kWhy);
  EXPECT_DEATH(
      ops_.Gate(*stream_, {.x = tensor({1, 1, 4}), .gate = tensor({1, 4}), .gate_stride = 4}),
      kWhy);
}

}  // namespace
}  // namespace quire
