// How long a context and how large a cache a machine's memory allows, and what is said where it
// does not.
#include "engine/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace quire {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGiB = int64_t{1} << 30;
constexpr int64_t kBlockBytes = 64 * 1024;

// One layer whose blocks of 16 tokens take 64 KiB.
KvDemand Demand(int64_t max_model_len, bool may_be_lowered, int64_t sliding_window = 0) {
  KvDemand demand;
  const KvSpec spec = {.sliding_window = sliding_window,
                       .num_kv_heads = 8,
                       .k_head_dim = 128,
                       .v_head_dim = 128,
                       .dtype = DType::kBF16};
  demand.layout = {.groups = {{spec, {0}}}, .block_size = 16};
  EXPECT_EQ(demand.layout.BlockBytes(), kBlockBytes);
  demand.step = {.max_num_seqs = 64, .max_num_batched_tokens = 2048};
  demand.max_model_len = max_model_len;
  demand.may_be_lowered = may_be_lowered;
  return demand;
}

int64_t Nothing(int64_t) { return 0; }

EngineConfig Config(DeviceKind device) {
  EngineConfig config;
  config.device = device;
  return config;
}

TEST(PlanKvCacheTest, OnTheCpuHalfOfWhatIsFreeAndNotMoreThanAllSequencesNeed) {
  const EngineConfig config = Config(DeviceKind::kCpu);
  const MemoryInfo memory = {.free_bytes = 20 * kGiB, .total_bytes = 24 * kGiB};
  // A twentieth, 1 GiB, stays free.
  const KvPlan plan = *PlanKvCache(config, Demand(1 << 20, true), memory, Nothing);
  EXPECT_EQ(plan.max_model_len, 1 << 20);
  EXPECT_EQ(plan.num_blocks, 19 * kGiB / kBlockBytes / 2);
  EXPECT_EQ(plan.lowered, "");
  const KvPlan small = *PlanKvCache(config, Demand(1024, true), memory, Nothing);
  EXPECT_EQ(small.num_blocks, 64 * (1024 / 16));
  // Memory that other parts will take is not there for the cache.
  const KvPlan beside =
      *PlanKvCache(config, Demand(1 << 20, true), memory, [](int64_t) { return 10 * kGiB; });
  EXPECT_EQ(beside.num_blocks, 9 * kGiB / kBlockBytes / 2);
}

