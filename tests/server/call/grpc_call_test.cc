// Calls over HTTP/2, from the bytes on a socket to a handler and back: messages, bounds, ends.
#include "server/call/grpc_call.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <map>
#include <memory>

#include "absl/time/clock.h"
#include "server/request/limits.h"
#include "server/wire/http2/http2_connection.h"
#include "server/wire/transport/connection_pool.h"
#include "tests/server/surfaces/grpc/http2_client.h"

namespace quire {
namespace {

using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Http2Client;
using ::testing::Pair;

std::string Framed(const std::string& message) {
  std::string bytes;
  AppendMessagePrefix(message.size(), &bytes);
  return bytes + message;
}

class GrpcCallTest : public ::testing::Test {
 protected:
  GrpcCallTest() {
    Add({"/echo", [](const GrpcCallRef& call, std::string message) {
           call->FinishWith(std::move(message));
         }});
    Add({"/fail", [](const GrpcCallRef& call, const std::string& message) {
           call->Finish(absl::NotFoundError(message));
         }});
    Add({"/count", [this](const GrpcCallRef& call, const std::string&) {
           for (int i = 0; i < 3; ++i) call->Send(std::string(1, 'a' + i), [this] { ++num_sent_; });
           call->Finish(absl::OkStatus());
         }});
    Add({"/hold", [this](const GrpcCallRef& call, const std::string&) {
           absl::MutexLock lock(&mutex_);
           held_ = call;
         }});
    GrpcMethod chat = {"/chat", [](const GrpcCallRef& call, std::string message) {
                         call->Send(std::move(message), nullptr);
                       }};
    chat.client_streams = true;
    chat.on_messages_end = [](const GrpcCallRef& call) { call->Finish(absl::OkStatus()); };
    Add(std::move(chat));
  }
  ~GrpcCallTest() override {
    held_ = nullptr;
    pool_.reset();
  }

  void Add(GrpcMethod method) {
    std::string path = method.path;
    methods_.emplace(std::move(path), std::move(method));
  }

  Http2Client& Connect(Http2Limits limits = {}, int64_t max_held_bytes = 96 << 20,
                       uint32_t window_bytes = 1 << 20, int64_t max_connections = 100) {
    start_ = [this](const RequestHead& head, HttpStream* stream) {
      const GrpcMethod& method = methods_.at(head.path);
      auto call = std::make_shared<GrpcCall>(method, AnonymousPrincipal(PeerAddress()), stream,
                                             CallWatch{&live_calls_});
      call->Begin(head.Find("grpc-timeout"));
      return call;
    };
    ConnectionPoolOptions options;
    options.max_held_bytes = max_held_bytes;
    options.max_connections = max_connections;
    pool_ = *ConnectionPool::Start(options, [this, limits](Protocol, ConnectionControl* control) {
      return std::make_unique<Http2Connection>(control, limits, start_);
    });
    client_ = NewClient(window_bytes);
    return *client_;
  }

  std::unique_ptr<Http2Client> NewClient(uint32_t window_bytes = 1 << 20) {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    pool_->Add(UniqueFd(fds[0]), PeerAddress::OfSocket(fds[0]));
    return std::make_unique<Http2Client>(UniqueFd(fds[1]), window_bytes);
  }

  GrpcCallRef WaitForHeld() {
    while (true) {
      {
        absl::MutexLock lock(&mutex_);
        if (held_ != nullptr) return held_;
      }
      absl::SleepFor(absl::Milliseconds(1));
    }
  }

