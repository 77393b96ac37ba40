// How many recurrent states a device has room for.
#include "engine/state_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGiB = int64_t{1} << 30;
constexpr int64_t kSlot = 150 * kMiB;  // of 27 billion parameters

EngineConfig Config(DeviceKind device = DeviceKind::kCuda) {
  EngineConfig config;
  config.device = device;
  return config;
}

StepLimits Step(int64_t max_num_seqs) { return {max_num_seqs, 8192}; }

TEST(PlanStatesTest, OnAGpuHalfOfWhatIsLeftAndTwoThirdsOfThatForWhoRuns) {
  const StatePlan plan = *PlanStates(Config(), Step(1024), 32768, kSlot, 90 * kGiB);
  EXPECT_EQ(plan.step.max_num_seqs, 204);  // 30 GiB
  EXPECT_EQ(plan.num_slots(), 307);        // 45 GiB
  EXPECT_EQ(plan.step.max_num_batched_tokens, 8192);
  EXPECT_THAT(plan.lowered, AllOf(HasSubstr("at most 204 sequences"), HasSubstr("of 1024"),
                                  HasSubstr("150 MiB"), HasSubstr("--max-num-seqs")));
}

TEST(PlanStatesTest, SmallStatesLowerNothing) {
  const StatePlan plan = *PlanStates(Config(), Step(1024), 32768, 10 * kMiB, 90 * kGiB);
  EXPECT_EQ(plan.step.max_num_seqs, 1024);
  EXPECT_EQ(plan.num_slots(), 4608);
  // Each sequence of 1,024 tokens has three: the end of the prompt, where it parts from others, one
  // more.
  EXPECT_EQ(PlanStates(Config(), Step(1024), 1024, 1 * kMiB, 90 * kGiB)->num_snapshots, 3072);
  EXPECT_EQ(plan.lowered, "");
}

TEST(PlanStatesTest, OnTheCpuAQuarterAsItIsEverybodys) {
  const StatePlan plan =
      *PlanStates(Config(DeviceKind::kCpu), Step(64), 32768, 20 * kMiB, 16 * kGiB);
  EXPECT_EQ(plan.step.max_num_seqs, 64);
  EXPECT_EQ(plan.num_slots(), 204);
  const StatePlan little = *PlanStates(Config(DeviceKind::kCpu), Step(64), 32768, 20 * kMiB, kGiB);
  EXPECT_EQ(little.step.max_num_seqs, 8);
  EXPECT_EQ(little.num_slots(), 12);
}

TEST(PlanStatesTest, WithoutPrefixCachingThereAreNoSnapshots) {
  EngineConfig config = Config();
  config.enable_prefix_caching = false;
  const StatePlan plan = *PlanStates(config, Step(1024), 32768, kSlot, 90 * kGiB);
  EXPECT_EQ(plan.step.max_num_seqs, 204);
  EXPECT_EQ(plan.num_snapshots, 0);
}

TEST(PlanStatesTest, WhoSaysHowManyRunGetsThem) {
  EngineConfig config = Config();
  config.max_num_seqs = 500;
  const StatePlan plan = *PlanStates(config, Step(500), 32768, kSlot, 90 * kGiB);
  EXPECT_EQ(plan.step.max_num_seqs, 500);
  EXPECT_EQ(plan.num_snapshots, 2);  // beyond the half
  config.max_num_seqs = 613;         // 90 GiB are 614 slots
  const absl::Status status = PlanStates(config, Step(613), 32768, kSlot, 90 * kGiB).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("--max-num-seqs: "), HasSubstr("150 MiB each"),
                                      HasSubstr("use --max-num-seqs 612 or less")));
  config.max_num_seqs = 612;
  EXPECT_TRUE(PlanStates(config, Step(612), 32768, kSlot, 90 * kGiB).ok());
}

TEST(PlanStatesTest, WhoSaysHowMuchGetsThat) {
  EngineConfig config = Config();
  config.state_cache_memory_bytes = 30 * kSlot;
  const StatePlan plan = *PlanStates(config, Step(1024), 32768, kSlot, 90 * kGiB);
  EXPECT_EQ(plan.step.max_num_seqs, 20);
  EXPECT_EQ(plan.num_snapshots, 10);
  config.max_num_seqs = 28;
  EXPECT_EQ(PlanStates(config, Step(28), 32768, kSlot, 90 * kGiB)->num_snapshots, 2);
  config.max_num_seqs = 29;
  const absl::Status status = PlanStates(config, Step(29), 32768, kSlot, 90 * kGiB).status();
  EXPECT_THAT(status.message(), AllOf(HasSubstr("--state-cache-memory-bytes: "),
                                      HasSubstr("use --max-num-seqs 28 or less")));
  config.max_num_seqs = 0;
  config.state_cache_memory_bytes = 2 * kSlot;  // one that runs and two snapshots are more
  EXPECT_FALSE(PlanStates(config, Step(1024), 32768, kSlot, 90 * kGiB).ok());
}

// That nothing at all fits is said with the cache's figures.
TEST(PlanStatesTest, WhereNothingIsLeftOneSequenceIsPlanned) {
  const StatePlan plan = *PlanStates(Config(), Step(1024), 32768, kSlot, -kGiB);
  EXPECT_EQ(plan.step.max_num_seqs, 1);
  EXPECT_EQ(plan.num_snapshots, 2);
}

}  // namespace
}  // namespace quire
