// HTTP/1.1 from the bytes on a socket to a route and back: heads, bodies, order, bounds, ends.
#include "server/http1/http1_connection.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/auth/authenticator.h"
#include "server/auth/gate.h"
#include "server/request/limits.h"
#include "server/transport/connection_pool.h"
#include "server/web/http_call.h"
#include "server/web/http_server.h"

namespace quire {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Blocking; waits at most 20 s for what comes.
class Client {
 public:
  explicit Client(UniqueFd fd) : fd_(std::move(fd)) {
    const timeval timeout = {20, 0};
    setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  }

  void Send(const std::string& bytes) {
    size_t begin = 0;
    while (begin < bytes.size()) {
      const ssize_t count =
          send(fd_.get(), bytes.data() + begin, bytes.size() - begin, MSG_NOSIGNAL);
      if (count <= 0) return;
      begin += static_cast<size_t>(count);
    }
  }

  // What comes until the text does, or until the end.
  std::string ReadUntil(const std::string& text) {
    while (read_.find(text) == std::string::npos && ReadMore()) {
    }
    const size_t end = read_.find(text);
    const std::string found = read_.substr(0, end == std::string::npos ? end : end + text.size());
    read_.erase(0, found.size());
    return found;
  }

  std::string ReadToEnd() {
    while (ReadMore()) {
    }
    EXPECT_FALSE(timed_out_) << "the connection stays open";
    return std::exchange(read_, {});
  }

  void Close() { fd_.Reset(); }

 private:
  bool ReadMore() {
    char buffer[65536];
    const ssize_t count = recv(fd_.get(), buffer, sizeof(buffer), 0);
    timed_out_ = count < 0 && errno == EAGAIN;
    if (count > 0) read_.append(buffer, static_cast<size_t>(count));
    return count > 0;
  }

  UniqueFd fd_;
  std::string read_;
  bool timed_out_ = false;
};

class Http1ConnectionTest : public ::testing::Test {
 protected:
  Http1ConnectionTest() {
    routes_.push_back(TellingRoute("/hello", Role::kInference, [](const HttpRequest& request) {
      return HttpAnswer{.content_type = "text/plain", .body = "hello " + request.query};
    }));
    routes_.push_back(TellingRoute("/below/*", Role::kInference, [](const HttpRequest& request) {
      return HttpAnswer{.content_type = "text/plain", .body = request.rest};
    }));
    routes_.push_back(
        {"POST", "/echo", Role::kInference, [](const HttpCallRef& call, HttpRequest request) {
           call->Answer({.body = std::move(request.body)});
         }});
    routes_.push_back(
        {"GET", "/parts", Role::kInference, [this](const HttpCallRef& call, const HttpRequest&) {
           call->Begin({.content_type = "text/event-stream"});
           for (const char* part : {"one", "two", "three"}) {
             call->Send(part, [this] { ++num_sent_; });
           }
           call->Finish(absl::StatusCode::kOk);
         }});
    routes_.push_back(
        {"GET", "/hold", Role::kInference, [this](const HttpCallRef& call, const HttpRequest&) {
           absl::MutexLock lock(&mutex_);
           held_ = call;
         }});
  }
  ~Http1ConnectionTest() override {
    held_ = nullptr;
    client_.reset();
    pool_.reset();
  }

  Client& Connect(Http1Limits limits = {}, int64_t max_held_bytes = 96 << 20,
                  int64_t max_connections = 100) {
    limits_ = limits;
    server_ = std::make_unique<HttpServer>(&gate_, *Cors::Parse({"http://y"}), routes_, nullptr,
                                           nullptr, nullptr, ping_interval_);
    ConnectionPoolOptions options;
    options.max_held_bytes = max_held_bytes;
    options.max_connections = max_connections;
    pool_ = *ConnectionPool::Start(options, [this](Protocol, ConnectionControl* control) {
      return std::make_unique<Http1Connection>(control, limits_, start_);
    });
    client_ = NewClient();
    return *client_;
  }

  std::unique_ptr<Client> NewClient() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    pool_->Add(UniqueFd(fds[0]), PeerAddress::OfSocket(fds[0]));
    return std::make_unique<Client>(UniqueFd(fds[1]));
  }

