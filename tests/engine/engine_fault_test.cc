#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "engine/engine.h"
#include "engine/watchdog.h"
#include "tests/engine/faulty_backend.h"
#include "tests/engine/tiny_engine.h"

namespace quire {
namespace {

using ::testing::AllOf;
using testing::FaultPlan;
using testing::FaultyBackend;
using testing::GreedyRequest;
using ::testing::HasSubstr;
using ::testing::Not;
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

// The engine's thread hangs in its wait for the device, so the watchdog's has to speak up.
TEST(EngineFaultTest, AHungStepIsReportedOnceAndRefusesFurtherRequests) {
  EngineConfig config = testing::TinyConfig(testing::MakeTinyModelFolder());
  config.watchdog_timeout = absl::Milliseconds(100);
  for (const int steps_before : {0, 5}) {
    const auto plan = std::make_shared<FaultPlan>();
    Waiter waiter;
    auto engine = *Engine::Open(config, std::make_unique<FaultyBackend>(plan));
    std::promise<std::string> failure;  // a second report would throw
    engine->SetFailureCallback(
        [&](const absl::Status& status) { failure.set_value(status.ToString()); });
    plan->waits_until_hang = steps_before;
    auto stream = *engine->Submit(GreedyRequest(RandomPrompt(30, 1), 400), &waiter);
    EXPECT_EQ(failure.get_future().get(), "DEADLINE_EXCEEDED: a step has not ended within 100ms");
    EXPECT_TRUE(engine->status().failed);
    EXPECT_EQ(engine->Submit(GreedyRequest({1}, 1), &waiter).status().code(),
              absl::StatusCode::kUnavailable);
    plan->EndHang();  // the device answers after all: the streams end as after any failure
    const testing::Answer answer = ReadAll(*stream, waiter).at(0);
    EXPECT_EQ(answer.reason, FinishReason::kError);
    EXPECT_EQ(answer.status.code(), absl::StatusCode::kUnavailable);
  }
}

TEST(EngineFaultTest, BrokenLogitsEndTheirRequestAlone) {
  const auto plan = std::make_shared<FaultPlan>();
  Waiter waiter;
  auto engine = *Engine::Open(testing::TinyConfig(testing::MakeTinyModelFolder()),
                              std::make_unique<FaultyBackend>(plan));
  const Request request = GreedyRequest(RandomPrompt(30, 1), 40);
  const std::vector<TokenId> expected = testing::Generate(*engine, request).tokens;
  Request broken = request;
  broken.sampling.seed = 77;
  plan->broken_seed = 77;
  const auto expect_error = [&](const Request& request, size_t num_tokens) {
    auto neighbour = *engine->Submit(GreedyRequest(RandomPrompt(30, 1), 40), &waiter);
    auto stream = *engine->Submit(request, &waiter);
    const std::vector<testing::Answer> answers = ReadAll(*stream, waiter);
    for (const testing::Answer& answer : answers) {
      EXPECT_EQ(answer.reason, FinishReason::kError);
      EXPECT_EQ(answer.status,
                absl::InternalError("the model produced logits that are no numbers (NaN)"));
    }
    EXPECT_EQ(answers[0].tokens.size(), num_tokens);
    EXPECT_EQ(ReadAll(*neighbour, waiter).at(0).tokens, expected);
  };
  for (const int64_t num_good : {0, 1, 7}) {
    plan->broken_position = num_good;
    expect_error(broken, static_cast<size_t>(num_good));
  }
  EXPECT_EQ(engine->metrics().broken_logits.value(), 3u);
  // A request that scores its prompt has no answer, either.
  Request scored = broken;
  scored.sampling.prompt_logprobs = 2;
  plan->broken_position = 0;
  expect_error(scored, 0);
  // The other continuations end, too: the request as a whole has no answer.
  Request several = broken;
  several.sampling.n = 3;
  several.stop.max_tokens = 400;
  plan->broken_position = 5;
  expect_error(several, 5);
  EXPECT_EQ(engine->metrics().broken_logits.value(), 5u);
  EXPECT_EQ(engine->metrics().finished[static_cast<size_t>(FinishReason::kError)].value(), 7u);
  // Nothing is left of it.
  plan->broken_seed = 0;
  EXPECT_EQ(testing::Generate(*engine, broken).tokens, expected);
  EXPECT_TRUE(engine->WaitUntilIdle(absl::Now() + absl::Seconds(10)));
  EXPECT_FALSE(engine->status().failed);
}

TEST(EngineFaultTest, AnEngineThatRestsIsNotHung) {
  EngineConfig config = testing::TinyConfig(testing::MakeTinyModelFolder());
  config.watchdog_timeout = absl::Milliseconds(500);  // of a round: microseconds here
  std::atomic<bool> failed{false};
  auto engine =
      *Engine::Open(config, std::make_unique<FaultyBackend>(std::make_shared<FaultPlan>()));
  engine->SetFailureCallback([&](const absl::Status&) { failed = true; });
  EXPECT_EQ(testing::Generate(*engine, GreedyRequest({1, 2}, 5)).tokens.size(), 5u);
  // As long as a watchdog of the same limit needs to find a hang twice over.
  for (int i = 0; i < 2; ++i) {
    std::promise<void> hung;
    Watchdog other(config.watchdog_timeout, [&] { hung.set_value(); });
    other.BeginRound();
    hung.get_future().wait();
  }
  EXPECT_FALSE(failed);
  EXPECT_EQ(testing::Generate(*engine, GreedyRequest({1, 2}, 5)).tokens.size(), 5u);
}

// Where memory ran out, how much of it is whose, and what to change.
TEST(EngineFaultTest, AShortageTellsTheLedgerAndWhatToChange) {
  EngineConfig config = testing::TinyConfig(testing::MakeTinyModelFolder());
  const auto error = [&](int n) {
    const auto plan = std::make_shared<FaultPlan>();
    plan->creations_until_failure = n;
    return std::string(
        Engine::Open(config, std::make_unique<FaultyBackend>(plan)).status().message());
  };
  const auto healthy = std::make_shared<FaultPlan>();
  ASSERT_TRUE(Engine::Open(config, std::make_unique<FaultyBackend>(healthy)).ok());
  EXPECT_THAT(error(0),
              AllOf(HasSubstr("serve a smaller one"), HasSubstr("memory in MiB: in use before"),
                    Not(HasSubstr("weights "))));
  EXPECT_THAT(error(healthy->num_creations - 1),
              AllOf(HasSubstr("lower --max-num-batched-tokens"), HasSubstr("weights "),
                    HasSubstr("activations "), HasSubstr("free ")));
}

}  // namespace
}  // namespace quire
