// The output thread: one response under way per sink, early ends, stalls, races of the three sides.
#include "server/request/output/output_pump.h"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "engine/output_writer.h"
#include "server/request/output/response_collector.h"
#include "server/request/retry_pushback.h"
#include "tests/server/request/output/output_test_support.h"

namespace quire {
namespace {

// Remembers what it was sent. Becomes ready at once, or when Resume is called.
class FakeSink : public ResponseSink {
 public:
  explicit FakeSink(bool holds = false) : holds_(holds) {}

  void SetReadyCallback(std::function<void()> on_ready) override { on_ready_ = on_ready; }
  bool KeepsAnswer() const override { return keeps_; }
  void SetKeepsAnswer() { keeps_ = true; }  // before its request starts
  size_t AnswerBytes(const v1::GenerateResponse& response) const override {
    return answer_bytes_ > 0 ? answer_bytes_.load() : response.ByteSizeLong();
  }
  void SetAnswerBytes(size_t bytes) { answer_bytes_ = bytes; }  // of each response from now on
  void Send(v1::GenerateResponse response) override {
    {
      std::lock_guard lock(mutex_);
      EXPECT_FALSE(busy_) << "a second response while one is under way";
      EXPECT_FALSE(ended_.HasBeenNotified());
      collector_.Add(std::move(response));
      ++num_sent_;
      busy_ = true;
      if (holds_) return;
    }
    Resume();
  }
  void SendLast(v1::GenerateResponse response) override {
    {
      std::lock_guard lock(mutex_);
      EXPECT_FALSE(busy_);
      collector_.Add(std::move(response));
    }
    End(absl::OkStatus());
  }
  void End(const absl::Status& status) override {
    {
      std::lock_guard lock(mutex_);
      status_ = status;
    }
    ended_.Notify();  // dies if called twice
  }

  // What the transport does when a write is done.
  void Resume() {
    {
      std::lock_guard lock(mutex_);
      busy_ = false;
    }
    on_ready_();
  }
  void StopHolding() {
    {
      std::lock_guard lock(mutex_);
      holds_ = false;
    }
    Resume();
  }
  void ResumeIfBusy() {
    {
      std::lock_guard lock(mutex_);
      if (!busy_) return;
    }
    Resume();
  }
  int num_sent() {
    std::lock_guard lock(mutex_);
    return num_sent_;
  }
  bool has_ended() const { return ended_.HasBeenNotified(); }
  absl::Status WaitForEnd() {
    EXPECT_TRUE(ended_.WaitForNotificationWithTimeout(absl::Seconds(20)));
    std::lock_guard lock(mutex_);
    return status_;
  }
  v1::GenerateOnceResponse Answer() {
    std::lock_guard lock(mutex_);
    return collector_.Take();
  }

 private:
  std::mutex mutex_;
  bool holds_;
  bool busy_ = false;
  bool keeps_ = false;
  std::atomic<size_t> answer_bytes_ = 0;  // 0: as they are
  int num_sent_ = 0;
  std::function<void()> on_ready_;
  ResponseCollector collector_;
  absl::Status status_;
  absl::Notification ended_;
};

class FakeCanceller : public SequenceCanceller {
 public:
  void Cancel(RequestId request) override { Add(cancelled, request); }
  void StopSequence(const SequenceKey& key) override { Add(stopped, key.request); }
  bool Has(const std::vector<RequestId>& list, RequestId id) {
    std::lock_guard lock(mutex_);
    return std::find(list.begin(), list.end(), id) != list.end();
  }
  std::vector<RequestId> cancelled;
  std::vector<RequestId> stopped;

 private:
  void Add(std::vector<RequestId>& list, RequestId id) {
    std::lock_guard lock(mutex_);
    list.push_back(id);
  }
  std::mutex mutex_;
};

class OutputPumpTest : public testing::Test {
 protected:
  // One request as the engine's thread sees it.
  struct Running {
    std::shared_ptr<OutputStream> stream;
    std::unique_ptr<OutputWriter> writer;
    void Write(SequenceEvent event) {
      event.key.request = stream->request_id();
      writer->Write(std::move(event), absl::Now());
      writer->Notify();
    }
  };

  Running Start(OutputPump& pump, ResponseSink* sink, const GenerationJob& job) {
    Running running;
    running.stream = std::make_shared<OutputStream>(++last_id_, job.request.sampling.n, &pump);
    running.writer = std::make_unique<OutputWriter>(running.stream, absl::Now(), inbox_);
    RunningRequest request;
    request.stream = running.stream;
    request.builder = std::make_unique<ResponseBuilder>(DemoTokenizer(), job, "id");
    request.sink = sink;
    request.lease = *registry_.Enter(principal_, "", std::make_shared<CancelToken>(), absl::Now());
    pump.Add(std::move(request));
    return running;
  }

