// GatedDelta: against the reference and against transformers; which states it reads and writes; and
// on the CPU, that a token's bits do not depend on cuts, other sequences and threads.
#include "tests/reference/gated_delta.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "tests/kernels/kernel_test.h"

namespace quire {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kUntouched = 77.0f;
constexpr GatedDeltaShape kSmall = {
    .num_k_heads = 2, .num_v_heads = 4, .k_head_dim = 16, .v_head_dim = 40, .conv_width = 4};

// The inputs of a sequence.
struct Tokens {
  std::vector<float> qkvz, ba;

  Tokens(const GatedDeltaShape& shape, DType dtype, int64_t num_tokens, uint32_t seed)
      : qkvz(RoundTo(dtype, RandomNormal(num_tokens * RowSize(shape), seed))),
        ba(RoundTo(dtype, RandomNormal(num_tokens * 2 * shape.num_v_heads, seed + 1, 2.0f))) {}

  static int64_t RowSize(const GatedDeltaShape& shape) {
    return shape.num_channels() + shape.v_size();
  }
};

// Some tokens of a sequence in a step. No tokens to read from: padding.
struct Piece {
  const Tokens* tokens = nullptr;
  int64_t begin = 0;
  int64_t end = 0;
  int32_t read = -1;
  int32_t write = -1;
  std::vector<StateSnapshot> snapshots = {};
};

// What a slot has.
struct SlotContents {
  std::vector<float> conv, recurrent;
};

bool AllNan(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float value) { return std::isnan(value); });
}

void ExpectNear(const std::vector<float>& actual, const std::vector<double>& expected,
                double tolerance, const char* what) {
  ASSERT_EQ(actual.size(), expected.size());
  double worst = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double error = std::abs(actual[i] - expected[i]) / (1 + std::abs(expected[i]));
    if (!(error <= worst)) worst = error;  // NaN is kept
  }
  EXPECT_LE(worst, tolerance) << what;
}

class GatedDeltaTest : public KernelTest {
 protected:
  // Weights, and slots that are all NaN.
  void Use(const GatedDeltaShape& shape, DType dtype, int64_t num_slots) {
    shape_ = shape;
    dtype_ = dtype;
    weights_.conv = RandomNormal(shape.num_channels() * shape.conv_width, 11, 0.5f);
    weights_.a_log = RandomNormal(shape.num_v_heads, 12);
    weights_.dt_bias = RandomNormal(shape.num_v_heads, 13);
    weights_.norm = RandomNormal(shape.v_head_dim, 14);
    num_slots_ = num_slots;
    PoisonSlots();
  }

  // A slot begins behind a gap, which is NaN, too.
  void PoisonSlots() {
    conv_ = UploadTensor(std::vector<float>(num_slots_ * (ConvSize() + kGap), kNan), dtype_,
                         {num_slots_, ConvSize() + kGap});
    recurrent_ = UploadTensor(std::vector<float>(num_slots_ * (RecurrentSize() + kGap), kNan),
                              state_dtype_, {num_slots_, RecurrentSize() + kGap});
  }

  int64_t ConvSize() const { return (shape_.conv_width - 1) * shape_.num_channels(); }
  int64_t RecurrentSize() const { return shape_.v_size() * shape_.k_head_dim; }

  // A step's inputs. Two more tokens are behind the last piece.
  struct Packed {
    std::vector<float> qkvz, ba;
    std::vector<int32_t> cu_seqlens = {0}, seq_lens;
    std::vector<StateAccess> sequences;
    std::vector<StateSnapshot> snapshots;
  };

