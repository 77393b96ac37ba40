// The common part of the tests of HTTP/1.1: a server of some routes, and a client of bytes.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/auth/authenticator.h"
#include "server/auth/gate.h"
#include "server/call/http_call.h"
#include "server/call/http_server.h"
#include "server/wire/http1/http1_connection.h"
#include "server/wire/transport/connection_pool.h"

namespace quire {

// Blocking; waits at most 20 s for what comes.
class Http1Client {
 public:
  explicit Http1Client(UniqueFd fd) : fd_(std::move(fd)) {
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

  // Reads up to and including the text, or to the end.
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

  Http1Client& Connect(Http1Limits limits = {}, int64_t max_held_bytes = 96 << 20,
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

  std::unique_ptr<Http1Client> NewClient() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    pool_->Add(UniqueFd(fds[0]), PeerAddress::OfSocket(fds[0]));
    return std::make_unique<Http1Client>(UniqueFd(fds[1]));
  }

  HttpCallRef WaitForHeld() {
    absl::MutexLock lock(&mutex_);
    const auto has_one = [this]() { return held_ != nullptr; };
    mutex_.Await(absl::Condition(&has_one));
    return held_;
  }

  // All that one connection says to these bytes.
  std::string Exchange(const std::string& bytes, Http1Limits limits = {}) {
    Http1Client& client = Connect(limits);
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
  std::unique_ptr<Http1Client> client_;
  std::atomic<int> num_sent_ = 0;
  absl::Mutex mutex_;
  HttpCallRef held_;
};

inline std::string Get(const std::string& path, const std::string& headers = "") {
  return absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: x\r\n", headers, "\r\n");
}

inline std::string Post(const std::string& headers, const std::string& body) {
  return absl::StrCat("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n",
                      headers, "\r\n", body);
}

inline constexpr char kClose[] = "Connection: close\r\n";

}  // namespace quire
