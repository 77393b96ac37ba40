// The output thread: one part under way per writer, early ends, stalls, races of the three sides.
#include "server/request/output/output_pump.h"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "engine/output_writer.h"
#include "server/request/retry_pushback.h"
#include "server/surfaces/grpc/answer_messages.h"
#include "tests/server/request/output/output_test_support.h"

namespace quire {
namespace {

// A client: remembers what was written. Becomes ready at once, or when Resume is called.
class FakeClient {
 public:
  explicit FakeClient(bool holds = false) : holds_(holds) {}

  std::unique_ptr<AnswerWriter> NewWriter();
  void SetKeepsAnswer() { keeps_ = true; }              // before its request starts
  void SetAnswerBytes(size_t n) { answer_bytes_ = n; }  // of each part from now on
  void Write(AnswerPart part, const std::function<void()>& on_ready) {
    {
      std::lock_guard lock(mutex_);
      EXPECT_FALSE(busy_) << "a second part while one is under way";
      EXPECT_FALSE(ended_.HasBeenNotified());
      collector_.Add(std::move(part));
      on_ready_ = on_ready;
      ++num_written_;
      busy_ = true;
      if (holds_) return;
    }
    Resume();
  }
  void End(const absl::Status& status) {
    {
      std::lock_guard lock(mutex_);
      status_ = status;
    }
    ended_.Notify();  // dies if called twice
  }

  // Does what the transport does when a write is done.
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
  int num_written() {
    std::lock_guard lock(mutex_);
    return num_written_;
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
  class Writer;

  std::mutex mutex_;
  bool holds_;
  bool busy_ = false;
  bool keeps_ = false;
  std::atomic<size_t> answer_bytes_ = 0;  // 0: as they are
  int num_written_ = 0;
  std::function<void()> on_ready_;
  AnswerCollector collector_;
  absl::Status status_;
  absl::Notification ended_;
};

class FakeClient::Writer final : public AnswerWriter {
 public:
  explicit Writer(FakeClient* client) : client_(client) {}
  bool KeepsAnswer() const override { return client_->keeps_; }
  size_t AnswerBytes(const AnswerPart& part) const override {
    return client_->answer_bytes_ > 0 ? client_->answer_bytes_.load()
                                      : NumBytes(part, kMessageBytes);
  }
  void Write(AnswerPart part, const std::function<void()>& on_ready) override {
    client_->Write(std::move(part), on_ready);
  }
  void End(const absl::Status& status, AccessEntry) override { client_->End(status); }

 private:
  FakeClient* const client_;
};

std::unique_ptr<AnswerWriter> FakeClient::NewWriter() { return std::make_unique<Writer>(this); }

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

  Running Start(OutputPump& pump, FakeClient* client, const GenerationJob& job) {
    Running running;
    running.stream = std::make_shared<OutputStream>(++last_id_, job.request.sampling.n, &pump);
    running.writer = std::make_unique<OutputWriter>(running.stream, absl::Now(), inbox_);
    RunningRequest request;
    request.stream = running.stream;
    request.builder = std::make_unique<AnswerBuilder>(DemoTokenizer(), job, "id");
    request.writer = client->NewWriter();
    request.lease = *registry_.Enter(principal_, "", std::make_shared<CancelToken>(), absl::Now());
    pump.Add(std::move(request));
    return running;
  }

  void WaitUntilWritten(FakeClient& client, int count) {
    while (client.num_written() < count) absl::SleepFor(absl::Milliseconds(1));
  }