  std::map<std::string, GrpcMethod> methods_;
  StartExchange start_;
  LiveCalls live_calls_;
  std::unique_ptr<ConnectionPool> pool_;
  std::unique_ptr<Http2Client> client_;
  std::atomic<int> num_sent_ = 0;
  absl::Mutex mutex_;
  GrpcCallRef held_;
};

TEST_F(GrpcCallTest, OneMessageInAndOneOut) {
  Http2Client& client = Connect();
  for (const std::string& message :
       {std::string(), std::string("x"), std::string(3'000'000, 'y')}) {
    const int32_t id = client.Call("/echo", message);
    client.SendAll();
    // The client widens no window by itself.
    client.Widen(id, 4 << 20);
    client.Widen(0, 4 << 20);
    const testing::StreamAnswer& answer = client.Wait(id);
    EXPECT_EQ(answer.body, Framed(message));
    EXPECT_EQ(answer.Get(":status"), "200");
    EXPECT_EQ(answer.Get("content-type"), "application/grpc");
    EXPECT_EQ(answer.Get("grpc-status"), "0");
  }
  EXPECT_TRUE(live_calls_.WaitUntilNone(absl::Now() + absl::Seconds(20)));
  EXPECT_EQ(pool_->held_bytes(), 0);
}

TEST_F(GrpcCallTest, AStreamOfMessagesEachSentOnce) {
  Http2Client& client = Connect();
  const testing::StreamAnswer& answer = client.Wait(client.Call("/count", ""));
  EXPECT_EQ(answer.body, Framed("a") + Framed("b") + Framed("c"));
  EXPECT_EQ(answer.Get("grpc-status"), "0");
  EXPECT_EQ(num_sent_, 3);
}

TEST_F(GrpcCallTest, MessagesOfTheClientsStreamAreAnsweredOneByOne) {
  Http2Client& client = Connect();
  const int32_t id = client.Request("/chat", Framed("one") + Framed("") + Framed("three"));
  EXPECT_EQ(client.Wait(id).body, Framed("one") + Framed("") + Framed("three"));
}

// Streams whose messages do not come keep no connection from giving way; one that waits for its
// answer does.
TEST_F(GrpcCallTest, WhoseMessagesDoNotComeGivesWay) {
  Http2Client& half = Connect({}, 96 << 20, 1 << 20, /*max_connections=*/2);
  half.Request("/echo", Framed("half a message").substr(0, 9), /*ends=*/false);
  half.Wait(half.Call("/echo", "which comes behind it"));
  const std::unique_ptr<Http2Client> busy = NewClient();
  const int32_t held = busy->Call("/hold", "");
  busy->SendAll();
  const GrpcCallRef call = WaitForHeld();
  const std::unique_ptr<Http2Client> newcomer = NewClient();
  EXPECT_EQ(newcomer->Wait(newcomer->Call("/echo", "new")).body, Framed("new"));
  EXPECT_FALSE(half.TalkUntil([] { return false; }));
  EXPECT_FALSE(half.timed_out());
  call->FinishWith("the answer");
  EXPECT_EQ(busy->Wait(held).body, Framed("the answer"));
}

// So does who opens no window for its answers.
TEST_F(GrpcCallTest, WhoTakesNoAnswerGivesWay) {
  Http2Client& blocked = Connect({}, 96 << 20, /*window_bytes=*/0, /*max_connections=*/2);
  blocked.Call("/echo", "an answer");
  EXPECT_EQ(blocked.Wait(blocked.Call("/fail", "trailers need no window")).Get("grpc-status"), "5");
  const std::unique_ptr<Http2Client> busy = NewClient();
  const int32_t held = busy->Call("/hold", "");
  busy->SendAll();
  const GrpcCallRef call = WaitForHeld();
  const std::unique_ptr<Http2Client> newcomer = NewClient();
  EXPECT_EQ(newcomer->Wait(newcomer->Call("/echo", "new")).body, Framed("new"));
  EXPECT_FALSE(blocked.TalkUntil([] { return false; }));
  EXPECT_FALSE(blocked.timed_out());
  call->FinishWith("the answer");
  EXPECT_EQ(busy->Wait(held).body, Framed("the answer"));
}

// Nobody is answered in less: what would be done is done for nobody.
TEST_F(GrpcCallTest, WithoutTimeNothingIsBegun) {
  Http2Client& client = Connect();
  const testing::StreamAnswer& answer =
      client.Wait(client.Call("/hold", "", {{"grpc-timeout", "1n"}}));
  EXPECT_EQ(answer.Get("grpc-status"), "4");
  absl::MutexLock lock(&mutex_);
  EXPECT_EQ(held_, nullptr);
}

TEST_F(GrpcCallTest, AnErrorIsTrailersAlone) {
  Http2Client& client = Connect();
  const testing::StreamAnswer& answer = client.Wait(client.Call("/fail", "no such thing"));
  EXPECT_EQ(answer.Get(":status"), "200");
  EXPECT_EQ(answer.Get("grpc-status"), "5");
  EXPECT_EQ(answer.Get("grpc-message"), "no such thing");
  EXPECT_EQ(answer.body, "");
}

TEST_F(GrpcCallTest, WrongRequestsAreToldWhatIsWrong) {
  Http2Client& client = Connect();
  const auto check = [&](std::string body, const std::string& code, const std::string& sentence) {
    const testing::StreamAnswer& answer = client.Wait(client.Request("/echo", std::move(body)));
    EXPECT_EQ(answer.Get("grpc-status"), code);
    EXPECT_THAT(answer.Get("grpc-message"), HasSubstr(sentence));
  };
  check("", "3", "without a message");
  check(Framed("message").substr(0, 8), "3", "within a message");
  check(Framed("message").substr(0, 3), "3", "within a message");
  check(Framed("one") + Framed("two"), "3", "one message");
  check(std::string("\1\0\0\0\1x", 6), "12", "compressed");
  std::string huge;
  AppendMessagePrefix(kMaxRequestBytes + 1, &huge);
  check(huge, "8", "at most");
}

TEST_F(GrpcCallTest, TheDeadlineEndsTheCallAndCancelsItsWork) {
  Http2Client& client = Connect();
  const int32_t id = client.Call("/hold", "", {{"grpc-timeout", "20m"}});
  const testing::StreamAnswer& answer = client.Wait(id);
  EXPECT_EQ(answer.Get("grpc-status"), "4");
  EXPECT_TRUE(WaitForHeld()->token()->cancelled());
  EXPECT_EQ(client.Wait(client.Call("/hold", "", {{"grpc-timeout", "soon"}})).Get("grpc-status"),
            "3");
}

TEST_F(GrpcCallTest, AClientThatCancelsOrGoesCancelsItsWork) {
  Http2Client& client = Connect();
  const int32_t id = client.Call("/hold", "");
  client.SendAll();
  const GrpcCallRef call = WaitForHeld();
  EXPECT_FALSE(call->token()->cancelled());
  client.Cancel(id);
  client.SendAll();
  while (!call->token()->cancelled()) absl::SleepFor(absl::Milliseconds(1));
  {
    absl::MutexLock lock(&mutex_);
    held_ = nullptr;
  }
  client.Call("/hold", "");
  client.SendAll();
  const GrpcCallRef second = WaitForHeld();
  client_.reset();
  while (!second->token()->cancelled()) absl::SleepFor(absl::Milliseconds(1));
  second->Send("too late", [this] { ++num_sent_; });  // told at once that the next may come
  while (num_sent_ == 0) absl::SleepFor(absl::Milliseconds(1));
}

TEST_F(GrpcCallTest, AnErrorIsHeardByWhoReadsNothing) {
  Http2Client& client = Connect({}, 96 << 20, /*window_bytes=*/0);
  const int32_t id = client.Call("/hold", "");
  client.SendAll();
  const GrpcCallRef call = WaitForHeld();
  call->Send("never read", [this] { ++num_sent_; });
  call->Finish(absl::UnavailableError("going down"));
  const testing::StreamAnswer& answer = client.Wait(id);
  EXPECT_EQ(answer.Get("grpc-message"), "going down");
  EXPECT_EQ(answer.body, "");
  EXPECT_EQ(num_sent_, 1);
}

TEST_F(GrpcCallTest, WhatIsReadLateIsStillAllThere) {
  Http2Client& client = Connect({}, 96 << 20, /*window_bytes=*/0);
  const int32_t id = client.Call("/count", "");
  EXPECT_TRUE(client.TalkUntil([&] { return client.answer(id).Get(":status") == "200"; }));
  EXPECT_EQ(num_sent_, 0);
  client.Widen(id, 100);
  EXPECT_EQ(client.Wait(id).body, Framed("a") + Framed("b") + Framed("c"));
}

TEST_F(GrpcCallTest, MessagesThatFindNoRoomAreRefusedAndSmallOnesAreNot) {
  Http2Client& client = Connect({}, /*max_held_bytes=*/0);
  const testing::StreamAnswer& answer = client.Wait(client.Call("/echo", std::string(5000, 'x')));
  EXPECT_EQ(answer.Get("grpc-status"), "8");
  EXPECT_NE(answer.Get("grpc-retry-pushback-ms"), "");
  EXPECT_EQ(client.Wait(client.Call("/echo", std::string(1000, 'x'))).Get("grpc-status"), "0");
  EXPECT_EQ(pool_->held_bytes(), 0);
}

TEST_F(GrpcCallTest, WhatAnUnfinishedRequestHoldsIsGivenBackWithItsStream) {
  Http2Client& client = Connect();
  std::string body;
  AppendMessagePrefix(100'000, &body);
  const int32_t id = client.Request("/echo", body + "the beginning", /*ends=*/false);
  client.SendAll();
  while (pool_->held_bytes() < 100'000) absl::SleepFor(absl::Milliseconds(1));
  client.Cancel(id);
  client.SendAll();
  while (pool_->held_bytes() != 0) absl::SleepFor(absl::Milliseconds(1));
}

TEST_F(GrpcCallTest, RequestsThatDoNotEndAreEnded) {
  Http2Limits limits;
  limits.request = absl::ZeroDuration();
  Http2Client& client = Connect(limits);
  const int32_t id = client.Request("/echo", "", /*ends=*/false);
  EXPECT_EQ(client.Wait(id).Get("grpc-status"), "4");
}

TEST_F(GrpcCallTest, HeadersBeyondTheLimitAreRefusedAndTheConnectionGoesOn) {
  Http2Client& client = Connect();
  const int32_t id = client.Call("/echo", "", {{"x", std::string(17 << 10, 'y')}});
  EXPECT_EQ(client.Wait(id).Get(":status"), "431");
  EXPECT_EQ(client.Wait(client.Call("/echo", "x")).Get("grpc-status"), "0");
}

TEST_F(GrpcCallTest, AShutdownLetsCallsEndAndSaysSo) {
  Http2Client& client = Connect();
  const int32_t id = client.Call("/hold", "");
  client.SendAll();
  const GrpcCallRef call = WaitForHeld();
  pool_->BeginShutdown();
  EXPECT_TRUE(client.TalkUntil([&] { return client.goaways().size() == 2; }));
  call->FinishWith("done");
  EXPECT_EQ(client.Wait(id).body, Framed("done"));
  EXPECT_FALSE(client.TalkUntil([] { return false; }));
  EXPECT_FALSE(client.timed_out()) << "the connection does not end";
  constexpr char kReason[] = "the server is shutting down";
  EXPECT_THAT(client.goaways(), ElementsAre(Pair(INT32_MAX, kReason), Pair(id, kReason)));
  client_.reset();
  EXPECT_TRUE(pool_->WaitUntilEmpty(absl::Now() + absl::Seconds(20)));
}

TEST_F(GrpcCallTest, ManyCallsAtOnceAreNoFlood) {
  Http2Client& client = Connect();
  for (int round = 0; round < 5; ++round) {
    std::vector<int32_t> ids;
    ids.reserve(1000);
    for (int i = 0; i < 1000; ++i) ids.push_back(client.Call("/echo", "x"));
    for (const int32_t id : ids) ASSERT_EQ(client.Wait(id).Get("grpc-status"), "0");
  }
}

TEST_F(GrpcCallTest, OnlyAnAnswerThatIsTakenPaysForItsCall) {
  Http2Client& client = Connect({}, 96 << 20, /*window_bytes=*/0);
  const int32_t id = client.Call("/hold", "");
  client.SendAll();
  const GrpcCallRef call = WaitForHeld();
  call->cost()->Charge(0.6);
  call->FinishWith("answer");
  EXPECT_TRUE(client.TalkUntil([&] { return client.answer(id).Get(":status") == "200"; }));
  EXPECT_FALSE(call->cost()->account().is_full()) << "it is not read yet";
  client.Widen(id, 100);
  EXPECT_EQ(client.Wait(id).body, Framed("answer"));
  EXPECT_LE(call->cost()->account().may_work_at(), absl::Now());
}

TEST_F(GrpcCallTest, WhoSendsFramesThatServeNobodyWithoutEndIsNotServed) {
  Http2Client& client = Connect();
  const auto waste = [&](int num_frames) {
    for (int i = 0; i < num_frames; ++i) {
      client.Widen(0, 1);
      if (i % 50 == 0) client.SendAll();
    }
  };
  waste(1200);  // more than the bucket holds: the call waits, and is served
  EXPECT_EQ(client.Wait(client.Call("/echo", "x")).Get("grpc-status"), "0");
  waste(30'000);
  EXPECT_FALSE(client.TalkUntil([] { return false; }));
  EXPECT_FALSE(client.timed_out()) << "the connection goes on";
  EXPECT_THAT(client.goaways(), ElementsAre(Pair(_, "too many frames that serve nobody")));
  EXPECT_TRUE(pool_->WaitUntilEmpty(absl::Now() + absl::Seconds(20)));
}

// As a client widens windows that has been too busy to do so before.
TEST_F(GrpcCallTest, WindowUpdatesOfManyAnswersMayComeTogether) {
  constexpr int kNumMessages = 15'000;
  Http2Client& client = Connect();
  const int32_t id = client.Call("/hold", "");
  client.Widen(0, 1 << 20);
  client.SendAll();
  const GrpcCallRef call = WaitForHeld();
  for (int i = 1; i <= kNumMessages; ++i) {
    call->Send("x", nullptr);
    const size_t num_bytes = i * Framed("x").size();
    ASSERT_TRUE(client.TalkUntil([&] { return client.answer(id).body.size() == num_bytes; }));
  }
  for (int i = 0; i < 2 * kNumMessages; ++i) client.Widen(id, 1);
  EXPECT_EQ(client.Wait(client.Call("/echo", "x")).Get("grpc-status"), "0");
  EXPECT_TRUE(client.goaways().empty());
  call->Finish(absl::OkStatus());
  EXPECT_EQ(client.Wait(id).Get("grpc-status"), "0");
}

}  // namespace
}  // namespace quire