  HttpCallRef WaitForHeld() {
    absl::MutexLock lock(&mutex_);
    const auto has_one = [this]() { return held_ != nullptr; };
    mutex_.Await(absl::Condition(&has_one));
    return held_;
  }

  // All that one connection says to these bytes.
  std::string Exchange(const std::string& bytes, Http1Limits limits = {}) {
    Client& client = Connect(limits);
    client.Send(bytes);
    std::string answer = client.ReadToEnd();
    EXPECT_TRUE(server_->FinishCalls(absl::Now() + absl::Seconds(20)));
    ExpectNothingIsHeld();
    return answer;
  }

  // A connection gives back what it holds just after the pool has let go of it.
  void ExpectNothingIsHeld() {
    const absl::Time give_up = absl::Now() + absl::Seconds(20);
    EXPECT_TRUE(pool_->WaitUntilEmpty(give_up));
    while (pool_->held_bytes() != 0 && absl::Now() < give_up) absl::SleepFor(absl::Milliseconds(1));
    EXPECT_EQ(pool_->held_bytes(), 0);
  }

  std::vector<HttpRoute> routes_;
  const Gate gate_{{}, {}, Authenticator(nullptr, false)};
  Http1Limits limits_;
  absl::Duration ping_interval_ = absl::ZeroDuration();
  std::unique_ptr<HttpServer> server_;
  const StartExchange start_ = [this](RequestHead head, HttpStream* stream) {
    return server_->Start(std::move(head), stream);
  };
  std::unique_ptr<ConnectionPool> pool_;
  std::unique_ptr<Client> client_;
  std::atomic<int> num_sent_ = 0;
  absl::Mutex mutex_;
  HttpCallRef held_;
};

std::string Get(const std::string& path, const std::string& headers = "") {
  return absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: x\r\n", headers, "\r\n");
}

std::string Post(const std::string& headers, const std::string& body) {
  return absl::StrCat("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n",
                      headers, "\r\n", body);
}

constexpr char kClose[] = "Connection: close\r\n";

TEST_F(Http1ConnectionTest, ConnectionsAreKeptUntilOneSideSaysClose) {
  Client& client = Connect();
  for (int i = 0; i < 3; ++i) {
    client.Send(Get("/hello?you"));
    EXPECT_THAT(client.ReadUntil("hello you"), StartsWith("HTTP/1.1 200 OK\r\n"));
  }
  client.Send(Get("/hello", kClose));
  EXPECT_THAT(client.ReadToEnd(), HasSubstr("connection: close\r\n"));
}