  RequestId last_id_ = 0;
  Principal principal_;
  RequestRegistry registry_;
  FakeCanceller canceller_;
  std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
};

TEST_F(OutputPumpTest, EventsBecomeResponsesAndAnEnd) {
  OutputPump pump(&canceller_, absl::Seconds(60));
  FakeClient client;
  Running running = Start(pump, &client, TestJob());
  running.Write(StartedEvent());
  for (TokenId token : Encode(" there was a duck.")) running.Write(TokenEvent(token));
  running.Write(FinishedEvent(FinishReason::kLength));
  EXPECT_TRUE(client.WaitForEnd().ok());
  EXPECT_EQ(client.Answer().choices(0).text(), " there was a duck.");
  EXPECT_TRUE(registry_.WaitUntilEmpty(absl::Now() + absl::Seconds(20)));
}

TEST_F(OutputPumpTest, ABusyClientGetsTheMergedRestLater) {
  OutputPump pump(&canceller_, absl::Seconds(60));
  FakeClient client(/*holds=*/true);
  Running running = Start(pump, &client, TestJob());
  running.Write(StartedEvent());
  WaitUntilWritten(client, 1);
  for (TokenId token : Encode(" there was a duck.")) running.Write(TokenEvent(token));
  running.Write(FinishedEvent(FinishReason::kLength));
  EXPECT_EQ(client.num_written(), 1);
  client.Resume();
  WaitUntilWritten(client, 2);  // all tokens at once
  client.Resume();
  EXPECT_TRUE(client.WaitForEnd().ok());
  EXPECT_EQ(client.Answer().choices(0).text(), " there was a duck.");
  EXPECT_EQ(client.num_written(), 3);
}

TEST_F(OutputPumpTest, WhileTheClientIsBusyEventsStayInTheRing) {
  OutputPump pump(&canceller_, absl::Seconds(60));
  FakeClient client(/*holds=*/true);
  Running running = Start(pump, &client, TestJob());
  running.Write(StartedEvent());
  WaitUntilWritten(client, 1);
  // The ring takes some events before it asks for a pause; none of them is read.
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
  client.StopHolding();
  EXPECT_TRUE(client.WaitForEnd().ok());
  EXPECT_EQ(client.Answer().choices(0).finished().usage().completion_tokens(), num_written);
}

TEST_F(OutputPumpTest, AStopStringEndsTheSequenceInTheEngine) {
  OutputPump pump(&canceller_, absl::Seconds(60));
  FakeClient client;
  GenerationJob job = TestJob();
  job.output.stop_strings = {"duck"};
  Running running = Start(pump, &client, job);
  running.Write(StartedEvent());
  for (TokenId token : Encode(" a duck")) running.Write(TokenEvent(token));
  while (!canceller_.Has(canceller_.stopped, running.stream->request_id())) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  running.Write(FinishedEvent(FinishReason::kStop));
  EXPECT_TRUE(client.WaitForEnd().ok());
  EXPECT_EQ(client.Answer().choices(0).finished().matched_stop_string(), "duck");
}

TEST_F(OutputPumpTest, AFailedRequestEndsWithItsStatus) {
  OutputPump pump(&canceller_, absl::Seconds(60));
  FakeClient client;
  Running running = Start(pump, &client, TestJob());
  running.Write(StartedEvent());
  running.writer->Fail(absl::UnavailableError("device lost"), absl::Now());
  running.writer->Notify();
  EXPECT_EQ(client.WaitForEnd(), absl::UnavailableError("device lost"));
}

TEST_F(OutputPumpTest, ARefusalByTheQueueAdvisesWhenToRetry) {
  OutputPump pump(&canceller_, absl::Seconds(60));
  FakeClient client;
  Running running = Start(pump, &client, TestJob());
  running.writer->Fail(absl::ResourceExhaustedError("full"), absl::Now());
  running.writer->Notify();
  const absl::Status status = client.WaitForEnd();
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_TRUE(RetryPushbackMs(status).has_value());
}

TEST_F(OutputPumpTest, AStalledClientIsEndedAndItsRequestCancelled) {
  OutputPump pump(&canceller_, absl::Milliseconds(40));
  FakeClient client(/*holds=*/true);
  Running running = Start(pump, &client, TestJob());
  running.Write(StartedEvent());
  EXPECT_TRUE(absl::IsResourceExhausted(client.WaitForEnd()));
  EXPECT_TRUE(canceller_.Has(canceller_.cancelled, running.stream->request_id()));
  client.Resume();  // a late ready changes nothing
  running.Write(FinishedEvent(FinishReason::kAbort));
}

// Who is gone is sent nothing, and nothing of the request stays here, whether the engine has ended
// its continuations or not.
TEST_F(OutputPumpTest, AnAbandonedRequestLeavesAtOnce) {
  OutputPump pump(&canceller_, absl::Seconds(60));
  FakeClient client(/*holds=*/true);
  Running running = Start(pump, &client, TestJob(/*n=*/128));
  running.Write(StartedEvent());
  WaitUntilWritten(client, 1);
  pump.Abandon(running.stream->request_id());
  EXPECT_TRUE(absl::IsCancelled(client.WaitForEnd()));
  EXPECT_TRUE(registry_.WaitUntilEmpty(absl::Now() + absl::Seconds(20)));
  while (running.stream.use_count() > 2) absl::SleepFor(absl::Milliseconds(1));  // the engine's
  running.writer->End(FinishReason::kAbort, absl::OkStatus(), absl::Now());
  running.writer->Notify();
  EXPECT_TRUE(running.writer->finished());
  SequenceEvent event;
  EXPECT_FALSE(running.stream->Read(&event));
  pump.Abandon(running.stream->request_id());  // it is not known any more
  EXPECT_EQ(client.num_written(), 1);
}

// A response holds few of them, or what a client does not read would take much.
TEST_F(OutputPumpTest, TokensWithLogprobsComeInSmallResponses) {
  OutputPump pump(&canceller_, absl::Seconds(60));
  FakeClient client(/*holds=*/true);
  GenerationJob job = TestJob();
  job.output.logprobs = true;
  Running running = Start(pump, &client, job);
  running.Write(StartedEvent());
  WaitUntilWritten(client, 1);
  const TokenId token = Encode(" duck").front();
  constexpr int kNumTokens = 18;
  for (int i = 0; i < kNumTokens; ++i) {
    SequenceEvent event = TokenEvent(token);
    event.logprobs = std::make_unique<TokenLogprobs>();
    event.logprobs->top.resize(20, {token, -1.0f});
    running.Write(std::move(event));
  }
  running.Write(FinishedEvent(FinishReason::kLength));
  client.StopHolding();
  EXPECT_TRUE(client.WaitForEnd().ok());
  EXPECT_EQ(client.Answer().choices(0).logprobs_size(), kNumTokens);
  EXPECT_EQ(client.num_written(), 1 + 3 + 1);  // seven tokens at a time, and the end
}

// Answers that clients want whole are in memory until they end: nobody may fill it with them, nor
// take others' room.
TEST_F(OutputPumpTest, AnswersThatAreKeptHaveTheirBounds) {
  OutputPump pump(&canceller_, absl::Seconds(60), /*max_kept_bytes=*/64 << 10);
  const TokenId word = Encode(" and").front();
  const auto write = [&](Running& running, FakeClient& client, int num_tokens) {
    for (int i = 0; i < num_tokens && !client.has_ended(); ++i) {
      const int before = client.num_written();
      running.Write(before == 0 ? StartedEvent() : TokenEvent(word));
      while (client.num_written() == before && !client.has_ended())
        absl::SleepFor(absl::Microseconds(50));
    }
  };
  constexpr int kFew = 10, kMany = 500;
  principal_.name = "greedy";
  FakeClient long_one, streamed, other;
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
  // Parts that are passed on are not counted, however many they are.
  Running stream = Start(pump, &streamed, TestJob());
  write(stream, streamed, kMany);
  stream.Write(FinishedEvent(FinishReason::kLength));
  EXPECT_TRUE(streamed.WaitForEnd().ok());
}

// An answer that cannot be sent in one piece is not computed to its end, and asking again would not
// help.
TEST_F(OutputPumpTest, AnAnswerThatBecomesTooLargeEndsAsAMistake) {
  OutputPump pump(&canceller_, absl::Seconds(60));
  FakeClient client;
  client.SetKeepsAnswer();
  Running running = Start(pump, &client, TestJob());
  running.Write(StartedEvent());
  WaitUntilWritten(client, 1);
  const TokenId word = Encode(" and").front();
  client.SetAnswerBytes((1 << 20) - 100);
  for (int i = 0; i < 40 && !client.has_ended(); ++i) {
    const int before = client.num_written();
    running.Write(TokenEvent(word));
    while (client.num_written() == before && !client.has_ended())
      absl::SleepFor(absl::Microseconds(50));
  }
  const absl::Status status = client.WaitForEnd();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_FALSE(RetryPushbackMs(status).has_value());
  EXPECT_EQ(client.num_written(), 1 + 8);
  EXPECT_TRUE(canceller_.Has(canceller_.cancelled, running.stream->request_id()));
}

TEST_F(OutputPumpTest, EndAllReachesIdleBusyAndLaterRequests) {
  OutputPump pump(&canceller_, absl::Seconds(60));
  FakeClient idle, busy(/*holds=*/true), late;
  Running first = Start(pump, &idle, TestJob());
  Running second = Start(pump, &busy, TestJob());
  second.Write(StartedEvent());
  WaitUntilWritten(busy, 1);
  pump.EndAll(absl::UnavailableError("bye"));
  Running third = Start(pump, &late, TestJob());
  for (FakeClient* client : {&idle, &busy, &late}) {
    EXPECT_EQ(client->WaitForEnd(), absl::UnavailableError("bye"));
  }
  for (Running* running : {&first, &second, &third}) {
    EXPECT_TRUE(canceller_.Has(canceller_.cancelled, running->stream->request_id()));
    running->Write(FinishedEvent(FinishReason::kAbort));
  }
}

// The engine and the transport on threads of their own: every stream is complete, and no client is
// sent to while it is busy.
TEST_F(OutputPumpTest, ManyStreamsAtOnce) {
  constexpr int kNumStreams = 32;
  constexpr int kNumTokens = 200;
  OutputPump pump(&canceller_, absl::Seconds(60));
  std::vector<std::unique_ptr<FakeClient>> clients;
  std::vector<Running> running;
  for (int i = 0; i < kNumStreams; ++i) {
    clients.push_back(std::make_unique<FakeClient>(/*holds=*/true));
    running.push_back(Start(pump, clients.back().get(), TestJob()));
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
      for (auto& client : clients) client->ResumeIfBusy();
    }
  });
  for (auto& client : clients) {
    EXPECT_TRUE(client->WaitForEnd().ok());
    EXPECT_EQ(client->Answer().choices(0).finished().usage().completion_tokens(), kNumTokens);
  }
  engine.join();
  done = true;
  transport.join();
}

}  // namespace
}  // namespace quire
