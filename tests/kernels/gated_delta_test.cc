// GatedDelta's values: against the reference and against transformers; what it refuses.
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "tests/kernels/gated_delta_fixture.h"

namespace quire {
namespace {

class GatedDeltaValuesTest : public GatedDeltaTest {
 protected:
  // Runs a step of all tokens except the last `num_decodes`, then a step for each of these.
  void CheckAgainstReference(const GatedDeltaShape& shape, DType dtype, int64_t num_tokens,
                             int64_t num_decodes = 0) {
    SCOPED_TRACE(testing::Message() << DTypeName(dtype) << ", " << num_tokens << " tokens, "
                                    << num_decodes << " decodes, heads " << shape.num_k_heads << "/"
                                    << shape.num_v_heads << " of " << shape.k_head_dim << "/"
                                    << shape.v_head_dim << ", convolution of " << shape.conv_width);
    Use(shape, dtype, 1);
    const Tokens tokens(shape, dtype, num_tokens, 20);
    std::vector<float> out = Step({{&tokens, 0, num_tokens - num_decodes, -1, 0}});
    for (int64_t token = num_tokens - num_decodes; token < num_tokens; ++token) {
      const std::vector<float> next = Step({{&tokens, token, token + 1, 0, 0}});
      out.insert(out.end(), next.begin(), next.end());
    }
    const auto round = [dtype](double value) {
      return static_cast<double>(RoundTo(dtype, {static_cast<float>(value)})[0]);
    };
    reference::GatedDeltaState state(shape);
    const std::vector<double> expected =
        reference::GatedDelta(shape, weights_, tokens.qkvz, tokens.ba, round, &state);
    // Of 16 bits: an input of the rule may be rounded the other way.
    const double tolerance =
        dtype == DType::kF32 ? 1e-4 : std::max(8 * OutputRounding(dtype), TileRounding());
    ExpectNear(out, expected, tolerance, "out");
    const SlotContents slot = Slot(0);
    ExpectNear(slot.conv, state.conv, 0, "inputs");
    ExpectNear(slot.recurrent, state.recurrent, tolerance, "recurrent state");
  }