TEST(PlanKvCacheTest, OneSequenceMayTakeAllThatIsFree) {
  // 131,072 tokens take 512 MiB: more than half of what is there.
  const KvPlan plan = *PlanKvCache(Config(DeviceKind::kCpu), Demand(131'072, true),
                                   {.free_bytes = 1100 * kMiB, .total_bytes = 2 * kGiB}, Nothing);
  EXPECT_EQ(plan.max_model_len, 131'072);
  EXPECT_EQ(plan.num_blocks, 131'072 / 16);
}

TEST(PlanKvCacheTest, AContextNobodyAskedForIsLoweredToTheLongestThatFits) {
  const MemoryInfo memory = {.free_bytes = 2 * kGiB, .total_bytes = 2 * kGiB};
  const auto other_bytes = [](int64_t max_model_len) { return kGiB + max_model_len * 64; };
  const KvDemand demand = Demand(1 << 20, true);
  const KvPlan plan = *PlanKvCache(Config(DeviceKind::kCpu), demand, memory, other_bytes);
  const auto needed = [&](int64_t length) {
    return other_bytes(length) + length / 16 * kBlockBytes;
  };
  EXPECT_EQ(plan.max_model_len % 16, 0);
  EXPECT_LE(needed(plan.max_model_len), 2 * kGiB - 512 * kMiB);
  EXPECT_GT(needed(plan.max_model_len + 16), 2 * kGiB - 512 * kMiB);
  EXPECT_EQ(plan.num_blocks, plan.max_model_len / 16);
  EXPECT_THAT(plan.lowered,
              AllOf(HasSubstr(absl::StrCat(plan.max_model_len, " tokens instead of 1048576")),
                    HasSubstr("needs 4096 MiB"), Not(HasSubstr("\n"))));
}

// Advice must work when it is followed.
TEST(PlanKvCacheTest, AnExplicitContextThatDoesNotFitIsAnErrorWhoseAdviceWorks) {
  const MemoryInfo memory = {.free_bytes = 2 * kGiB, .total_bytes = 2 * kGiB};
  for (const DeviceKind device : {DeviceKind::kCpu, DeviceKind::kCuda}) {
    EngineConfig config = Config(device);
    const absl::Status status =
        PlanKvCache(config, Demand(1 << 20, false), memory, Nothing).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    const std::string message(status.message());
    const size_t at = message.find("use --max-model-len ");
    ASSERT_NE(at, std::string::npos) << message;
    const int64_t advised = std::stoll(message.substr(at + 20));
    EXPECT_TRUE(PlanKvCache(config, Demand(advised, false), memory, Nothing).ok());
    EXPECT_FALSE(PlanKvCache(config, Demand(advised + 16, false), memory, Nothing).ok());
    EXPECT_EQ(message.find("--gpu-memory-utilization") != std::string::npos,
              device == DeviceKind::kCuda);
  }
}

TEST(PlanKvCacheTest, AnExplicitSizeIsTakenOrRefusedWithOneThatWorks) {
  const MemoryInfo memory = {.free_bytes = 6 * kGiB, .total_bytes = 10 * kGiB};
  for (const DeviceKind device : {DeviceKind::kCpu, DeviceKind::kCuda}) {
    EngineConfig config = Config(device);
    config.kv_cache_memory_bytes = 100 * kBlockBytes + 1;
    EXPECT_EQ(PlanKvCache(config, Demand(1600, false), memory, Nothing)->num_blocks, 100);
    const absl::Status small = PlanKvCache(config, Demand(1601, false), memory, Nothing).status();
    EXPECT_EQ(small.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(small.message(),
                HasSubstr(absl::StrCat("--kv-cache-memory-bytes ", 101 * kBlockBytes)));
    EXPECT_EQ(PlanKvCache(config, Demand(1601, true), memory, Nothing)->max_model_len, 1600);
    config.kv_cache_memory_bytes = 7 * kGiB;
    const absl::Status large = PlanKvCache(config, Demand(1600, true), memory, Nothing).status();
    EXPECT_EQ(large.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(large.message(), HasSubstr(absl::StrCat("use --kv-cache-memory-bytes ", 6 * kGiB)));
    config.kv_cache_memory_bytes = 6 * kGiB;
    EXPECT_TRUE(PlanKvCache(config, Demand(1600, true), memory, Nothing).ok());
  }
}

TEST(PlanKvCacheTest, OnAGpuWhatTheUtilizationLeaves) {
  EngineConfig config = Config(DeviceKind::kCuda);
  config.gpu_memory_utilization = 0.9;  // 9 GiB, of which 4 are taken
  const MemoryInfo memory = {.free_bytes = 6 * kGiB, .total_bytes = 10 * kGiB};
  EXPECT_EQ(PlanKvCache(config, Demand(1000, true), memory, Nothing)->num_blocks,
            5 * kGiB / kBlockBytes);
  // All of it: something stays free for the code of kernels.
  config.gpu_memory_utilization = 1.0;
  EXPECT_EQ(PlanKvCache(config, Demand(1000, true), memory, Nothing)->num_blocks,
            (6 * kGiB - 128 * kMiB) / kBlockBytes);
}

TEST(PlanKvCacheTest, WhereNotEvenAShortContextFitsItEnds) {
  const absl::Status status = PlanKvCache(Config(DeviceKind::kCpu), Demand(1 << 20, true),
                                          {.free_bytes = 2 * kGiB, .total_bytes = 2 * kGiB},
                                          [](int64_t) { return 3 * kGiB; })
                                  .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("3072 MiB"), HasSubstr("smaller model"),
                                      Not(HasSubstr("--max-model-len"))));
}

TEST(PlanKvCacheTest, ASlidingWindowNeedsItsWindowOnly) {
  const KvDemand demand = Demand(1 << 20, false, /*sliding_window=*/512);
  // The window, two steps of 2,048 tokens, and an end that is not aligned.
  const int64_t held = (512 - 1 + 2 * 2048 + 15) / 16 + 1;
  EngineConfig config = Config(DeviceKind::kCuda);
  config.kv_cache_memory_bytes = held * kBlockBytes;
  const MemoryInfo memory = {.free_bytes = 6 * kGiB, .total_bytes = 10 * kGiB};
  EXPECT_EQ(PlanKvCache(config, demand, memory, Nothing)->max_model_len, 1 << 20);
  config.kv_cache_memory_bytes -= kBlockBytes;
  EXPECT_FALSE(PlanKvCache(config, demand, memory, Nothing).ok());
}

TEST(ChooseStepLimitsTest, FollowTheDeviceAndEachOther) {
  const auto choose = [](DeviceKind device, int64_t bytes, int64_t seqs, int64_t tokens) {
    EngineConfig config = Config(device);
    config.max_num_seqs = seqs;
    config.max_num_batched_tokens = tokens;
    const StepLimits limits = ChooseStepLimits(config, bytes);
    return std::pair(limits.max_num_seqs, limits.max_num_batched_tokens);
  };
  using Limits = std::pair<int64_t, int64_t>;
  EXPECT_EQ(choose(DeviceKind::kCpu, 24 * kGiB, 0, 0), Limits(64, 2048));
  EXPECT_EQ(choose(DeviceKind::kCuda, 139 * kGiB, 0, 0), Limits(1024, 8192));
  EXPECT_EQ(choose(DeviceKind::kCuda, 24 * kGiB, 0, 0), Limits(256, 8192));
  EXPECT_EQ(choose(DeviceKind::kCuda, 139 * kGiB, 0, 100), Limits(100, 100));
  EXPECT_EQ(choose(DeviceKind::kCpu, 24 * kGiB, 4096, 0), Limits(4096, 4096));
  EXPECT_EQ(choose(DeviceKind::kCpu, 24 * kGiB, 8, 16), Limits(8, 16));
}

}  // namespace
}  // namespace quire
