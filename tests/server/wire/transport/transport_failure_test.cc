// The n-th call of one kind fails, for every n from the start of a server to its end, over every
// kind of call that the transport makes of the system and of its libraries. Whatever fails: the
// clients get right answers or a clean end, others are served, nothing is left behind, and the
// server ends in its time.
#include <arpa/inet.h>
#include <dirent.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "server/call/grpc_call.h"
#include "server/wire/http2/http2_connection.h"
#include "server/wire/tls/tls_context.h"
#include "server/wire/transport/acceptor.h"
#include "server/wire/transport/connection_pool.h"
#include "tests/server/surfaces/grpc/http2_client.h"
#include "tests/server/wire/tls/test_certificates.h"
#include "tests/server/wire/transport/failing_calls.h"

namespace quire {
namespace {

using testing::AsClient;
using testing::Call;
using testing::ClientPipe;
using testing::FailingCalls;
using testing::Fault;
using testing::Http2Client;

constexpr absl::Duration kPatience = absl::Seconds(20);

std::string Framed(const std::string& message) {
  std::string bytes;
  AppendMessagePrefix(message.size(), &bytes);
  return bytes + message;
}

int NumOpenFiles() {
  DIR* folder = opendir("/proc/self/fd");
  int count = 0;
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

// The port, its connections and three methods, as server/start/server.cc puts them together.
class TestServer {
 public:
  TestServer() {
    Add({"/echo", [](const GrpcCallRef& call, std::string message) {
           call->FinishWith(std::move(message));
         }});
    Add({"/count", [](const GrpcCallRef& call, const std::string&) {
           for (char c = 'a'; c < 'd'; ++c) call->Send(std::string(1, c), nullptr);
           call->Finish(absl::OkStatus());
         }});
    Add({"/hold", [this](const GrpcCallRef& call, const std::string&) {
           absl::MutexLock lock(&mutex_);
           if (holds_) {
             held_.push_back(call);
           } else {
             call->FinishWith("held");
           }
         }});
  }

  absl::Status Start(TlsContext* tls) {
    const AsClient as_server(false);
    absl::StatusOr<Listener> listener = Listener::Bind("127.0.0.1", 0);
    if (!listener.ok()) return listener.status();
    if (absl::Status status = listener->Listen(); !status.ok()) return status;
    port_ = listener->port();
    ConnectionPoolOptions options;
    options.tls = tls;
    options.timeouts.shutdown = absl::Milliseconds(5);
    Http2Limits limits;
    limits.shutdown_notice = absl::Milliseconds(1);
    auto pool =
        ConnectionPool::Start(options, [this, limits](Protocol, ConnectionControl* control) {
          return std::make_unique<Http2Connection>(control, limits, start_);
        });
    if (!pool.ok()) return pool.status();
    pool_ = *std::move(pool);
    auto acceptor = Acceptor::Start(*std::move(listener), pool_.get());
    if (!acceptor.ok()) return acceptor.status();
    acceptor_ = *std::move(acceptor);
    return absl::OkStatus();
  }

  // The calls of /hold get their answer, those that still come too.
  void FinishHeld() {
    absl::MutexLock lock(&mutex_);
    holds_ = false;
    for (const GrpcCallRef& call : held_) call->FinishWith("held");
    held_.clear();
  }
  // Waits until `count` calls of /hold are here or, where one may be lost, until something has
  // failed.
  void WaitForHeld(size_t count, bool may_be_lost) {
    while (!may_be_lost || !FailingCalls::HasFailed()) {
      {
        absl::MutexLock lock(&mutex_);
        if (held_.size() >= count) return;
      }
      absl::SleepFor(absl::Milliseconds(1));
    }
  }

  int port() const { return port_; }
  ConnectionPool& pool() { return *pool_; }
  LiveCalls& live_calls() { return live_calls_; }
  void BeginShutdown() {
    pool_->BeginShutdown();
    acceptor_.reset();
  }

 private:
  void Add(GrpcMethod method) {
    std::string path = method.path;
    methods_.emplace(std::move(path), std::move(method));
  }

  std::map<std::string, GrpcMethod> methods_;
  LiveCalls live_calls_;
  const StartExchange start_ = [this](const RequestHead& head, HttpStream* stream) {
    auto call = std::make_shared<GrpcCall>(
        methods_.at(head.path), AnonymousPrincipal(PeerAddress()), stream, CallWatch{&live_calls_});
    call->Begin(head.Find("grpc-timeout"));
    return call;
  };
  absl::Mutex mutex_;
  bool holds_ = true;
  std::vector<GrpcCallRef> held_;
  int port_ = 0;
  std::unique_ptr<ConnectionPool> pool_;
  std::unique_ptr<Acceptor> acceptor_;
};

class TlsPipe final : public ClientPipe {
 public:
  TlsPipe(UniqueFd fd, SSL_CTX* context) : fd_(std::move(fd)), ssl_(SSL_new(context)) {
    const timeval timeout = {20, 0};
    setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    SSL_set_fd(ssl_, fd_.get());
    is_open_ = SSL_connect(ssl_) == 1;
  }
  ~TlsPipe() override { SSL_free(ssl_); }
  ssize_t Receive(char* buffer, size_t size) override {
    errno = ECONNRESET;
    if (!is_open_) return -1;
    const int count = SSL_read(ssl_, buffer, static_cast<int>(size));
    errno = SSL_get_error(ssl_, count) == SSL_ERROR_WANT_READ ? EAGAIN : ECONNRESET;
    return count;
  }
  void Send(const uint8_t* bytes, size_t size) override {
    if (is_open_) SSL_write(ssl_, bytes, static_cast<int>(size));
  }

 private:
  const UniqueFd fd_;
  SSL* const ssl_;
  bool is_open_ = false;
};

struct Sweep {
  std::string name;
  Call call;
  int error;
  bool is_harmless = false;  // everything is answered all the same
  bool with_tls = false;
  int64_t step = 1;  // beyond 1, one call of this many fails, from a random one on
};

void PrintTo(const Sweep& sweep, std::ostream* out) { *out << sweep.name; }

class TransportFailureTest : public ::testing::TestWithParam<Sweep> {
 protected:
  TransportFailureTest() {
    signal(SIGPIPE, SIG_IGN);
    if (!GetParam().with_tls) return;
    const TestCertificate certificate({.common_name = "test"});
    const std::string folder = ::testing::TempDir();
    const TlsFiles files = {.certificate = folder + "/failure_test.pem",
                            .key = folder + "/failure_test_key.pem"};
    std::ofstream(files.certificate) << certificate.CertificatePem();
    std::ofstream(files.key) << certificate.KeyPem();
    auto context = TlsContext::Open(files, ClientCertificate::kOptional);
    EXPECT_TRUE(context.ok()) << context.status();
    server_tls_ = *std::move(context);
    client_tls_ = SSL_CTX_new(TLS_client_method());
    const unsigned char h2[] = {2, 'h', '2'};
    SSL_CTX_set_alpn_protos(client_tls_, h2, sizeof(h2));
  }
  ~TransportFailureTest() override { SSL_CTX_free(client_tls_); }

  std::unique_ptr<Http2Client> Connect(int port) const {
    UniqueFd fd(socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int on = 1;
    setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    auto client =
        client_tls_ == nullptr
            ? std::make_unique<Http2Client>(std::move(fd))
            : std::make_unique<Http2Client>(std::make_unique<TlsPipe>(std::move(fd), client_tls_));
    client->Widen(0, 4 << 20);
    return client;
  }

  // Whether the answer is `expected`; if it is not, the call was refused or its connection ended.
  static bool IsAnswered(Http2Client& client, int32_t id, const std::string& expected) {
    const testing::StreamAnswer& answer = client.Wait(id);
    EXPECT_FALSE(client.timed_out()) << "the client waits in vain";
    if (answer.Get("grpc-status") == "0") {
      EXPECT_TRUE(answer.closed);
      EXPECT_EQ(answer.body, expected);
      return answer.body == expected;
    }
    if (!answer.closed) return false;  // with its connection
    EXPECT_TRUE(answer.Get("grpc-status") == "8" || answer.reset_code != 0)
        << "status " << answer.Get("grpc-status") << ", code " << answer.reset_code;
    return false;
  }

  // One server's life with this fault. Returns how many calls of the kind there were.
  int64_t Live(const Fault& fault);
  void Visit(TestServer& server);

  const AsClient as_client_;
  std::unique_ptr<TlsContext> server_tls_;
  SSL_CTX* client_tls_ = nullptr;
  int num_failed_ = 0;  // clients that did not get all of their answers
};

int64_t TransportFailureTest::Live(const Fault& fault) {
  SCOPED_TRACE(fault);
  const int num_files = NumOpenFiles();
  num_failed_ = 0;
  FailingCalls::Begin(fault);
  {
    TestServer server;
    const absl::Status started = server.Start(server_tls_.get());
    if (started.ok()) {
      Visit(server);
    } else {
      EXPECT_EQ(started.code(), absl::StatusCode::kUnavailable) << started;
      EXPECT_TRUE(FailingCalls::HasFailed()) << started;
      num_failed_ = 1;
    }
  }
  const int64_t num_calls = FailingCalls::End();
  EXPECT_LE(num_failed_, FailingCalls::HasFailed() && !GetParam().is_harmless ? 1 : 0);
  EXPECT_EQ(NumOpenFiles(), num_files);
  return num_calls;
}

void TransportFailureTest::Visit(TestServer& server) {
  const std::string big(150'000, 'b');
  std::unique_ptr<Http2Client> first = Connect(server.port());
  std::unique_ptr<Http2Client> second = Connect(server.port());
  bool first_is_served = IsAnswered(*first, first->Call("/echo", "x"), Framed("x"));
  bool second_is_served = IsAnswered(*second, second->Call("/echo", big), Framed(big));
  first_is_served &=
      IsAnswered(*first, first->Call("/count", ""), Framed("a") + Framed("b") + Framed("c"));
  // One leaves with a call that nobody has answered and another that has only begun.
  second->Call("/hold", "");
  second->Request("/echo", Framed(big).substr(0, 10'000), /*ends=*/false);
  second->SendAll();
  server.WaitForHeld(1, !GetParam().is_harmless);
  second.reset();

  std::unique_ptr<Http2Client> third = Connect(server.port());
  const bool third_is_served = IsAnswered(*third, third->Call("/echo", "y"), Framed("y"));
  third.reset();
  num_failed_ = static_cast<int>(!second_is_served) + static_cast<int>(!third_is_served);

  // A call that runs when the server ends is answered, and everything is given back.
  const int32_t held = first->Call("/hold", "");
  first->SendAll();
  server.WaitForHeld(2, !GetParam().is_harmless);
  server.BeginShutdown();
  server.FinishHeld();
  first_is_served &= IsAnswered(*first, held, Framed("held"));
  num_failed_ += static_cast<int>(!first_is_served);
  EXPECT_FALSE(first->TalkUntil([] { return false; }));
  EXPECT_FALSE(first->timed_out()) << "the connection does not end";
  first.reset();
  EXPECT_TRUE(server.pool().WaitUntilEmpty(absl::Now() + kPatience));
  EXPECT_TRUE(server.live_calls().WaitUntilNone(absl::Now() + kPatience));
  server.pool().Stop();
  EXPECT_EQ(server.pool().held_bytes(), 0);
}

TEST_P(TransportFailureTest, TheNthCallFails) {
  const Sweep& sweep = GetParam();
  const int64_t first = sweep.step == 1 ? 1 : 1 + std::random_device()() % sweep.step;
  // How many calls there are differs a little from run to run.
  constexpr int kMaxMisses = 3;
  int64_t n = first;
  for (int misses = 0; misses < kMaxMisses && !HasFailure();) {
    if (Live({.call = sweep.call, .error = sweep.error, .first = n}) < n) {
      ++misses;
    } else {
      misses = 0;
      n += sweep.step;
    }
  }
  EXPECT_GT(n, first) << "there is no such call";
  std::cout << "from " << first << ", every " << sweep.step << ", to " << n - sweep.step << "\n";
  if (sweep.is_harmless && sweep.error == Fault::kShort) {
    Live({.call = sweep.call, .count = int64_t{1} << 40});  // every call moves one byte
  }
}

std::vector<Sweep> Sweeps() {
  std::vector<Sweep> sweeps = {
      {"AcceptEmfile", Call::kAccept, EMFILE},
      {"AcceptEnfile", Call::kAccept, ENFILE},
      {"AcceptEconnaborted", Call::kAccept, ECONNABORTED, true},
      {"AcceptEnomem", Call::kAccept, ENOMEM, true},
      {"AcceptEnobufs", Call::kAccept, ENOBUFS, true},
      {"AcceptEintr", Call::kAccept, EINTR, true},
      {"AcceptEproto", Call::kAccept, EPROTO, true},
      {"ReceiveEagain", Call::kReceive, EAGAIN, true},
      {"ReceiveEintr", Call::kReceive, EINTR, true},
      {"ReceiveShort", Call::kReceive, Fault::kShort, true},
      {"ReceiveEconnreset", Call::kReceive, ECONNRESET},
      {"ReceiveEnobufs", Call::kReceive, ENOBUFS},
      {"SendEagain", Call::kSend, EAGAIN, true},
      {"SendEintr", Call::kSend, EINTR, true},
      {"SendShort", Call::kSend, Fault::kShort, true},
      {"SendEconnreset", Call::kSend, ECONNRESET},
      {"SendEpipe", Call::kSend, EPIPE},
      {"SendEnobufs", Call::kSend, ENOBUFS},
      {"WatchEnomem", Call::kEpollControl, ENOMEM},
      {"WatchEnospc", Call::kEpollControl, ENOSPC},
      {"WaitEintr", Call::kEpollWait, EINTR, true},
      {"PollEintr", Call::kPoll, EINTR, true},
      {"PollEnomem", Call::kPoll, ENOMEM, true},
      {"OpenEmfile", Call::kOpen, EMFILE},
      {"EventFdEmfile", Call::kEventFd, EMFILE},
      {"EpollCreateEmfile", Call::kEpollCreate, EMFILE},
      {"SetOptionEnomem", Call::kSetOption, ENOMEM, true},
      {"ShutdownEnotconn", Call::kShutdown, ENOTCONN},
      {"Thread", Call::kThread, EAGAIN},
      {"NoRoomInTheBudget", Call::kTakeBytes, Fault::kShort},
      {"TlsReadEagain", Call::kRead, EAGAIN, true, true},
      {"TlsReadShort", Call::kRead, Fault::kShort, true, true},
      {"TlsReadEconnreset", Call::kRead, ECONNRESET, false, true},
      {"TlsWriteEagain", Call::kWrite, EAGAIN, true, true},
      {"TlsWriteShort", Call::kWrite, Fault::kShort, true, true},
      {"TlsWriteEpipe", Call::kWrite, EPIPE, false, true},
      {"TlsPeekEconnreset", Call::kReceive, ECONNRESET, false, true},
      {"TlsMemory", Call::kTlsMemory, ENOMEM, false, true, 11},
  };
  return sweeps;
}

INSTANTIATE_TEST_SUITE_P(, TransportFailureTest, ::testing::ValuesIn(Sweeps()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace quire
