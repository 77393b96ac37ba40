// The engine's counts: a counted workload gives exactly the expected figures.
#include "engine/metrics/engine_metrics.h"

#include <gtest/gtest.h>

#include <numeric>

#include "engine/metrics/meters.h"
#include "tests/engine/tiny_engine.h"

namespace quire {
namespace {

using testing::Answer;
using testing::Generate;
using testing::GreedyRequest;
using testing::RandomPrompt;
using testing::ReadAll;
using testing::Waiter;

uint64_t NumObserved(const Histogram& histogram) {
  const HistogramValues values = histogram.Read();
  return std::accumulate(values.counts.begin(), values.counts.end(), uint64_t{0});
}

uint64_t NumFinished(const EngineMetrics& metrics, FinishReason reason) {
  return metrics.finished[static_cast<size_t>(reason)].value();
}

class EngineMetricsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto engine = Engine::Open(testing::TinyConfig(testing::MakeTinyModelFolder()));
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }
  const EngineMetrics& metrics() const { return engine_->metrics(); }

  Waiter waiter_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(EngineMetricsTest, CountsTokensOfEachSequence) {
  Request request = GreedyRequest(RandomPrompt(40, 1), 5);
  request.sampling.n = 2;
  auto stream = engine_->Submit(request, &waiter_);
  ASSERT_TRUE(stream.ok());
  const std::vector<Answer> answers = ReadAll(**stream, waiter_);
  EXPECT_EQ(metrics().generated_tokens.value(), 10u);
  EXPECT_EQ(metrics().prompt_tokens.value(), 80u);
  EXPECT_EQ(metrics().cached_prompt_tokens.value(),
            static_cast<uint64_t>(answers[0].cached_tokens + answers[1].cached_tokens));
  EXPECT_EQ(NumFinished(metrics(), FinishReason::kLength), 2u);
  EXPECT_EQ(NumFinished(metrics(), FinishReason::kStop), 0u);
  EXPECT_EQ(NumObserved(metrics().time_to_first_token), 2u);
  EXPECT_EQ(NumObserved(metrics().inter_token_latency), 8u);
  for (const Histogram* once :
       {&metrics().e2e_latency, &metrics().queue_time, &metrics().prefill_time,
        &metrics().decode_time, &metrics().inference_time, &metrics().time_per_output_token}) {
    EXPECT_EQ(NumObserved(*once), 2u);
  }
  EXPECT_EQ(metrics().request_prompt_tokens.Read().sum, 80);
  EXPECT_EQ(metrics().request_generated_tokens.Read().sum, 10);
  EXPECT_EQ(metrics().request_max_tokens.Read().sum, 10);
  EXPECT_EQ(metrics().request_n.Read().sum, 2);
  EXPECT_EQ(metrics().request_longest.Read().sum, 5);
}

TEST_F(EngineMetricsTest, CountsStepsByWhatRunsInThem) {
  Generate(*engine_, GreedyRequest(RandomPrompt(40, 2), 4));
  const auto num_of = [&](StepKind kind) {
    return NumObserved(metrics().step_seconds[static_cast<size_t>(kind)]);
  };
  EXPECT_EQ(num_of(StepKind::kPrompt), 1u);
  EXPECT_GE(num_of(StepKind::kDecode), 3u);  // perhaps one that was begun before the end was known
  EXPECT_EQ(num_of(StepKind::kMixed), 0u);
  // A step that was begun before the end was known may be counted as begun and not yet as ended.
  EXPECT_GE(metrics().step_tokens.Read().sum, 43);
  EXPECT_LE(metrics().step_tokens.Read().sum, 44);
}

TEST_F(EngineMetricsTest, CountsWhatIsCancelled) {
  auto stream = engine_->Submit(GreedyRequest(RandomPrompt(8, 3), 400), &waiter_);
  ASSERT_TRUE(stream.ok());
  engine_->Cancel((*stream)->request_id());
  ReadAll(**stream, waiter_);
  EXPECT_EQ(NumFinished(metrics(), FinishReason::kAbort), 1u);
  EXPECT_EQ(NumObserved(metrics().e2e_latency), 1u);
}

TEST_F(EngineMetricsTest, ASecondPromptIsCounted) {
  Generate(*engine_, GreedyRequest(RandomPrompt(40, 4), 1));
  const Answer again = Generate(*engine_, GreedyRequest(RandomPrompt(40, 4), 1));
  ASSERT_EQ(again.cached_tokens, 32);
  EXPECT_EQ(metrics().prompt_tokens.value(), 80u);
  EXPECT_EQ(metrics().cached_prompt_tokens.value(), 32u);
  EXPECT_EQ(NumObserved(metrics().time_per_output_token), 0u);  // one token has no interval
}

TEST(RequestMeterTest, MeasuresFromTheArrival) {
  EngineMetrics metrics(100);
  const absl::Time start = absl::FromUnixSeconds(1000);
  Request request = testing::GreedyRequest({1, 2, 3}, 2);
  request.arrived = start;
  RequestMeter meter(request, start + absl::Seconds(1));
  SequenceEvent event;
  const auto count = [&](SequenceEvent::Kind kind, int second) {
    event.kind = kind;
    event.reason = FinishReason::kStop;
    meter.Count(request, event, start + absl::Seconds(second), &metrics);
  };
  count(SequenceEvent::Kind::kStarted, 3);
  count(SequenceEvent::Kind::kToken, 7);
  count(SequenceEvent::Kind::kToken, 15);
  count(SequenceEvent::Kind::kFinished, 31);
  EXPECT_EQ(metrics.time_to_first_token.Read().sum, 7);
  EXPECT_EQ(metrics.inter_token_latency.Read().sum, 8);
  EXPECT_EQ(metrics.queue_time.Read().sum, 2);
  EXPECT_EQ(metrics.prefill_time.Read().sum, 4);
  EXPECT_EQ(metrics.decode_time.Read().sum, 8);
  EXPECT_EQ(metrics.inference_time.Read().sum, 12);
  EXPECT_EQ(metrics.time_per_output_token.Read().sum, 8);
  EXPECT_EQ(metrics.e2e_latency.Read().sum, 31);
}

TEST(RequestMeterTest, CountsAFailureOfThoseThatHaveNotEnded) {
  EngineMetrics metrics(100);
  Request request = testing::GreedyRequest({1, 2, 3}, 2);
  request.sampling.n = 3;
  const absl::Time now = absl::FromUnixSeconds(1000);
  RequestMeter meter(request, now);
  SequenceEvent event;
  event.kind = SequenceEvent::Kind::kFinished;
  event.key.index = 1;
  event.reason = FinishReason::kStop;
  meter.Count(request, event, now, &metrics);
  meter.CountEnds(request, FinishReason::kError, now, &metrics);
  EXPECT_EQ(metrics.finished[static_cast<size_t>(FinishReason::kError)].value(), 2u);
  EXPECT_EQ(metrics.finished[static_cast<size_t>(FinishReason::kStop)].value(), 1u);
  EXPECT_EQ(NumObserved(metrics.request_n), 1u);
}

TEST(HistogramTest, ABoundIsOfItsBucket) {
  Histogram histogram({1, 2.5});
  for (const double value : {0.0, 1.0, 1.5, 2.5, 2.6}) histogram.Observe(value);
  EXPECT_EQ(histogram.Read().counts, (std::vector<uint64_t>{2, 2, 1}));
  EXPECT_EQ(histogram.Read().sum, 7.6);
}

TEST(HistogramTest, TokenCountsHaveVllmsBuckets) {
  EXPECT_EQ(TokenCountBuckets(100), (std::vector<double>{1, 2, 5, 10, 20, 50, 100}));
  EXPECT_EQ(TokenCountBuckets(99), (std::vector<double>{1, 2, 5, 10, 20, 50}));
}

}  // namespace
}  // namespace quire