  Packed Pack(const std::vector<Piece>& pieces) const {
    const int64_t row_size = Tokens::RowSize(shape_), ba_size = 2 * shape_.num_v_heads;
    Packed step;
    for (const Piece& piece : pieces) {
      for (int64_t token = piece.begin; token < piece.end; ++token) {
        for (int64_t i = 0; i < row_size + kGap; ++i) {
          const bool is_value = piece.tokens != nullptr && i < row_size;
          step.qkvz.push_back(is_value ? piece.tokens->qkvz[token * row_size + i] : kNan);
        }
        for (int64_t i = 0; i < ba_size; ++i) {
          step.ba.push_back(piece.tokens != nullptr ? piece.tokens->ba[token * ba_size + i] : kNan);
        }
      }
      step.cu_seqlens.push_back(
          static_cast<int32_t>(step.cu_seqlens.back() + piece.end - piece.begin));
      step.seq_lens.push_back(piece.tokens != nullptr ? static_cast<int32_t>(piece.end) : 0);
      step.sequences.push_back({piece.read, piece.write,
                                static_cast<int32_t>(step.snapshots.size()),
                                static_cast<int32_t>(piece.snapshots.size())});
      step.snapshots.insert(step.snapshots.end(), piece.snapshots.begin(), piece.snapshots.end());
    }
    const int64_t num_tokens = step.cu_seqlens.back() + 2;
    step.qkvz.resize(num_tokens * (row_size + kGap), kNan);
    step.ba.resize(num_tokens * ba_size, kNan);
    return step;
  }

  // The pieces' outputs, one after the other.
  std::vector<float> Step(const std::vector<Piece>& pieces) {
    const Packed step = Pack(pieces);
    const int64_t row_size = Tokens::RowSize(shape_), num_heads = shape_.num_v_heads;
    const int64_t num_tokens = step.cu_seqlens.back() + 2;
    const DeviceTensor qkvz_device = UploadTensor(step.qkvz, dtype_, {num_tokens, row_size + kGap});
    const DeviceTensor ba_device = UploadTensor(step.ba, dtype_, {num_tokens, 2 * num_heads});
    const DeviceTensor conv_weight =
        UploadTensor(weights_.conv, DType::kF32, {shape_.num_channels(), shape_.conv_width});
    const DeviceTensor a_log = UploadTensor(weights_.a_log, DType::kF32, {num_heads});
    const DeviceTensor dt_bias = UploadTensor(weights_.dt_bias, DType::kF32, {num_heads});
    const DeviceTensor norm = UploadTensor(weights_.norm, DType::kF32, {shape_.v_head_dim});
    const DeviceTensor conv_out =
        UploadTensor(std::vector<float>(num_tokens * shape_.num_channels(), kNan), dtype_,
                     {num_tokens, shape_.num_channels()});
    const int64_t room_floats =
        GatedDeltaRoomBytes(shape_, num_tokens, GetParam().kind) / int64_t{sizeof(float)};
    const DeviceTensor room = UploadTensor(std::vector<float>(room_floats, kNan), DType::kF32, {1});
    const DeviceTensor out =
        UploadTensor(std::vector<float>(num_tokens * shape_.v_size(), kUntouched), dtype_,
                     {num_tokens, shape_.v_size()});
    const DeviceBuffer cu_seqlens_device = Upload(step.cu_seqlens),
                       seq_lens_device = Upload(step.seq_lens);
    const DeviceBuffer sequences_device = Upload(step.sequences),
                       snapshots_device = Upload(step.snapshots);
    GatedDeltaArgs args = {.shape = shape_,
                           .qkvz = Tensor(qkvz_device.buffer.data(), dtype_, {num_tokens, row_size})
                                       .WithRowStride(row_size + kGap),
                           .ba = ba_device.tensor,
                           .conv_weight = conv_weight.tensor,
                           .a_log = a_log.tensor,
                           .dt_bias = dt_bias.tensor,
                           .norm_weight = norm.tensor,
                           .norm_eps = weights_.norm_eps,
                           .state = View(),
                           .batch = {.num_seqs = static_cast<int32_t>(pieces.size()),
                                     .num_decodes = 0,
                                     .cu_seqlens_q = cu_seqlens_device.as<int32_t>(),
                                     .seq_lens = seq_lens_device.as<int32_t>(),
                                     .sequences = sequences_device.as<StateAccess>(),
                                     .snapshots = snapshots_device.as<StateSnapshot>()},
                           .conv_out = conv_out.tensor,
                           .out = out.tensor};
    if (room_floats > 0) {
      args.room = Tensor(room.buffer.data(), DType::kU8, {room_floats * int64_t{sizeof(float)}});
    }
    while (args.batch.num_decodes < args.batch.num_seqs &&
           step.cu_seqlens[args.batch.num_decodes + 1] == args.batch.num_decodes + 1) {
      ++args.batch.num_decodes;
    }
    ops().GatedDelta(stream(), args);
    std::vector<float> result = DownloadTensor(out.tensor);
    for (int64_t i = 0; i < 2 * shape_.v_size(); ++i) {
      EXPECT_EQ(result.back(), kUntouched) << "behind the last sequence";
      result.pop_back();
    }
    return result;
  }