TEST_F(Http1ConnectionTest, OfHttp10OnlyWhatAsksForItIsKept) {
  Client& client = Connect();
  client.Send("GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_THAT(client.ReadUntil("hello "), HasSubstr("connection: keep-alive\r\n"));
  // Without lengths the end of the connection is that of the body.
  client.Send("GET /parts HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  const std::string answer = client.ReadToEnd();
  EXPECT_THAT(answer, EndsWith("\r\n\r\nonetwothree"));
  EXPECT_THAT(answer, HasSubstr("connection: close\r\n"));
}

TEST_F(Http1ConnectionTest, RequestsSentAheadAreAnsweredInOrder) {
  std::string requests, expected;
  for (int i = 0; i < 300; ++i) {
    absl::StrAppend(&requests, i % 3 == 0 ? Post("Content-Length: 2\r\n", absl::StrCat(i % 90 + 10))
                                          : Get(absl::StrCat("/hello?", i, ".")));
  }
  absl::StrAppend(&requests, Get("/hello?last", kClose));
  const std::string answers = Exchange(requests);
  size_t place = 0;
  for (int i = 0; i < 300; ++i) {
    const std::string body =
        i % 3 == 0 ? absl::StrCat("\r\n\r\n", i % 90 + 10) : absl::StrCat("\r\n\r\nhello ", i, ".");
    place = answers.find(body, place);
    ASSERT_NE(place, std::string::npos) << i;
  }
  EXPECT_THAT(answers, EndsWith("hello last"));
}

TEST_F(Http1ConnectionTest, AHeadMayComeByteByByte) {
  Client& client = Connect();
  for (const char c : Get("/hello?slow")) client.Send(std::string(1, c));
  EXPECT_THAT(client.ReadUntil("hello slow"), StartsWith("HTTP/1.1 200"));
}

TEST_F(Http1ConnectionTest, BodiesWithALengthAndInChunks) {
  Client& client = Connect();
  const std::string large(1'000'000, 'x');
  client.Send(Post(absl::StrCat("Content-Length: ", large.size(), "\r\n"), large));
  EXPECT_THAT(client.ReadUntil(large), HasSubstr("content-length: 1000000\r\n"));
  client.Send(Post("Transfer-Encoding: chunked\r\n",
                   "3;name=\"value\"\r\nabc\r\n00A\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n"));
  EXPECT_THAT(client.ReadUntil("abc0123456789"), StartsWith("HTTP/1.1 200"));
  client.Send(Post("Content-Length: 0\r\n", "") + Get("/hello?after"));
  EXPECT_THAT(client.ReadUntil("hello after"), HasSubstr("content-length: 0\r\n"));
}

TEST_F(Http1ConnectionTest, AnAnswerInPartsIsChunked) {
  Client& client = Connect();
  client.Send(Get("/parts"));
  const std::string answer = client.ReadUntil("0\r\n\r\n");
  EXPECT_THAT(answer, HasSubstr("transfer-encoding: chunked\r\n"));
  EXPECT_THAT(answer, HasSubstr("onetwothree"));
  EXPECT_EQ(num_sent_, 3);
  client.Send(Get("/hello"));
  EXPECT_THAT(client.ReadUntil("hello "), StartsWith("HTTP/1.1 200"));
}

TEST_F(Http1ConnectionTest, HeadHasTheHeadOfGetAlone) {
  Client& client = Connect();
  client.Send("HEAD /hello?x HTTP/1.1\r\nHost: x\r\n\r\n" + Get("/hello", kClose));
  const std::string answer = client.ReadToEnd();
  EXPECT_THAT(answer, HasSubstr("content-length: 7\r\n"));
  EXPECT_THAT(answer, Not(HasSubstr("hello x")));
  EXPECT_THAT(answer, EndsWith("hello "));
}

TEST_F(Http1ConnectionTest, WhoExpectsIsToldToContinue) {
  Client& client = Connect();
  client.Send(Post("Content-Length: 4\r\nExpect: 100-continue\r\n", ""));
  EXPECT_EQ(client.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Send("body");
  EXPECT_THAT(client.ReadUntil("\r\n\r\nbody"), StartsWith("HTTP/1.1 200"));
  // Who is refused is not told to; then nobody knows whether the body comes.
  client.Send(
      "POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
  const std::string answer = client.ReadToEnd();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(answer, HasSubstr("connection: close\r\n"));
}

TEST_F(Http1ConnectionTest, PathsMethodsAndTypes) {
  Client& client = Connect();
  client.Send(Get("/nowhere"));
  EXPECT_THAT(client.ReadUntil("}}"), StartsWith("HTTP/1.1 404 Not Found\r\n"));
  client.Send("DELETE /hello HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(client.ReadUntil("}}"), HasSubstr("allow: GET, HEAD, OPTIONS\r\n"));
  client.Send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}");
  EXPECT_THAT(client.ReadUntil("}}"), StartsWith("HTTP/1.1 415"));
  client.Send(Get("/below/org%2Fname"));
  EXPECT_THAT(client.ReadUntil("org/name"), StartsWith("HTTP/1.1 200"));
  client.Send("GET http://host:80/hello?absolute HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(client.ReadUntil("hello absolute"), StartsWith("HTTP/1.1 200"));
  client.Send(
      "OPTIONS /echo HTTP/1.1\r\nHost: x\r\nOrigin: http://y\r\n"
      "Access-Control-Request-Method: POST\r\n\r\n");
  const std::string preflight = client.ReadUntil("\r\n\r\n");
  EXPECT_THAT(preflight, StartsWith("HTTP/1.1 204"));
  EXPECT_THAT(preflight, HasSubstr("access-control-allow-origin: http://y\r\n"));
  EXPECT_THAT(preflight, Not(HasSubstr("content-length")));
}

TEST(CorsTest, AnOriginThatNoBrowserWritesIsRefusedByName) {
  for (const char* origin : {"example.org", "https://", "https://a.org/", "://a.org", "[\"*\"]"}) {
    const absl::Status status = Cors::Parse({"http://y", origin}).status();
    EXPECT_TRUE(absl::IsOutOfRange(status)) << origin;
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat(" ", origin, " ")));
  }
}

TEST(CorsTest, OnlyAllowedOriginsAreNamed) {
  const auto headers_for = [](const Cors& cors, const std::string& origin) {
    RequestHead head;
    head.headers = {{"origin", origin}};
    return cors.AnswerHeaders(head);
  };
  EXPECT_TRUE(headers_for(Cors(), "http://y").empty());
  const Cors some = *Cors::Parse({"http://y", "http://[::1]:80"});
  EXPECT_TRUE(some.Allows("http://[::1]:80"));
  EXPECT_EQ(headers_for(some, "http://y").size(), 3u);
  const HeaderList others = headers_for(some, "http://y:80");
  ASSERT_EQ(others.size(), 1u);
  EXPECT_EQ(others[0].first, "vary");
  EXPECT_EQ(headers_for(*Cors::Parse({"*"}), "null")[0].second, "*");
}

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
  Client& client = Connect();
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

// Whoever announces a body and does not send it has no more right to its connection than who says
// nothing; who waits for an answer has.
TEST_F(Http1ConnectionTest, WhoseBodyDoesNotComeGivesWay) {
  Client& half = Connect({}, 96 << 20, /*max_connections=*/2);
  half.Send(Post("Content-Length: 99\r\nExpect: 100-continue\r\n", ""));
  half.ReadUntil("100 Continue\r\n\r\n");
  half.Send("some");
  const std::unique_ptr<Client> busy = NewClient();
  busy->Send(Get("/hold"));
  const HttpCallRef call = WaitForHeld();
  const std::unique_ptr<Client> newcomer = NewClient();
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
  Client& client = Connect({}, /*max_held_bytes=*/64 << 10);
  client.Send(Post("Content-Length: 60000\r\n", std::string(60000, 'x')));
  EXPECT_THAT(client.ReadUntil("}}"), StartsWith("HTTP/1.1 429"));
}

TEST_F(Http1ConnectionTest, AClientThatLeavesCancelsItsCall) {
  Client& client = Connect();
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
  Client& client = Connect();
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
  const std::string head = client.ReadUntil("\r\n\r\n");
  {
    absl::MutexLock lock(&state.mutex);
    EXPECT_LT(state.num_given, kParts);
  }
  EXPECT_LT(pool_->held_bytes(), 256 << 10);
  EXPECT_GT(client.ReadUntil("\r\n0\r\n\r\n").size(), kParts * part.size());
}

TEST_F(Http1ConnectionTest, AtTheEndOfTheServerCallsGetTheirAnswer) {
  Client& client = Connect();
  const std::unique_ptr<Client> idle = NewClient();
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
  Client& client = Connect();
  client.Send(Get("/hold") + Get("/hello?ahead"));
  const HttpCallRef call = WaitForHeld();
  client.Close();
  ExpectNothingIsHeld();
}

// A long prompt says nothing for minutes; clients and proxies wait for less.
TEST_F(Http1ConnectionTest, ASilentStreamOfEventsSaysThatItLives) {
  ping_interval_ = absl::Milliseconds(20);
  Client& client = Connect();
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
  Client& client = Connect();
  client.Send(Get("/hold", kClose));
  const HttpCallRef call = WaitForHeld();
  call->KeepAlive({.content_type = "text/event-stream"});
  call->EndWithError(ErrorAnswer(500, "broken"), "data: an error\n\n", absl::StatusCode::kInternal);
  EXPECT_THAT(client.ReadToEnd(), AllOf(StartsWith("HTTP/1.1 500"), Not(HasSubstr("data: "))));
}

}  // namespace
}  // namespace quire
