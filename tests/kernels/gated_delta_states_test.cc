// GatedDelta's states: which it reads and writes; and on the CPU, that a token's bits do not depend
// on cuts, other sequences and threads.
#include <algorithm>
#include <vector>

#include "tests/kernels/gated_delta_fixture.h"

namespace quire {
namespace {

using GatedDeltaStatesTest = GatedDeltaTest;

class GatedDeltaCutsTest : public GatedDeltaTest {
 protected:
  static constexpr int64_t kTokens = 130;

  // The step's tokens in as many steps as the cuts make, whose states end in the slot: its outputs.
  std::vector<float> InPieces(const Tokens& tokens, const std::vector<int64_t>& cuts, bool in_place,
                              int32_t* slot) {
    std::vector<float> pieces;
    int64_t begin = 0;
    for (size_t i = 0; i <= cuts.size(); ++i) {
      const int64_t end = i < cuts.size() ? cuts[i] : kTokens;
      const int32_t read = begin == 0 ? -1 : *slot;
      if (begin > 0 && !in_place) *slot = 3 - *slot;
      const std::vector<float> out = Step({{&tokens, begin, end, read, *slot}});
      pieces.insert(pieces.end(), out.begin(), out.end());
      begin = end;
    }
    return pieces;
  }
};

// One step, or as many as the cuts make, the state in its slot or going from slot to slot.
TEST_P(GatedDeltaCutsTest, CutsChangeNothing) {
  const std::vector<std::vector<int64_t>> cuts = {
      {1}, {63}, {64}, {65}, {1, 63, 64, 65, 100}, {1, 2, 3, 4, 5, 6}, {2, 4, 127, 128, 129}};
  for (const GatedDeltaShape& shape : {kSmall, kHeads128}) {
    for (const DType dtype : activation_dtypes()) {
      Use(shape, dtype, 3);
      const Tokens tokens(shape_, dtype, kTokens, 30);
      const std::vector<float> whole = Step({{&tokens, 0, kTokens, -1, 0}});
      for (const std::vector<int64_t>& at : cuts) {
        for (const bool in_place : {true, false}) {
          SCOPED_TRACE(testing::Message()
                       << DTypeName(dtype) << ", heads of " << shape.k_head_dim << ", " << at.size()
                       << " cuts, the first at " << at[0] << ", " << in_place);
          int32_t slot = 1;
          ExpectSame(InPieces(tokens, at, in_place, &slot), whole, "out");
          ExpectSameState(slot, 0);
        }
      }
    }
  }
}

// A prompt's tiles end at the same tokens wherever its steps begin, and a state between steps is
// what it is between tiles.
TEST_P(GatedDeltaCutsTest, CutsBetweenTilesChangeNoBits) {
  const std::vector<std::vector<int64_t>> tile_ends = {{64}, {128}, {64, 128}};
  for (const DType dtype : activation_dtypes()) {
    for (const std::vector<int64_t>& before : {std::vector<int64_t>{}, {37}}) {
      Use(kHeads128, dtype, 3);
      const Tokens tokens(shape_, dtype, kTokens, 31);
      int32_t slot = 1;
      const std::vector<float> whole = InPieces(tokens, before, /*in_place=*/true, &slot);
      const SlotContents state = Slot(slot);
      for (const std::vector<int64_t>& ends : tile_ends) {
        SCOPED_TRACE(testing::Message() << DTypeName(dtype) << ", " << before.size()
                                        << " cuts before the one at " << ends[0]);
        std::vector<int64_t> cuts = before;
        cuts.insert(cuts.end(), ends.begin(), ends.end());
        EXPECT_TRUE(InPieces(tokens, cuts, /*in_place=*/false, &slot) == whole);
        EXPECT_TRUE(Slot(slot).recurrent == state.recurrent);
      }
    }
  }
}

// Prompts, decodes and padding in one step; more tokens than the CPU computes at a time, so that
// sequences lie across that border.
TEST_P(GatedDeltaStatesTest, OtherSequencesAndThreadsChangeNothing) {
  const std::vector<DType> dtypes = activation_dtypes();  // the backend is opened anew
  for (const DType dtype : dtypes) {
    for (const int32_t head_dim : {8, 128}) {
      Use({1, 2, head_dim, head_dim, 4}, dtype, 12);
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
}

// A sequence that begins from zeros finds nothing of what its slot had, and one that does not finds
// what is there.
TEST_P(GatedDeltaStatesTest, ReadsASlotOnlyWhereItIsToldTo) {
  for (const GatedDeltaShape& shape : {kSmall, kHeads128}) {
    for (const int64_t num_tokens : {1, 2, 5}) {
      Use(shape, DType::kF32, 2);
      const Tokens tokens(shape_, DType::kF32, num_tokens, 50);
      const std::vector<float> fresh = Step({{&tokens, 0, num_tokens, -1, 0}});
      EXPECT_FALSE(AllNan(fresh));
      EXPECT_FALSE(AllNan(Slot(0).recurrent));
      ExpectPoisoned(1);
      const std::vector<float> poisoned = Step({{&tokens, 0, num_tokens, 1, 1}});
      EXPECT_TRUE(AllNan(poisoned));
    }
  }
}

TEST_P(GatedDeltaStatesTest, PaddingReadsAndWritesNothing) {
  for (const GatedDeltaShape& shape : {kSmall, kHeads128}) {
    for (const DType dtype : activation_dtypes()) {
      Use(shape, dtype, 2);
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
}

// In any order, at the first and the last token; of inputs from before the step, too; of sequences
// across the border of what the CPU computes at a time.
TEST_P(GatedDeltaStatesTest, SnapshotsAreStatesOfShorterRuns) {
  for (const auto& [dtype, head_dim] :
       {std::pair(DType::kF32, 8), std::pair(activation_dtypes().back(), 8),
        std::pair(activation_dtypes().back(), 128)}) {
    for (const int64_t before : {0, 1, 100}) {
      for (const bool in_place : {true, false}) {
        SCOPED_TRACE(testing::Message()
                     << DTypeName(dtype) << " after " << before << ", heads of " << head_dim);
        constexpr int64_t kTokens = 530;
        Use({1, 2, head_dim, head_dim, 4}, dtype, 11);
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

TEST_P(GatedDeltaStatesTest, SnapshotsOfDecodes) {
  for (const GatedDeltaShape& shape : {kSmall, kHeads128}) {
    Use(shape, DType::kF32, 5);
    const Tokens tokens(shape_, DType::kF32, 6, 74);
    Step({{&tokens, 0, 5, -1, 0}});
    Step({{&tokens, 5, 6, 0, 1, {{1, 2}, {1, 3}}}});
    Step({{&tokens, 5, 6, 0, 0, {{1, 4}}}});
    for (const int64_t slot : {0, 2, 3, 4}) ExpectSameState(slot, 1);
  }
}

// Two sequences begin from one slot, which stays as it is.
TEST_P(GatedDeltaStatesTest, SequencesPart) {
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

INSTANTIATE_TEST_SUITE_P(Targets, GatedDeltaCutsTest, testing::ValuesIn(KernelTargets()),
                         TargetName);
INSTANTIATE_TEST_SUITE_P(Targets, GatedDeltaStatesTest, testing::ValuesIn(KernelTargets()),
                         TargetName);

}  // namespace
}  // namespace quire