  StateView View() const {
    return {.conv = conv_.buffer.data(),
            .recurrent = recurrent_.buffer.data(),
            .conv_stride_bytes = (ConvSize() + kGap) * DTypeBytes(dtype_),
            .recurrent_stride_bytes = (RecurrentSize() + kGap) * DTypeBytes(state_dtype_),
            .dtype = state_dtype_};
  }

  SlotContents Slot(int64_t slot) {
    const std::vector<float> conv = DownloadTensor(conv_.tensor.Rows(slot, 1));
    const std::vector<float> recurrent = DownloadTensor(recurrent_.tensor.Rows(slot, 1));
    EXPECT_TRUE(AllNan({conv.end() - kGap, conv.end()})) << "behind slot " << slot;
    EXPECT_TRUE(AllNan({recurrent.end() - kGap, recurrent.end()})) << "behind slot " << slot;
    return {{conv.begin(), conv.end() - kGap}, {recurrent.begin(), recurrent.end() - kGap}};
  }

  // Bit for bit on the CPU; on a GPU within rounding.
  void ExpectSame(const std::vector<float>& actual, const std::vector<float>& expected,
                  const char* what) {
    if (GetParam().kind == DeviceKind::kCpu) {
      EXPECT_TRUE(actual == expected) << what;
      return;
    }
    const double tolerance = dtype_ == DType::kF32 ? 1e-4 : 4 * OutputRounding(dtype_);
    ExpectNear(actual, std::vector<double>(expected.begin(), expected.end()), tolerance, what);
  }
  void ExpectSameState(int64_t actual, int64_t expected) {
    const SlotContents a = Slot(actual), b = Slot(expected);
    EXPECT_TRUE(a.conv == b.conv) << "inputs in slot " << actual;
    EXPECT_FALSE(AllNan(b.recurrent));
    ExpectSame(a.recurrent, b.recurrent, "recurrent state");
  }
  void ExpectPoisoned(int64_t slot) {
    const SlotContents contents = Slot(slot);
    EXPECT_TRUE(AllNan(contents.conv) && AllNan(contents.recurrent)) << "slot " << slot;
  }

  void CheckAgainstReference(const GatedDeltaShape& shape, DType dtype, int64_t num_tokens) {
    SCOPED_TRACE(testing::Message()
                 << DTypeName(dtype) << ", " << num_tokens << " tokens, heads " << shape.num_k_heads
                 << "/" << shape.num_v_heads << " of " << shape.k_head_dim << "/"
                 << shape.v_head_dim << ", convolution of " << shape.conv_width);
    Use(shape, dtype, 1);
    const Tokens tokens(shape, dtype, num_tokens, 20);
    const std::vector<float> out = Step({{&tokens, 0, num_tokens, -1, 0}});
    const auto round = [dtype](double value) {
      return static_cast<double>(RoundTo(dtype, {static_cast<float>(value)})[0]);
    };
    reference::GatedDeltaState state(shape);
    const std::vector<double> expected =
        reference::GatedDelta(shape, weights_, tokens.qkvz, tokens.ba, round, &state);
    // Of 16 bits: an input of the rule may be rounded the other way.
    const double tolerance = dtype == DType::kF32 ? 1e-4 : 8 * OutputRounding(dtype);
    ExpectNear(out, expected, tolerance, "out");
    const SlotContents slot = Slot(0);
    ExpectNear(slot.conv, state.conv, 0, "inputs");
    ExpectNear(slot.recurrent, state.recurrent, tolerance, "recurrent state");
  }

  static constexpr int64_t kGap = 8;  // elements behind each slot and each row of qkvz

  GatedDeltaShape shape_;
  DType dtype_ = DType::kF32;
  DType state_dtype_ = DType::kF32;
  int64_t num_slots_ = 0;
  reference::GatedDeltaWeights weights_;
  DeviceTensor conv_, recurrent_;
};

TEST_P(GatedDeltaTest, MatchesReference) {
  for (const DType dtype : activation_dtypes()) {
    for (const int64_t num_tokens : {1, 2, 7, 65, 150}) {
      CheckAgainstReference(kSmall, dtype, num_tokens);
    }
  }
}