  // Checks heads whose memory is kept whole or lost at once, rows of zeros, and shut gates.
  void CheckExtremeValues(const GatedDeltaShape& shape, int64_t tokens_per_step) {
    constexpr int64_t kTokens = 20;
    Use(shape, DType::kF32, 1);
    const int64_t num_heads = shape_.num_v_heads;
    weights_.a_log = {-20.0f, 20.0f, 5.0f, 0.0f};
    Tokens tokens(shape_, DType::kF32, kTokens, 90);
    for (int64_t token = 0; token < kTokens; ++token) {
      float* b = tokens.ba.data() + token * 2 * num_heads;
      b[0] = 100, b[1] = -100, b[2] = 0, b[3] = 100;
      b[4] = 100, b[5] = 100, b[6] = -100, b[7] = token % 2 == 0 ? 200 : -200;
      float* u = tokens.qkvz.data() + token * Tokens::RowSize(shape_);
      if (token < 8) std::fill_n(u, shape_.num_channels(), 0.0f);
      if (token > 12) std::fill_n(u + shape_.num_channels(), shape_.v_size(), -200.0f);
    }
    std::vector<float> out;
    for (int64_t token = 0; token < kTokens; token += tokens_per_step) {
      const std::vector<float> next =
          Step({{&tokens, token, token + tokens_per_step, token == 0 ? -1 : 0, 0}});
      out.insert(out.end(), next.begin(), next.end());
    }
    reference::GatedDeltaState state(shape_);
    const std::vector<double> expected = reference::GatedDelta(
        shape_, weights_, tokens.qkvz, tokens.ba, [](double value) { return value; }, &state);
    ExpectNear(out, expected, 1e-4, "out");
    ExpectNear(Slot(0).recurrent, state.recurrent, 1e-5, "recurrent state");
  }
};

TEST_P(GatedDeltaValuesTest, MatchesReference) {
  for (const DType dtype : activation_dtypes()) {
    for (const int64_t num_tokens : {1, 2, 7, 65, 150}) {
      CheckAgainstReference(kSmall, dtype, num_tokens);
    }
  }
}

// Heads as in published models, of all sizes that are not a multiple of a vector or a tile, more v
// heads for each k head, every width of the convolution; more channels than are computed together.
TEST_P(GatedDeltaValuesTest, ShapesMatchReference) {
  for (const DType dtype : activation_dtypes()) {
    CheckAgainstReference({2, 2, 128, 128, 4}, dtype, 9);
    CheckAgainstReference({1, 3, 128, 128, 4}, dtype, 150);
    CheckAgainstReference({1, 1, 128, 128, 3}, dtype, 2500);
    CheckAgainstReference({1, 1, 8, 8, 2}, dtype, 9);
    CheckAgainstReference({3, 9, 24, 72, 3}, dtype, 9);
    CheckAgainstReference({1, 2, 256, 16, 2}, dtype, 9);
    CheckAgainstReference({1, 1, 16, 256, 3}, dtype, 9);
    CheckAgainstReference({5, 10, 56, 88, 4}, dtype, 9);
  }
}

TEST_P(GatedDeltaValuesTest, DecodesMatchReference) {
  for (const DType dtype : activation_dtypes()) {
    CheckAgainstReference(kSmall, dtype, 5, 4);
    CheckAgainstReference({2, 2, 128, 128, 4}, dtype, 9, 8);
    CheckAgainstReference({1, 3, 128, 128, 4}, dtype, 6, 4);
    CheckAgainstReference({1, 1, 128, 128, 3}, dtype, 6, 4);
    CheckAgainstReference({1, 2, 128, 128, 2}, dtype, 4, 3);
    CheckAgainstReference({2, 16, 128, 128, 4}, dtype, 4, 3);
    CheckAgainstReference({1, 9, 128, 128, 4}, dtype, 4, 3);  // more than a cluster has
  }
}

// The values that transformers computes, by chunks of 64 tokens.
TEST_P(GatedDeltaValuesTest, MatchesTransformers) {
  std::ifstream file("tests/kernels/golden/gated_delta.json");
  const auto golden = nlohmann::json::parse(file);
  const auto floats = [&](const char* key) { return golden[key].get<std::vector<float>>(); };
  const auto doubles = [&](const char* key) { return golden[key].get<std::vector<double>>(); };
  Use({golden["num_k_heads"].get<int32_t>(), golden["num_v_heads"].get<int32_t>(),
       golden["k_head_dim"].get<int32_t>(), golden["v_head_dim"].get<int32_t>(),
       golden["conv_width"].get<int32_t>()},
      DType::kF32, 1);
  weights_ = {.conv = floats("conv_weight"),
              .a_log = floats("a_log"),
              .dt_bias = floats("dt_bias"),
              .norm = floats("norm_weight"),
              .norm_eps = golden["norm_eps"].get<float>()};
  Tokens tokens(shape_, DType::kF32, 0, 0);
  tokens.qkvz = floats("qkvz");
  tokens.ba = floats("ba");
  const std::vector<double> out = doubles("out");
  const int64_t num_tokens = golden["num_tokens"].get<int64_t>();
  ExpectNear(Step({{&tokens, 0, num_tokens, -1, 0}}), out, 5e-5, "out");
  ExpectNear(Slot(0).conv, doubles("conv_state"), 0, "inputs");
  ExpectNear(Slot(0).recurrent, doubles("recurrent_state"), 1e-5, "recurrent state");

  reference::GatedDeltaState state(shape_);
  const std::vector<double> expected = reference::GatedDelta(
      shape_, weights_, tokens.qkvz, tokens.ba, [](double value) { return value; }, &state);
  ExpectNear(std::vector<float>(expected.begin(), expected.end()), out, 5e-5, "reference");
}

// Rounded once, where the step ends.
TEST_P(GatedDeltaValuesTest, StatesOf16Bits) {
  if (GetParam().kind == DeviceKind::kCpu) GTEST_SKIP() << "the CPU has float32 only";
  const double rounding = OutputRounding(DType::kBF16);
  for (const GatedDeltaShape& shape : {kSmall, kHeads128}) {
    for (const int64_t end : {66, 70}) {  // a decode, or more
      const Tokens tokens(shape, DType::kF32, end, 86);
      state_dtype_ = DType::kF32;
      Use(shape, DType::kF32, 1);
      const std::vector<float> out = Step({{&tokens, 0, 65, -1, 0}});
      const std::vector<float> state = Slot(0).recurrent;
      const std::vector<float> next = Step({{&tokens, 65, end, 0, 0}});
      state_dtype_ = DType::kBF16;
      Use(shape, DType::kF32, 1);
      ExpectSame(Step({{&tokens, 0, 65, -1, 0}}), out, "out");
      ExpectNear(Slot(0).recurrent, {state.begin(), state.end()}, rounding, "recurrent state");
      ExpectNear(Step({{&tokens, 65, end, 0, 0}}), {next.begin(), next.end()}, 8 * rounding,
                 "next");
    }
  }
}

TEST_P(GatedDeltaValuesTest, ExtremeValuesStayFinite) {
  for (const GatedDeltaShape& shape : {kSmall, kHeads128}) {
    for (const int64_t tokens_per_step : {20, 1}) CheckExtremeValues(shape, tokens_per_step);
  }
}

using GatedDeltaDeathTest = GatedDeltaTest;

TEST_P(GatedDeltaDeathTest, RefusesWhatDoesNotFit) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  std::vector<float> memory(4096);
  const auto tensor = [&](std::initializer_list<int64_t> shape, DType dtype = DType::kF32) {
    return Tensor(memory.data(), dtype, shape);
  };
  const auto args_of = [&](const GatedDeltaShape& shape) {
    const int64_t channels = shape.num_channels(), v_size = shape.v_size();
    return GatedDeltaArgs{.shape = shape,
                          .qkvz = tensor({2, channels + v_size}),
                          .ba = tensor({2, 2 * shape.num_v_heads}),
                          .conv_weight = tensor({channels, shape.conv_width}),
                          .a_log = tensor({shape.num_v_heads}),
                          .dt_bias = tensor({shape.num_v_heads}),
                          .norm_weight = tensor({shape.v_head_dim}),
                          .norm_eps = 1e-6f,
                          .state = {.conv = memory.data(),
                                    .recurrent = memory.data(),
                                    .conv_stride_bytes = 4096,
                                    .recurrent_stride_bytes = 4096},
                          .batch = {},
                          .conv_out = tensor({2, channels}),
                          .out = tensor({2, v_size})};
  };
  const auto run = [&](const GatedDeltaArgs& args) { ops().GatedDelta(stream(), args); };
  EXPECT_DEATH(run(args_of({2, 3, 8, 8, 4})), "v heads of each k head");
  EXPECT_DEATH(run(args_of({1, 1, 12, 8, 4})), "head size 12");
  EXPECT_DEATH(run(args_of({1, 1, 8, 264, 4})), "head size 264");
  EXPECT_DEATH(run(args_of({1, 1, 8, 8, 5})), "convolution of 5");
  GatedDeltaArgs args = args_of({1, 1, 8, 8, 4});
  args.state.recurrent_stride_bytes = 252;
  EXPECT_DEATH(run(args), "252 vs 256");
  args = args_of({1, 1, 8, 8, 4});
  args.a_log = tensor({1}, DType::kBF16);
  EXPECT_DEATH(run(args), "bfloat16, not float32");
  if (GetParam().kind != DeviceKind::kCpu) return;
  args = args_of({1, 1, 8, 8, 4});
  args.state.dtype = DType::kBF16;
  EXPECT_DEATH(run(args), "the CPU keeps recurrent states in float32, not bfloat16");
  const std::vector<int32_t> cu_seqlens = {0, 2};
  const StateAccess sequence = {.read = -1, .write = 0, .first_snapshot = 0, .num_snapshots = 0};
  args = args_of({1, 1, 8, 8, 4});
  args.batch.num_seqs = 1;
  args.batch.cu_seqlens_q = cu_seqlens.data();
  args.batch.sequences = &sequence;
  EXPECT_DEATH(
      {
        run(args);
        Synchronize();
      },
      "0 vs 96");  // of room: 2 tokens of 12 floats
}

INSTANTIATE_TEST_SUITE_P(Targets, GatedDeltaValuesTest, testing::ValuesIn(KernelTargets()),
                         TargetName);
INSTANTIATE_TEST_SUITE_P(Targets, GatedDeltaDeathTest, testing::ValuesIn(KernelTargets()),
                         TargetName);

}  // namespace
}  // namespace quire