  void WaitUntilSent(FakeSink& sink, int count) {
    while (sink.num_sent() < count) absl::SleepFor(absl::Milliseconds(1));
  }

  RequestId last_id_ = 0;
  Principal principal_;
  RequestRegistry registry_;
  FakeCanceller canceller_;
  std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
};

TEST_F(OutputPumpTest, EventsBecomeResponsesAndAnEnd) {
  OutputPump pump(&canceller_, absl::Seconds(60));
  FakeSink sink;
  Running running = Start(pump, &sink, TestJob());
  running.Write(StartedEvent());
  for (TokenId token : Encode(" there was a duck.")) running.Write(TokenEvent(token));
  running.Write(FinishedEvent(FinishReason::kLength));
  EXPECT_TRUE(sink.WaitForEnd().ok());
  EXPECT_EQ(sink.Answer().choices(0).text(), " there was a duck.");
  EXPECT_TRUE(registry_.WaitUntilEmpty(absl::Now() + absl::Seconds(20)));
}

TEST_F(OutputPumpTest, ABusySinkGetsTheMergedRestLater) {
  OutputPump pump(&canceller_, absl::Seconds(60));
  FakeSink sink(/*holds=*/true);
  Running running = Start(pump, &sink, TestJob());
  running.Write(StartedEvent());
  WaitUntilSent(sink, 1);
  for (TokenId token : Encode(" there was a duck.")) running.Write(TokenEvent(token));
  running.Write(FinishedEvent(FinishReason::kLength));
  EXPECT_EQ(sink.num_sent(), 1);
  sink.Resume();
  WaitUntilSent(sink, 2);  // all tokens at once
  sink.Resume();
  EXPECT_TRUE(sink.WaitForEnd().ok());
  EXPECT_EQ(sink.Answer().choices(0).text(), " there was a duck.");
  EXPECT_EQ(sink.num_sent(), 2);
}

TEST_F(OutputPumpTest, WhileTheSinkIsBusyEventsStayInTheRing) {
  OutputPump pump(&canceller_, absl::Seconds(60));
  FakeSink sink(/*holds=*/true);
  Running running = Start(pump, &sink, TestJob());
  running.Write(StartedEvent());
  WaitUntilSent(sink, 1);
  // The ring takes so many before it asks for a pause; none is read.
  const TokenId token = Encode(" duck").front();
  int num_written = 0;
  bool must_pause = false;
  while (!must_pause) {
    SequenceEvent event = TokenEvent(token);
    event.key.request = running.stream->request_id();
    must_pause = running.writer->Write(std::move(event), absl::Now());
    ASSERT_LE(++num_written, OutputStream::kCapacity);
  }
  running.Write(FinishedEvent(FinishReason::kLength));
  sink.StopHolding();
  EXPECT_TRUE(sink.WaitForEnd().ok());
  EXPECT_EQ(sink.Answer().choices(0).finished().usage().completion_tokens(), num_written);
}

TEST_F(OutputPumpTest, AStopStringEndsTheSequenceInTheEngine) {
  OutputPump pump(&canceller_, absl::Seconds(60));
  FakeSink sink;
  GenerationJob job = TestJob();
  job.output.stop_strings = {"duck"};
  Running running = Start(pump, &sink, job);
  running.Write(StartedEvent());
  for (TokenId token : Encode(" a duck")) running.Write(TokenEvent(token));
  while (!canceller_.Has(canceller_.stopped, running.stream->request_id())) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  running.Write(FinishedEvent(FinishReason::kStop));
  EXPECT_TRUE(sink.WaitForEnd().ok());
  EXPECT_EQ(sink.Answer().choices(0).finished().matched_stop_string(), "duck");
}

TEST_F(OutputPumpTest, AFailedRequestEndsWithItsStatus) {
  OutputPump pump(&canceller_, absl::Seconds(60));
  FakeSink sink;
  Running running = Start(pump, &sink, TestJob());
  running.Write(StartedEvent());
  running.writer->Fail(absl::UnavailableError("device lost"), absl::Now());
  running.writer->Notify();
  EXPECT_EQ(sink.WaitForEnd(), absl::UnavailableError("device lost"));
}

TEST_F(OutputPumpTest, ARefusalByTheQueueAdvisesWhenToRetry) {
  OutputPump pump(&canceller_, absl::Seconds(60));
  FakeSink sink;
  Running running = Start(pump, &sink, TestJob());
  running.writer->Fail(absl::ResourceExhaustedError("full"), absl::Now());
  running.writer->Notify();
  const absl::Status status = sink.WaitForEnd();
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_TRUE(RetryPushbackMs(status).has_value());
}

TEST_F(OutputPumpTest, AStalledSinkIsEndedAndItsRequestCancelled) {
  OutputPump pump(&canceller_, absl::Milliseconds(40));
  FakeSink sink(/*holds=*/true);
  Running running = Start(pump, &sink, TestJob());
  running.Write(StartedEvent());
  EXPECT_TRUE(absl::IsResourceExhausted(sink.WaitForEnd()));
  EXPECT_TRUE(canceller_.Has(canceller_.cancelled, running.stream->request_id()));
  sink.Resume();  // a late ready changes nothing
  running.Write(FinishedEvent(FinishReason::kAbort));
}

// Who is gone is sent nothing, and nothing of the request stays here, whether the engine has ended
// its continuations or not.
TEST_F(OutputPumpTest, AnAbandonedRequestLeavesAtOnce) {
  OutputPump pump(&canceller_, absl::Seconds(60));
  FakeSink sink(/*holds=*/true);
  Running running = Start(pump, &sink, TestJob(/*n=*/128));
  running.Write(StartedEvent());
  WaitUntilSent(sink, 1);
  pump.Abandon(running.stream->request_id());
  EXPECT_TRUE(absl::IsCancelled(sink.WaitForEnd()));
  EXPECT_TRUE(registry_.WaitUntilEmpty(absl::Now() + absl::Seconds(20)));
  while (running.stream.use_count() > 2) absl::SleepFor(absl::Milliseconds(1));  // the engine's
  running.writer->End(FinishReason::kAbort, absl::OkStatus(), absl::Now());
  running.writer->Notify();
  EXPECT_TRUE(running.writer->finished());
  SequenceEvent event;
  EXPECT_FALSE(running.stream->Read(&event));
  pump.Abandon(running.stream->request_id());  // it is not known any more
  EXPECT_EQ(sink.num_sent(), 1);
}

// A response holds few of them, or what a client does not read would take much.
TEST_F(OutputPumpTest, TokensWithLogprobsComeInSmallResponses) {
  OutputPump pump(&canceller_, absl::Seconds(60));
  FakeSink sink(/*holds=*/true);
  GenerationJob job = TestJob();
  job.output.logprobs = true;
  Running running = Start(pump, &sink, job);
  running.Write(StartedEvent());
  WaitUntilSent(sink, 1);
  const TokenId token = Encode(" duck").front();
  constexpr int kNumTokens = 18;
  for (int i = 0; i < kNumTokens; ++i) {
    SequenceEvent event = TokenEvent(token);
    event.logprobs = std::make_unique<TokenLogprobs>();
    event.logprobs->top.resize(20, {token, -1.0f});
    running.Write(std::move(event));
  }
  running.Write(FinishedEvent(FinishReason::kLength));
  sink.StopHolding();
  EXPECT_TRUE(sink.WaitForEnd().ok());
  EXPECT_EQ(sink.Answer().choices(0).logprobs_size(), kNumTokens);
  EXPECT_EQ(sink.num_sent(), 1 + 3);  // seven tokens at a time
}

// Answers that clients want whole are in memory until they end: nobody may fill it with them, nor
// take others' room.
TEST_F(OutputPumpTest, AnswersThatAreKeptHaveTheirBounds) {
  OutputPump pump(&canceller_, absl::Seconds(60), /*max_kept_bytes=*/64 << 10);
  const TokenId word = Encode(" and").front();
  const auto write = [&](Running& running, FakeSink& sink, int num_tokens) {
    for (int i = 0; i < num_tokens && !sink.has_ended(); ++i) {
      const int before = sink.num_sent();
      running.Write(before == 0 ? StartedEvent() : TokenEvent(word));
      while (sink.num_sent() == before && !sink.has_ended()) absl::SleepFor(absl::Microseconds(50));
    }
  };
  constexpr int kFew = 10, kMany = 500;
  principal_.name = "greedy";
  FakeSink long_one, streamed, other;
  long_one.SetKeepsAnswer();
  Running running = Start(pump, &long_one, TestJob());
  write(running, long_one, kFew);
  EXPECT_FALSE(long_one.has_ended());
  write(running, long_one, kMany);
  const absl::Status status = long_one.WaitForEnd();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_TRUE(RetryPushbackMs(status).has_value());
  EXPECT_TRUE(canceller_.Has(canceller_.cancelled, running.stream->request_id()));
  // Until the engine has ended it, it holds what it held; others have room for as much.
  principal_.name = "other";
  other.SetKeepsAnswer();
  Running beside = Start(pump, &other, TestJob());
  write(beside, other, kFew);
  beside.Write(FinishedEvent(FinishReason::kLength));
  EXPECT_TRUE(other.WaitForEnd().ok());
  running.Write(FinishedEvent(FinishReason::kAbort));
  // What is passed on is not counted, however much it is.
  Running stream = Start(pump, &streamed, TestJob());
  write(stream, streamed, kMany);
  stream.Write(FinishedEvent(FinishReason::kLength));
  EXPECT_TRUE(streamed.WaitForEnd().ok());
}

// What cannot be sent in one piece is not computed to its end, and asking again would not help.
TEST_F(OutputPumpTest, AnAnswerThatBecomesTooLargeEndsAsAMistake) {
  OutputPump pump(&canceller_, absl::Seconds(60));
  FakeSink sink;
  sink.SetKeepsAnswer();
  Running running = Start(pump, &sink, TestJob());
  running.Write(StartedEvent());
  WaitUntilSent(sink, 1);
  const TokenId word = Encode(" and").front();
  sink.SetAnswerBytes((1 << 20) - 100);
  for (int i = 0; i < 40 && !sink.has_ended(); ++i) {
    const int before = sink.num_sent();
    running.Write(TokenEvent(word));
    while (sink.num_sent() == before && !sink.has_ended()) absl::SleepFor(absl::Microseconds(50));
  }
  const absl::Status status = sink.WaitForEnd();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_FALSE(RetryPushbackMs(status).has_value());
  EXPECT_EQ(sink.num_sent(), 1 + 8);
  EXPECT_TRUE(canceller_.Has(canceller_.cancelled, running.stream->request_id()));
}

TEST_F(OutputPumpTest, EndAllReachesIdleBusyAndLaterRequests) {
  OutputPump pump(&canceller_, absl::Seconds(60));
  FakeSink idle, busy(/*holds=*/true), late;
  Running first = Start(pump, &idle, TestJob());
  Running second = Start(pump, &busy, TestJob());
  second.Write(StartedEvent());
  WaitUntilSent(busy, 1);
  pump.EndAll(absl::UnavailableError("bye"));
  Running third = Start(pump, &late, TestJob());
  for (FakeSink* sink : {&idle, &busy, &late}) {
    EXPECT_EQ(sink->WaitForEnd(), absl::UnavailableError("bye"));
  }
  for (Running* running : {&first, &second, &third}) {
    EXPECT_TRUE(canceller_.Has(canceller_.cancelled, running->stream->request_id()));
    running->Write(FinishedEvent(FinishReason::kAbort));
  }
}

// The engine and the transport on threads of their own: every stream is complete, and no sink is
// sent to while it is busy.
TEST_F(OutputPumpTest, ManyStreamsAtOnce) {
  constexpr int kNumStreams = 32;
  constexpr int kNumTokens = 200;
  OutputPump pump(&canceller_, absl::Seconds(60));
  std::vector<std::unique_ptr<FakeSink>> sinks;
  std::vector<Running> running;
  for (int i = 0; i < kNumStreams; ++i) {
    sinks.push_back(std::make_unique<FakeSink>(/*holds=*/true));
    running.push_back(Start(pump, sinks.back().get(), TestJob()));
  }
  const TokenId token = Encode(" duck").front();
  std::thread engine([&] {
    for (Running& one : running) one.Write(StartedEvent());
    for (int i = 0; i < kNumTokens; ++i) {
      for (Running& one : running) one.Write(TokenEvent(token));
    }
    for (Running& one : running) one.Write(FinishedEvent(FinishReason::kLength));
  });
  std::atomic<bool> done{false};
  std::thread transport([&] {
    while (!done) {
      for (auto& sink : sinks) sink->ResumeIfBusy();
    }
  });
  for (auto& sink : sinks) {
    EXPECT_TRUE(sink->WaitForEnd().ok());
    EXPECT_EQ(sink->Answer().choices(0).finished().usage().completion_tokens(), kNumTokens);
  }
  engine.join();
  done = true;
  transport.join();
}

}  // namespace
}  // namespace quire
