// HTTP/1.1 from clients that break its rules, send too much or too slowly, do not read, or leave.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "server/request/limits.h"
#include "tests/server/wire/http1/http1_connection_fixture.h"

namespace quire {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Malformed {
  std::string bytes;
  std::string status;
};

class MalformedTest : public Http1ConnectionTest,
                      public ::testing::WithParamInterface<Malformed> {};

TEST_P(MalformedTest, IsRefusedAndTheConnectionCloses) {
  const std::string answer = Exchange(GetParam().bytes + Get("/hello?smuggled"));
  EXPECT_THAT(answer, StartsWith(absl::StrCat("HTTP/1.1 ", GetParam().status, " ")));
  EXPECT_THAT(answer, Not(HasSubstr("smuggled")));
}

INSTANTIATE_TEST_SUITE_P(
    All, MalformedTest,
    ::testing::Values(
        Malformed{Post("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), "400"},
        Malformed{Post("Content-Length: 3\r\nContent-Length: 3\r\n", "abc"), "400"},
        Malformed{Post("Content-Length: 3, 3\r\n", "abc"), "400"},
        Malformed{Post("Content-Length: +3\r\n", "abc"), "400"},
        Malformed{Post("Content-Length: -1\r\n", ""), "400"},
        Malformed{Post("Content-Length: 99999999999999999999\r\n", ""), "400"},
        Malformed{Post("Content-Length : 3\r\n", "abc"), "400"},
        Malformed{Post("Transfer-Encoding: gzip, chunked\r\n", ""), "501"},
        Malformed{Post("Transfer-Encoding: identity\r\n", ""), "501"},
        Malformed{Post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", ""), "400"},
        Malformed{Post("Transfer-Encoding: chunked\r\n", "zz\r\n"), "400"},
        Malformed{Post("Transfer-Encoding: chunked\r\n", "3\nabc\r\n0\r\n\r\n"), "400"},
        Malformed{Post("Transfer-Encoding: chunked\r\n", "3\r\nabcd\r\n0\r\n\r\n"), "400"},
        Malformed{Post("Transfer-Encoding: chunked\r\n", "FFFFFFFFFFFFFFFFF\r\n"), "400"},
        Malformed{Post("Transfer-Encoding: chunked\r\n", " 3\r\nabc\r\n0\r\n\r\n"), "400"},
        Malformed{Get("/hello", "Folded: a\r\n b\r\n"), "400"},
        Malformed{Get("/hello", "Name\r\n"), "400"}, Malformed{Get("/hello", "A: b\rc\r\n"), "400"},
        Malformed{Get("/hello", std::string("A: b\0c\r\n", 8)), "400"},
        Malformed{Get("/hello", "Host: y\r\n"), "400"},
        Malformed{"GET /hello HTTP/1.1\r\n\r\n", "400"},
        Malformed{"GET /hello HTTP/1.1\nHost: x\r\n\r\n", "400"},
        Malformed{"GET  /hello HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
        Malformed{"GET hello HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
        Malformed{"GET /h\x80 HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
        Malformed{"GET /hello\r\n\r\n", "400"},
        Malformed{"G(T /hello HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
        Malformed{"GET /hello HTTP/3.0\r\nHost: x\r\n\r\n", "505"},
        Malformed{"CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n", "501"},
        Malformed{Get("/hello", "Expect: 200-ok\r\n"), "417"},
        Malformed{Get("/hello", absl::StrCat("A: ", std::string(20'000, 'a'), "\r\n")), "431"},
        Malformed{"\x01\x02\x03\r\n\r\n", "400"}));

TEST_F(Http1ConnectionTest, ManyHeadersAreRefused) {
  std::string headers;
  for (int i = 0; i < 101; ++i) absl::StrAppend(&headers, "a", i, ": b\r\n");
  EXPECT_THAT(Exchange(Get("/hello", headers)), StartsWith("HTTP/1.1 431"));
}

TEST_F(Http1ConnectionTest, ABodyThatIsTooLongIsRefusedAtOnce) {
  EXPECT_THAT(Exchange(Post(absl::StrCat("Content-Length: ", kMaxRequestBytes + 1, "\r\n"), "")),
              StartsWith("HTTP/1.1 413"));
  std::string chunks = Post("Transfer-Encoding: chunked\r\n", "");
  for (size_t i = 0; i <= kMaxRequestBytes / 65536; ++i) {
    absl::StrAppend(&chunks, "10000\r\n", std::string(65536, 'x'), "\r\n");
  }
  EXPECT_THAT(Exchange(chunks), StartsWith("HTTP/1.1 413"));
}

TEST_F(Http1ConnectionTest, AShortBodyOfARefusedRequestIsReadOver) {
  Http1Client& client = Connect();
  client.Send("POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n" +
              std::string(1000, 'x') + Get("/hello?after"));
  EXPECT_THAT(client.ReadUntil("hello after"), StartsWith("HTTP/1.1 404"));
}

TEST_F(Http1ConnectionTest, SlowHeadsAndBodiesEnd) {
  Http1Limits limits;
  limits.header = limits.request = absl::Milliseconds(50);
  EXPECT_THAT(Exchange("GET /hello HTTP/1.1\r\nHos", limits), StartsWith("HTTP/1.1 408"));
  EXPECT_THAT(Exchange(Post("Content-Length: 10\r\n", "abc"), limits), StartsWith("HTTP/1.1 408"));
}

TEST_F(Http1ConnectionTest, SilentConnectionsEnd) {
  Http1Limits limits;
  limits.idle = absl::Milliseconds(50);
  EXPECT_THAT(Exchange(Get("/hello"), limits), EndsWith("hello "));
}

// A client that announces a body and does not send it has no more right to its connection than one
// that says nothing. A client that waits for an answer has.
TEST_F(Http1ConnectionTest, WhoseBodyDoesNotComeGivesWay) {
  Http1Client& half = Connect({}, 96 << 20, /*max_connections=*/2);
  half.Send(Post("Content-Length: 99\r\nExpect: 100-continue\r\n", ""));
  half.ReadUntil("100 Continue\r\n\r\n");
  half.Send("some");
  const std::unique_ptr<Http1Client> busy = NewClient();
  busy->Send(Get("/hold"));
  const HttpCallRef call = WaitForHeld();
  const std::unique_ptr<Http1Client> newcomer = NewClient();
  newcomer->Send(Get("/hello"));
  EXPECT_THAT(newcomer->ReadUntil("hello "), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(half.ReadToEnd(), StartsWith("HTTP/1.1 408"));
  call->Answer({.body = "the answer"});
  EXPECT_THAT(busy->ReadUntil("the answer"), StartsWith("HTTP/1.1 200"));
}

TEST_F(Http1ConnectionTest, TheRestOfARefusedBodyIsNotWaitedForLong) {
  Http1Limits limits;
  limits.dropped = absl::Milliseconds(50);
  const std::string head = "POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n";
  EXPECT_THAT(Exchange(head, limits), StartsWith("HTTP/1.1 404"));
}

TEST_F(Http1ConnectionTest, WithoutRoomRequestsAreRefused) {
  Http1Client& client = Connect({}, /*max_held_bytes=*/64 << 10);
  client.Send(Post("Content-Length: 60000\r\n", std::string(60000, 'x')));
  EXPECT_THAT(client.ReadUntil("}}"), StartsWith("HTTP/1.1 429"));
}

TEST_F(Http1ConnectionTest, AClientThatLeavesCancelsItsCall) {
  Http1Client& client = Connect();
  client.Send(Get("/hold"));
  const HttpCallRef call = WaitForHeld();
  EXPECT_FALSE(call->token()->cancelled());
  absl::Mutex mutex;
  bool cancelled = false;
  call->token()->Bind([&] {
    absl::MutexLock lock(&mutex);
    cancelled = true;
  });
  client.Close();
  absl::MutexLock lock(&mutex);
  EXPECT_TRUE(mutex.AwaitWithTimeout(absl::Condition(&cancelled), absl::Seconds(20)));
}

TEST_F(Http1ConnectionTest, WhoDoesNotReadGetsNoMore) {
  Http1Client& client = Connect();
  client.Send(Get("/hold"));
  const HttpCallRef call = WaitForHeld();
  call->Begin({});
  // Each part when the one before is on its way.
  constexpr int kParts = 400;
  const std::string part(65536, 'x');
  struct State {
    absl::Mutex mutex;
    int num_given = 0;
  } state;
  std::function<void()> give = [&] {
    absl::MutexLock lock(&state.mutex);
    if (state.num_given == kParts) return;
    if (++state.num_given == kParts) {
      call->Send(part, nullptr);
      call->Finish(absl::StatusCode::kOk);
    } else {
      call->Send(part, give);
    }
  };
  give();
  client.ReadUntil("\r\n\r\n");
  {
    absl::MutexLock lock(&state.mutex);
    EXPECT_LT(state.num_given, kParts);
  }
  EXPECT_LT(pool_->held_bytes(), 256 << 10);
  EXPECT_GT(client.ReadUntil("\r\n0\r\n\r\n").size(), kParts * part.size());
}

TEST_F(Http1ConnectionTest, AtTheEndOfTheServerCallsGetTheirAnswer) {
  Http1Client& client = Connect();
  const std::unique_ptr<Http1Client> idle = NewClient();
  idle->Send(Get("/hello"));
  idle->ReadUntil("hello ");
  client.Send(Get("/hold") + Get("/hello?ahead"));
  const HttpCallRef call = WaitForHeld();
  pool_->BeginShutdown();
  EXPECT_EQ(idle->ReadToEnd(), "");
  call->Answer({.body = "the answer"});
  const std::string answer = client.ReadToEnd();
  EXPECT_THAT(answer, HasSubstr("connection: close\r\n"));
  EXPECT_THAT(answer, EndsWith("the answer"));
  EXPECT_TRUE(pool_->WaitUntilEmpty(absl::Now() + absl::Seconds(20)));
}

TEST_F(Http1ConnectionTest, WhatARequestHoldsIsGivenBack) {
  Http1Client& client = Connect();
  client.Send(Get("/hold") + Get("/hello?ahead"));
  const HttpCallRef call = WaitForHeld();
  client.Close();
  ExpectNothingIsHeld();
}

// A long prompt says nothing for minutes; clients and proxies wait for less.
TEST_F(Http1ConnectionTest, ASilentStreamOfEventsSaysThatItLives) {
  ping_interval_ = absl::Milliseconds(20);
  Http1Client& client = Connect();
  client.Send(Get("/hold"));
  const HttpCallRef call = WaitForHeld();
  const HttpAnswer head = {.content_type = "text/event-stream"};
  call->KeepAlive(head);
  EXPECT_THAT(client.ReadUntil(": ping\n\n"),
              AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), HasSubstr("text/event-stream")));
  client.ReadUntil(": ping\n\n");
  call->Begin(head);  // has begun already
  call->Send("data: 1\n\n", nullptr);
  EXPECT_THAT(client.ReadUntil("data: 1\n\n"), Not(HasSubstr("HTTP/1.1")));
  client.ReadUntil(": ping\n\n");
  // The status is gone.
  call->EndWithError(ErrorAnswer(500, "broken"), "data: an error\n\n", absl::StatusCode::kInternal);
  EXPECT_THAT(client.ReadUntil("\r\n0\r\n\r\n"),
              AllOf(HasSubstr("data: an error\n\n"), Not(HasSubstr("HTTP/1.1"))));
  client.Send(Get("/hello"));
  EXPECT_THAT(client.ReadUntil("hello "), StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST_F(Http1ConnectionTest, AnErrorBeforeTheFirstSignOfLifeHasItsStatus) {
  ping_interval_ = absl::Hours(1);
  Http1Client& client = Connect();
  client.Send(Get("/hold", kClose));
  const HttpCallRef call = WaitForHeld();
  call->KeepAlive({.content_type = "text/event-stream"});
  call->EndWithError(ErrorAnswer(500, "broken"), "data: an error\n\n", absl::StatusCode::kInternal);
  EXPECT_THAT(client.ReadToEnd(), AllOf(StartsWith("HTTP/1.1 500"), Not(HasSubstr("data: "))));
}

}  // namespace
}  // namespace quire
