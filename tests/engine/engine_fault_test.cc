#include <gtest/gtest.h>

#include "engine/engine.h"
#include "tests/engine/faulty_backend.h"
#include "tests/engine/tiny_engine.h"

namespace quire {
namespace {

using testing::FaultPlan;
using testing::FaultyBackend;
using testing::GreedyRequest;
using testing::RandomPrompt;
using testing::ReadAll;
using testing::Waiter;

TEST(EngineFaultTest, EveryFailingAllocationAtStartIsACleanStatus) {
  const EngineConfig config = testing::TinyConfig(testing::MakeTinyModelFolder());
  const auto healthy = std::make_shared<FaultPlan>();
  ASSERT_TRUE(Engine::Open(config, std::make_unique<FaultyBackend>(healthy)).ok());
  const int num_creations = healthy->num_creations;
  ASSERT_GT(num_creations, 10);
  for (int n = 0; n < num_creations; ++n) {
    const auto plan = std::make_shared<FaultPlan>();
    plan->creations_until_failure = n;
    const auto engine = Engine::Open(config, std::make_unique<FaultyBackend>(plan));
    EXPECT_EQ(engine.status().code(), absl::StatusCode::kResourceExhausted) << "creation " << n;
  }
}

TEST(EngineFaultTest, DeviceErrorEndsEveryStreamRetryablyAndIsReported) {
  const EngineConfig config = testing::TinyConfig(testing::MakeTinyModelFolder());
  for (const int steps_before : {0, 1, 2, 17}) {
    const auto plan = std::make_shared<FaultPlan>();
    Waiter waiter;
    auto engine = *Engine::Open(config, std::make_unique<FaultyBackend>(plan));
    std::atomic<int> num_failures{0};
    engine->SetFailureCallback([&](const absl::Status& status) {
      EXPECT_EQ(status.message(), "injected device error");
      ++num_failures;
    });
    plan->waits_until_failure = steps_before;
    std::vector<std::shared_ptr<OutputStream>> streams;
    for (uint32_t i = 0; i < 20; ++i) {  // more than run at once: some are still waiting
      auto stream = engine->Submit(GreedyRequest(RandomPrompt(30, i), 400), &waiter);
      if (stream.ok()) streams.push_back(*stream);
    }
    ASSERT_FALSE(streams.empty());
    for (auto& stream : streams) {
      const testing::Answer answer = ReadAll(*stream, waiter).at(0);
      EXPECT_EQ(answer.reason, FinishReason::kError);
      EXPECT_EQ(answer.status.code(), absl::StatusCode::kUnavailable);
    }
    EXPECT_TRUE(engine->WaitUntilIdle(absl::Now() + absl::Seconds(10)));
    EXPECT_EQ(engine->Submit(GreedyRequest({1}, 1), &waiter).status().code(),
              absl::StatusCode::kUnavailable);
    engine.reset();  // joins the thread, so the callback has returned
    EXPECT_EQ(num_failures, 1);
  }
}

}  // namespace
}  // namespace quire
