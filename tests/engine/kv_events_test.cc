// The log of events, and what a subscriber of the engine hears.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "engine/kv_events/kv_event_log.h"
#include "engine/kv_events/kv_event_recorder.h"
#include "tests/engine/tiny_engine.h"

namespace quire {
namespace {

using ::testing::ElementsAre;
using testing::Generate;
using testing::GreedyRequest;
using testing::RandomPrompt;
using Outcome = KvEventLog::Outcome;

constexpr uint64_t kFirst = KvEventLog::kFirstSequence;

std::vector<KvEvent> Removed(uint64_t hash) {
  KvEvent event;
  event.kind = KvEvent::Kind::kRemoved;
  event.hashes = {hash};
  return {event};
}

TEST(KvEventLogTest, NumbersBatchesWithoutGaps) {
  KvEventLog log({});
  EXPECT_EQ(log.Read(kFirst).outcome, Outcome::kNothingYet);
  EXPECT_EQ(log.Read(kFirst + 1).outcome, Outcome::kLost);
  log.Append(Removed(7), absl::UnixEpoch());
  log.Append(Removed(8), absl::UnixEpoch());
  const KvEventLog::ReadResult second = log.Read(kFirst + 1);
  ASSERT_EQ(second.outcome, Outcome::kBatch);
  EXPECT_EQ(second.batch->sequence, kFirst + 1);
  EXPECT_THAT(second.batch->events[0].hashes, ElementsAre(8));
}

TEST(KvEventLogTest, WhoIsTooFarBehindIsToldSo) {
  KvEventLog log({.max_batches = 2});
  for (uint64_t i = 0; i < 3; ++i) log.Append(Removed(i), absl::UnixEpoch());
  EXPECT_EQ(log.Read(kFirst).outcome, Outcome::kLost);
  EXPECT_EQ(log.Read(kFirst + 1).outcome, Outcome::kBatch);
  EXPECT_EQ(log.first_sequence(), kFirst + 1);
}

TEST(KvEventLogTest, IsBoundedInBytes) {
  KvEventLog log({.max_batches = 1000, .max_bytes = 1000});
  for (uint64_t i = 0; i < 1000; ++i) log.Append(Removed(i), absl::UnixEpoch());
  EXPECT_LT(log.next_sequence() - log.first_sequence(), 100u);
  EXPECT_EQ(log.Read(kFirst + 999).outcome, Outcome::kBatch);  // the latest one is always there
}

TEST(KvEventLogTest, ABreakLosesEverything) {
  KvEventLog log({});
  log.Append(Removed(1), absl::UnixEpoch());
  const uint64_t next = log.next_sequence();
  log.Break();
  EXPECT_EQ(log.Read(kFirst).outcome, Outcome::kLost);
  EXPECT_EQ(log.Read(next).outcome, Outcome::kLost);
}

TEST(KvEventLogTest, AClosedLogIsReadToItsEnd) {
  KvEventLog log({});
  int num_news = 0;
  const uint64_t id = log.AddListener([&] { ++num_news; });
  log.Append(Removed(1), absl::UnixEpoch());
  log.Close();
  EXPECT_EQ(num_news, 2);
  EXPECT_EQ(log.Read(kFirst).outcome, Outcome::kBatch);
  EXPECT_EQ(log.Read(kFirst + 1).outcome, Outcome::kClosed);
  log.RemoveListener(id);
  EXPECT_FALSE(log.has_listeners());
}

TEST(KvEventRecorderTest, ARunOfBlocksIsOneEvent) {
  KvEventRecorder recorder;
  const std::vector<TokenId> tokens = {1, 2};
  recorder.OnStored({.parent = std::nullopt, .hash = 10, .tokens = tokens});
  recorder.OnStored({.parent = 10, .hash = 11, .tokens = tokens});
  recorder.OnStored({.parent = 10, .hash = 12, .tokens = tokens});  // another child: not a run
  recorder.OnRemoved(11);
  recorder.OnRemoved(12);
  recorder.OnCleared();
  const std::vector<KvEvent> events = recorder.Take();
  ASSERT_EQ(events.size(), 4u);
  EXPECT_THAT(events[0].hashes, ElementsAre(10, 11));
  EXPECT_THAT(events[0].tokens, ElementsAre(1, 2, 1, 2));
  EXPECT_EQ(events[0].parent, std::nullopt);
  EXPECT_EQ(events[1].parent, 10);
  EXPECT_THAT(events[2].hashes, ElementsAre(11, 12));
  EXPECT_EQ(events[3].kind, KvEvent::Kind::kCleared);
  EXPECT_TRUE(recorder.empty());
}

class EngineKvEventsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto engine = Engine::Open(testing::TinyConfig(testing::MakeTinyModelFolder()));
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }
  absl::StatusOr<KvSubscription> Subscribe(std::optional<uint64_t> from) {
    std::promise<absl::StatusOr<KvSubscription>> promise;
    engine_->SubscribeKvEvents(
        from, [] {}, [&](auto subscription) { promise.set_value(std::move(subscription)); });
    return promise.get_future().get();
  }
  std::unique_ptr<Engine> engine_;
};

TEST_F(EngineKvEventsTest, ASubscriptionBeginsWithWhatThereIs) {
  const std::vector<TokenId> prompt = RandomPrompt(40, 1);
  Generate(*engine_, GreedyRequest(prompt, 1));
  EXPECT_EQ(engine_->kv_event_log().next_sequence(), kFirst);  // nobody listened: nothing is kept
  const auto subscription = Subscribe(std::nullopt);
  ASSERT_TRUE(subscription.ok()) << subscription.status();
  ASSERT_TRUE(subscription->snapshot.has_value());
  ASSERT_EQ(subscription->snapshot->size(), 1u);
  const KvEvent& stored = subscription->snapshot->front();
  const auto block_size = static_cast<size_t>(engine_->model_info().block_size);
  EXPECT_EQ(stored.hashes.size(), prompt.size() / block_size);
  EXPECT_TRUE(std::equal(stored.tokens.begin(), stored.tokens.end(), prompt.begin()));

  Generate(*engine_, GreedyRequest(RandomPrompt(40, 2), 1));
  Generate(*engine_, GreedyRequest(RandomPrompt(8, 3), 1));  // by now the first one's are told
  const KvEventLog::ReadResult next = engine_->kv_event_log().Read(subscription->next_sequence);
  ASSERT_EQ(next.outcome, Outcome::kBatch);
  EXPECT_EQ(next.batch->events[0].kind, KvEvent::Kind::kStored);
}

TEST_F(EngineKvEventsTest, GoesOnWhereItWasOrSaysThatItCannot) {
  EXPECT_EQ(Subscribe(kFirst).status().code(), absl::StatusCode::kOutOfRange);  // nobody listened
  const auto first = Subscribe(std::nullopt);
  ASSERT_TRUE(first.ok());
  const auto again = Subscribe(first->next_sequence);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_FALSE(again->snapshot.has_value());
  EXPECT_EQ(Subscribe(first->next_sequence + 5).status().code(), absl::StatusCode::kOutOfRange);
  engine_->UnsubscribeKvEvents(first->id);
  engine_->UnsubscribeKvEvents(again->id);
  EXPECT_EQ(Subscribe(first->next_sequence).status().code(), absl::StatusCode::kOutOfRange);
}

}  // namespace
}  // namespace quire
