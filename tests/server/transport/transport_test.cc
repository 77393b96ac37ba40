// The port: binding, telling protocols apart, the connection bound, silent and closed connections.
#include "server/transport/acceptor.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <mutex>
#include <vector>

#include "absl/time/clock.h"
#include "server/transport/protocol.h"

namespace quire {
namespace {

using ::testing::HasSubstr;

UniqueFd Connect(int port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  return fd;
}

void Send(const UniqueFd& fd, const std::string& bytes) {
  EXPECT_EQ(send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
}

// True when the server has closed the connection within 20 s.
bool IsClosedByServer(const UniqueFd& fd) {
  pollfd poll_fd = {fd.get(), POLLIN, 0};
  if (poll(&poll_fd, 1, 20000) != 1) return false;
  char byte;
  return recv(fd.get(), &byte, 1, 0) <= 0;
}

class AcceptorTest : public testing::Test {
 protected:
  void Start(AcceptorOptions options = {}, Protocol protocol = Protocol::kHttp2) {
    absl::StatusOr<Listener> listener = Listener::Bind("127.0.0.1", 0);
    ASSERT_TRUE(listener.ok()) << listener.status();
    ASSERT_TRUE(listener->Listen().ok());
    port_ = listener->port();
    const auto take = [this](UniqueFd fd) {
      std::lock_guard lock(mutex_);
      handed_over_.push_back(std::move(fd));
    };
    auto acceptor = Acceptor::Start(*std::move(listener), options, {{protocol, take}});
    ASSERT_TRUE(acceptor.ok()) << acceptor.status();
    acceptor_ = *std::move(acceptor);
  }

  bool WaitForHandedOver(size_t count) {
    return WaitUntil([&] {
      std::lock_guard lock(mutex_);
      return handed_over_.size() == count;
    });
  }
  bool WaitForConnections(int64_t count) {
    return WaitUntil([&] { return acceptor_->num_connections() == count; });
  }

  // What gRPC does at the end of a connection.
  void CloseHandedOver(size_t index) {
    std::lock_guard lock(mutex_);
    shutdown(handed_over_[index].get(), SHUT_RDWR);
    handed_over_[index].Reset();
  }

  template <typename Condition>
  static bool WaitUntil(Condition condition) {
    const absl::Time give_up = absl::Now() + absl::Seconds(20);
    while (!condition()) {
      if (absl::Now() > give_up) return false;
      absl::SleepFor(absl::Milliseconds(1));
    }
    return true;
  }

  int port_ = 0;
  std::unique_ptr<Acceptor> acceptor_;
  std::mutex mutex_;
  std::vector<UniqueFd> handed_over_;
};

TEST(ProtocolTest, FirstBytes) {
  EXPECT_EQ(DetectProtocol("PRI * HTTP/2.0\r\n"), Protocol::kHttp2);
  EXPECT_EQ(DetectProtocol("PRI "), Protocol::kHttp2);
  EXPECT_EQ(DetectProtocol("PR"), Protocol::kUndecided);
  EXPECT_EQ(DetectProtocol("P"), Protocol::kUndecided);
  EXPECT_EQ(DetectProtocol("PO"), Protocol::kHttp1);
  EXPECT_EQ(DetectProtocol("GET / HTTP/1.1\r\n"), Protocol::kHttp1);
  EXPECT_EQ(DetectProtocol(std::string_view("\x16\x03\x01\x00", 4)), Protocol::kHttp1);
}

TEST(ListenerTest, MistakesAreNamed) {
  EXPECT_THAT(std::string(Listener::Bind("example.com", 0).status().message()),
              HasSubstr("\"example.com\""));
  EXPECT_EQ(Listener::Bind("1.2.3", 0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Listener::Bind("192.0.2.1", 0).status().code(), absl::StatusCode::kUnavailable);
}

TEST(ListenerTest, APortInUseIsUnavailable) {
  Listener first = *Listener::Bind("127.0.0.1", 0);
  ASSERT_TRUE(first.Listen().ok());
  const absl::Status status = Listener::Bind("127.0.0.1", first.port()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--port"));
}

TEST(ListenerTest, Ipv6AndLocalhost) {
  EXPECT_THAT(Listener::Bind("::1", 0)->address(), HasSubstr("[::1]:"));
  EXPECT_THAT(Listener::Bind("localhost", 0)->address(), HasSubstr("localhost:"));
}

TEST_F(AcceptorTest, Http2IsHandedOverWithItsBytesUnread) {
  Start();
  UniqueFd client = Connect(port_);
  Send(client, "PR");
  Send(client, "I * HTTP/2.0\r\n");
  ASSERT_TRUE(WaitForHandedOver(1));
  std::array<char, 32> bytes;
  const ssize_t size = recv(handed_over_[0].get(), bytes.data(), bytes.size(), 0);
  EXPECT_EQ(std::string(bytes.data(), size).substr(0, 4), "PRI ");
}

TEST_F(AcceptorTest, AProtocolWithoutAHandlerIsClosed) {
  Start();
  UniqueFd client = Connect(port_);
  Send(client, "GET / HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(IsClosedByServer(client));
  EXPECT_TRUE(WaitForConnections(0));
}

TEST_F(AcceptorTest, EachProtocolHasItsHandler) {
  Start({}, Protocol::kHttp1);
  UniqueFd http1 = Connect(port_);
  Send(http1, "GET / HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(WaitForHandedOver(1));
  UniqueFd http2 = Connect(port_);
  Send(http2, "PRI * HTTP/2.0\r\n");
  EXPECT_TRUE(IsClosedByServer(http2));
  EXPECT_TRUE(WaitForConnections(1));
}

TEST_F(AcceptorTest, SilentConnectionsAreClosed) {
  AcceptorOptions options;
  options.first_bytes_timeout = absl::Milliseconds(30);
  Start(options);
  UniqueFd silent = Connect(port_);
  UniqueFd hesitant = Connect(port_);
  Send(hesitant, "PR");
  EXPECT_TRUE(IsClosedByServer(silent));
  EXPECT_TRUE(IsClosedByServer(hesitant));
  EXPECT_TRUE(WaitForConnections(0));
}

TEST_F(AcceptorTest, ConnectionsCountUntilTheyAreClosed) {
  Start();
  UniqueFd silent = Connect(port_);
  UniqueFd client = Connect(port_);
  Send(client, "PRI * HTTP/2.0\r\n");
  ASSERT_TRUE(WaitForHandedOver(1));
  EXPECT_TRUE(WaitForConnections(2));
  silent.Reset();
  EXPECT_TRUE(WaitForConnections(1));
  CloseHandedOver(0);
  EXPECT_TRUE(WaitForConnections(0));
}

TEST_F(AcceptorTest, AboveTheBoundConnectionsAreClosedAtOnce) {
  AcceptorOptions options;
  options.max_connections = 2;
  Start(options);
  UniqueFd first = Connect(port_);
  UniqueFd second = Connect(port_);
  Send(second, "PRI * HTTP/2.0\r\n");
  ASSERT_TRUE(WaitForHandedOver(1));
  ASSERT_TRUE(WaitForConnections(2));
  UniqueFd third = Connect(port_);
  EXPECT_TRUE(IsClosedByServer(third));
  CloseHandedOver(0);
  ASSERT_TRUE(WaitForConnections(1));
  UniqueFd fourth = Connect(port_);
  Send(fourth, "PRI * HTTP/2.0\r\n");
  EXPECT_TRUE(WaitForHandedOver(2));
}

TEST_F(AcceptorTest, AcceptsAgainAfterDescriptorsRanOut) {
  Start();
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  std::vector<UniqueFd> clients;
  for (int i = 0; i < 20; ++i) clients.push_back(UniqueFd(socket(AF_INET, SOCK_STREAM, 0)));
  // No descriptor is left for the server; connecting needs none.
  rlimit exhausted = limit;
  exhausted.rlim_cur = static_cast<rlim_t>(clients.back().get() + 1);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &exhausted), 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port_));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (UniqueFd& client : clients) {
    connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address));
  }
  EXPECT_TRUE(IsClosedByServer(clients[0])) << "refused by means of the reserve";
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  clients.clear();
  UniqueFd client = Connect(port_);
  Send(client, "PRI * HTTP/2.0\r\n");
  EXPECT_TRUE(WaitForHandedOver(1));
}

TEST_F(AcceptorTest, DestructionClosesThePortAndEndsConnectionsAfterWhatWasSent) {
  Start();
  UniqueFd client = Connect(port_);
  Send(client, "PRI * HTTP/2.0\r\n");
  ASSERT_TRUE(WaitForHandedOver(1));
  char byte = 'x';
  EXPECT_EQ(send(handed_over_[0].get(), &byte, 1, MSG_NOSIGNAL), 1);
  acceptor_.reset();
  EXPECT_TRUE(Listener::Bind("127.0.0.1", port_).ok());
  EXPECT_EQ(recv(client.get(), &byte, 1, 0), 1);
  EXPECT_EQ(recv(client.get(), &byte, 1, 0), 0);
}

}  // namespace
}  // namespace quire