// Heads as in published models, of all sizes that are not a multiple of a vector or a tile, more v
// heads for each k head, every width of the convolution; more channels than are computed together.
TEST_P(GatedDeltaTest, ShapesMatchReference) {
  for (const DType dtype : activation_dtypes()) {
    CheckAgainstReference({2, 2, 128, 128, 4}, dtype, 9);
    CheckAgainstReference({1, 3, 128, 128, 4}, dtype, 9);
    CheckAgainstReference({1, 1, 8, 8, 2}, dtype, 9);
    CheckAgainstReference({3, 9, 24, 72, 3}, dtype, 9);
    CheckAgainstReference({1, 2, 256, 16, 2}, dtype, 9);
    CheckAgainstReference({1, 1, 16, 256, 3}, dtype, 9);
    CheckAgainstReference({5, 10, 56, 88, 4}, dtype, 9);
  }
}

// What transformers computes, by chunks of 64 tokens.
TEST_P(GatedDeltaTest, MatchesTransformers) {
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

// One step, or as many as the cuts make, the state in its slot or going from slot to slot.
TEST_P(GatedDeltaTest, CutsChangeNothing) {
  constexpr int64_t kTokens = 130;
  const std::vector<std::vector<int64_t>> cuts = {
      {1}, {63}, {64}, {65}, {1, 63, 64, 65, 100}, {1, 2, 3, 4, 5, 6}, {2, 4, 127, 128, 129}};
  for (const DType dtype : activation_dtypes()) {
    Use(kSmall, dtype, 3);
    const Tokens tokens(shape_, dtype, kTokens, 30);
    const std::vector<float> whole = Step({{&tokens, 0, kTokens, -1, 0}});
    for (const std::vector<int64_t>& at : cuts) {
      for (const bool in_place : {true, false}) {
        SCOPED_TRACE(testing::Message() << DTypeName(dtype) << ", " << at.size()
                                        << " cuts, the first at " << at[0] << ", " << in_place);
        std::vector<float> pieces;
        int64_t begin = 0;
        int32_t slot = 1;
        for (size_t i = 0; i <= at.size(); ++i) {
          const int64_t end = i < at.size() ? at[i] : kTokens;
          const int32_t read = begin == 0 ? -1 : slot;
          if (begin > 0 && !in_place) slot = 3 - slot;
          const std::vector<float> out = Step({{&tokens, begin, end, read, slot}});
          pieces.insert(pieces.end(), out.begin(), out.end());
          begin = end;
        }
        ExpectSame(pieces, whole, "out");
        ExpectSameState(slot, 0);
      }
    }
  }
}

// Prompts, decodes and padding in one step; more tokens than the CPU computes at a time, so that
// sequences lie across that border.
TEST_P(GatedDeltaTest, OtherSequencesAndThreadsChangeNothing) {
  const std::vector<DType> dtypes = activation_dtypes();  // the backend is opened anew
  for (const DType dtype : dtypes) {
    Use({1, 2, 8, 8, 4}, dtype, 12);
    std::vector<Tokens> sequences;
    sequences.reserve(6);
    const std::vector<int64_t> starts = {5, 9, 0, 0, 3, 0};
    const std::vector<int64_t> ends = {6, 10, 509, 70, 600, 1};
    for (size_t i = 0; i < starts.size(); ++i) {
      sequences.emplace_back(shape_, dtype, ends[i], static_cast<uint32_t>(40 + 2 * i));
    }
    std::vector<float> alone;
    for (size_t i = 0; i < starts.size(); ++i) {
      const auto slot = static_cast<int32_t>(i);
      if (starts[i] > 0) Step({{&sequences[i], 0, starts[i], -1, slot}});
      const std::vector<float> out =
          Step({{&sequences[i], starts[i], ends[i], starts[i] > 0 ? slot : -1, slot}});
      alone.insert(alone.end(), out.begin(), out.end());
    }
    for (const int num_threads : {2, 1, 5}) {
      if (num_threads != 2) {
        if (GetParam().kind != DeviceKind::kCpu) break;
        conv_ = {};  // of the device that goes
        recurrent_ = {};
        OpenWithThreads(num_threads);
        Use(shape_, dtype, 12);
      }
      std::vector<Piece> pieces;
      for (size_t i = 0; i < starts.size(); ++i) {
        const auto slot = static_cast<int32_t>(6 + i);
        if (starts[i] > 0) Step({{&sequences[i], 0, starts[i], -1, slot}});
        pieces.push_back({&sequences[i], starts[i], ends[i], starts[i] > 0 ? slot : -1, slot});
        if (i == 1) pieces.push_back({.begin = 0, .end = 1});
      }
      std::vector<float> together = Step(pieces);
      together.erase(together.begin() + 2 * shape_.v_size(),
                     together.begin() + 3 * shape_.v_size());  // the padding's
      ExpectSame(together, alone, "out");
      if (num_threads != 2) continue;
      for (int64_t i = 0; i < 6; ++i) ExpectSameState(6 + i, i);
    }
  }
}

// A sequence that begins from zeros finds nothing of what its slot had, and one that does not finds
// what is there.
TEST_P(GatedDeltaTest, ReadsASlotOnlyWhereItIsToldTo) {
  for (const int64_t num_tokens : {1, 2, 5}) {
    Use(kSmall, DType::kF32, 2);
    const Tokens tokens(shape_, DType::kF32, num_tokens, 50);
    const std::vector<float> fresh = Step({{&tokens, 0, num_tokens, -1, 0}});
    EXPECT_FALSE(AllNan(fresh));
    EXPECT_FALSE(AllNan(Slot(0).recurrent));
    ExpectPoisoned(1);
    const std::vector<float> poisoned = Step({{&tokens, 0, num_tokens, 1, 1}});
    EXPECT_TRUE(AllNan(poisoned));
  }
}

TEST_P(GatedDeltaTest, PaddingReadsAndWritesNothing) {
  for (const DType dtype : activation_dtypes()) {
    Use(kSmall, dtype, 2);
    const Tokens tokens(shape_, dtype, 1, 60);
    const std::vector<float> alone = Step({{&tokens, 0, 1, -1, 0}});
    PoisonSlots();
    // With a token, as decodes are padded, and without, as other batches are.
    const std::vector<float> out = Step({{.begin = 0, .end = 1},
                                         {&tokens, 0, 1, -1, 0},
                                         {.begin = 0, .end = 1},
                                         {},
                                         {.begin = 0, .end = 1, .read = 1},
                                         {}});
    const int64_t size = shape_.v_size();
    ASSERT_EQ(static_cast<int64_t>(out.size()), 4 * size);
    for (int64_t i = 0; i < 4 * size; ++i) {
      if (i / size == 1) continue;
      ASSERT_EQ(out[i], kUntouched) << "row " << i / size;
    }
    ExpectSame({out.begin() + size, out.begin() + 2 * size}, alone, "the sequence");
    ExpectPoisoned(1);
    PoisonSlots();
    Step({{.begin = 0, .end = 1}, {}});
    ExpectPoisoned(0);
    ExpectPoisoned(1);
    EXPECT_TRUE(Step({}).empty());
  }
}

// In any order, at the first and the last token; of inputs from before the step, too; of sequences
// across the border of what the CPU computes at a time.
TEST_P(GatedDeltaTest, SnapshotsAreStatesOfShorterRuns) {
  for (const DType dtype : activation_dtypes()) {
    for (const int64_t before : {0, 1, 100}) {
      for (const bool in_place : {true, false}) {
        SCOPED_TRACE(testing::Message() << DTypeName(dtype) << " after " << before);
        constexpr int64_t kTokens = 530;
        Use({1, 2, 8, 8, 4}, dtype, 11);
        const Tokens tokens(shape_, dtype, before + kTokens, 70);
        const Tokens other(shape_, dtype, 3, 72);
        if (before > 0) Step({{&tokens, 0, before, -1, 0}});
        const std::vector<StateSnapshot> snapshots = {{64, 2}, {1, 3},   {2, 4},      {512, 5},
                                                      {3, 6},  {509, 7}, {kTokens, 8}};
        const int32_t write = in_place ? 0 : 9;
        Step({{&other, 0, 3, -1, 1, {{2, 10}}},
              {&tokens, before, before + kTokens, before > 0 ? 0 : -1, write, snapshots}});
        ExpectSameState(8, write);
        for (const StateSnapshot& snapshot : snapshots) {
          Step({{&tokens, 0, before + snapshot.num_tokens, -1, 1}});
          ExpectSameState(snapshot.slot, 1);
        }
        Step({{&other, 0, 2, -1, 1}});
        ExpectSameState(10, 1);
      }
    }
  }
}

// Two sequences begin from one slot, which stays as it is.
TEST_P(GatedDeltaTest, SequencesPart) {
  Use(kSmall, DType::kF32, 5);
  const Tokens common(shape_, DType::kF32, 30, 80);
  const Tokens branches[2] = {{shape_, DType::kF32, 9, 82}, {shape_, DType::kF32, 2, 84}};
  Step({{&common, 0, 30, -1, 0}});
  const SlotContents before = Slot(0);
  const std::vector<float> together =
      Step({{&branches[0], 0, 9, 0, 1}, {&branches[1], 0, 2, 0, 2}});
  EXPECT_TRUE(Slot(0).conv == before.conv && Slot(0).recurrent == before.recurrent);
  std::vector<float> alone = Step({{&branches[0], 0, 9, 0, 3}});
  const std::vector<float> second = Step({{&branches[1], 0, 2, 0, 4}});
  alone.insert(alone.end(), second.begin(), second.end());
  ExpectSame(together, alone, "out");
  ExpectSameState(1, 3);
  ExpectSameState(2, 4);
}

// Rounded once, where the step ends.
TEST_P(GatedDeltaTest, StatesOf16Bits) {
  if (GetParam().kind == DeviceKind::kCpu) GTEST_SKIP() << "the CPU has float32 only";
  const Tokens tokens(kSmall, DType::kF32, 70, 86);
  Use(kSmall, DType::kF32, 1);
  const std::vector<float> out = Step({{&tokens, 0, 65, -1, 0}});
  const std::vector<float> state = Slot(0).recurrent;
  const std::vector<float> next = Step({{&tokens, 65, 70, 0, 0}});
  state_dtype_ = DType::kBF16;
  Use(kSmall, DType::kF32, 1);
  ExpectSame(Step({{&tokens, 0, 65, -1, 0}}), out, "out");
  const double rounding = OutputRounding(DType::kBF16);
  ExpectNear(Slot(0).recurrent, {state.begin(), state.end()}, rounding, "recurrent state");
  ExpectNear(Step({{&tokens, 65, 70, 0, 0}}), {next.begin(), next.end()}, 8 * rounding, "next");
}

// A memory that is kept whole or lost at once, rows of zeros, a gate that is shut: always finite.
TEST_P(GatedDeltaTest, ExtremeValuesStayFinite) {
  Use(kSmall, DType::kF32, 1);
  const int64_t num_heads = shape_.num_v_heads;
  weights_.a_log = {-20.0f, 20.0f, 5.0f, 0.0f};
  Tokens tokens(shape_, DType::kF32, 20, 90);
  for (int64_t token = 0; token < 20; ++token) {
    float* b = tokens.ba.data() + token * 2 * num_heads;
    b[0] = 100, b[1] = -100, b[2] = 0, b[3] = 100;
    b[4] = 100, b[5] = 100, b[6] = -100, b[7] = token % 2 == 0 ? 200 : -200;
    float* u = tokens.qkvz.data() + token * Tokens::RowSize(shape_);
    if (token < 8) std::fill_n(u, shape_.num_channels(), 0.0f);
    if (token > 12) std::fill_n(u + shape_.num_channels(), shape_.v_size(), -200.0f);
  }
  const std::vector<float> out = Step({{&tokens, 0, 20, -1, 0}});
  reference::GatedDeltaState state(shape_);
  const std::vector<double> expected = reference::GatedDelta(
      shape_, weights_, tokens.qkvz, tokens.ba, [](double value) { return value; }, &state);
  ExpectNear(out, expected, 1e-4, "out");
  ExpectNear(Slot(0).recurrent, state.recurrent, 1e-5, "recurrent state");
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
  args = args_of({1, 1, 8, 8, 4});
  args.batch.num_decodes = 1;
  EXPECT_DEATH(run(args), "1 decodes of 0 sequences");
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

INSTANTIATE_TEST_SUITE_P(Targets, GatedDeltaTest, testing::ValuesIn(KernelTargets()), TargetName);
INSTANTIATE_TEST_SUITE_P(Targets, GatedDeltaDeathTest, testing::ValuesIn(KernelTargets()),
                         TargetName);

}  // namespace
}  // namespace quire
