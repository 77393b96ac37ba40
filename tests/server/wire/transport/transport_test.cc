// The port: binding, telling protocols apart, the bounds of connections and bytes, silent, slow and
// closed connections.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "server/wire/transport/acceptor.h"
#include "server/wire/transport/byte_budget.h"
#include "server/wire/transport/connection_pool.h"
#include "server/wire/transport/event_loop.h"
#include "server/wire/transport/protocol.h"

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

// Reads up to `size` bytes; fewer when the connection ends.
std::string Read(const UniqueFd& fd, size_t size) {
  std::string bytes;
  pollfd poll_fd = {fd.get(), POLLIN, 0};
  while (bytes.size() < size && poll(&poll_fd, 1, 20000) == 1) {
    std::array<char, 65536> buffer;
    const ssize_t count =
        recv(fd.get(), buffer.data(), std::min(buffer.size(), size - bytes.size()), 0);
    if (count <= 0) break;
    bytes.append(buffer.data(), static_cast<size_t>(count));
  }
  return bytes;
}

// True when the server has closed the connection within 20 s.
bool IsClosedByServer(const UniqueFd& fd) {
  pollfd poll_fd = {fd.get(), POLLIN, 0};
  if (poll(&poll_fd, 1, 20000) != 1) return false;
  char byte;
  return recv(fd.get(), &byte, 1, 0) <= 0;
}

// A protocol for tests: sends back what comes; "idle" and "busy" tell the pool which it is, "end"
// ends the connection after what was sent.
class EchoHandler final : public ConnectionHandler {
 public:
  explicit EchoHandler(ConnectionControl* control) : control_(control) {}
  void OnInput(std::string_view bytes) override {
    output_.append(bytes);
    if (bytes.find("busy") != bytes.npos) control_->SetIdle(false);
    if (bytes.find("idle") != bytes.npos) control_->SetIdle(true);
    if (bytes.find("end") != bytes.npos) is_done_ = true;
  }
  void FillOutput(std::string* output, size_t limit) override {
    const size_t size = std::min(limit, output_.size());
    output->append(output_, 0, size);
    output_.erase(0, size);
  }
  bool IsDone() const override { return is_done_; }
  void BeginShutdown(bool /*at_once*/) override {
    output_ += "goodbye";
    is_done_ = true;
  }

 private:
  ConnectionControl* const control_;
  std::string output_;
  bool is_done_ = false;
};

class TransportTest : public testing::Test {
 protected:
  void Start(ConnectionPoolOptions options = {}) {
    auto pool = ConnectionPool::Start(options, [](Protocol protocol, ConnectionControl* control) {
      return protocol == Protocol::kHttp2 ? std::make_unique<EchoHandler>(control) : nullptr;
    });
    ASSERT_TRUE(pool.ok()) << pool.status();
    pool_ = *std::move(pool);
    absl::StatusOr<Listener> listener = Listener::Bind("127.0.0.1", 0);
    ASSERT_TRUE(listener.ok()) << listener.status();
    ASSERT_TRUE(listener->Listen().ok());
    port_ = listener->port();
    auto acceptor = Acceptor::Start(*std::move(listener), pool_.get());
    ASSERT_TRUE(acceptor.ok()) << acceptor.status();
    acceptor_ = *std::move(acceptor);
  }

  bool WaitForConnections(int64_t count) {
    const absl::Time give_up = absl::Now() + absl::Seconds(20);
    while (pool_->num_connections() != count) {
      if (absl::Now() > give_up) return false;
      absl::SleepFor(absl::Milliseconds(1));
    }
    return true;
  }

  // Sends text and reads its echo.
  void Talk(const UniqueFd& fd, const std::string& text) {
    Send(fd, text);
    EXPECT_EQ(Read(fd, text.size()), text);
  }

  int port_ = 0;
  std::unique_ptr<ConnectionPool> pool_;
  std::unique_ptr<Acceptor> acceptor_;
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

TEST_F(TransportTest, BytesGoToTheirProtocolHoweverTheyAreCut) {
  Start();
  UniqueFd client = Connect(port_);
  Send(client, "PR");
  Send(client, "I * HTTP/2.0\r\n");
  EXPECT_EQ(Read(client, 16), "PRI * HTTP/2.0\r\n");
  EXPECT_EQ(pool_->num_connections(), 1);
}

TEST_F(TransportTest, AProtocolWithoutAHandlerIsClosed) {
  Start();
  UniqueFd client = Connect(port_);
  Send(client, "GET / HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(IsClosedByServer(client));
  EXPECT_TRUE(WaitForConnections(0));
}

TEST_F(TransportTest, SilentConnectionsAreClosed) {
  ConnectionPoolOptions options;
  options.timeouts.first_bytes = absl::Milliseconds(30);
  Start(options);
  UniqueFd silent = Connect(port_);
  UniqueFd hesitant = Connect(port_);
  Send(hesitant, "PR");
  EXPECT_TRUE(IsClosedByServer(silent));
  EXPECT_TRUE(IsClosedByServer(hesitant));
  EXPECT_TRUE(WaitForConnections(0));
}

TEST_F(TransportTest, ConnectionsCountUntilTheyAreClosed) {
  Start();
  UniqueFd silent = Connect(port_);
  UniqueFd client = Connect(port_);
  Talk(client, "PRI ");
  EXPECT_TRUE(WaitForConnections(2));
  silent.Reset();
  EXPECT_TRUE(WaitForConnections(1));
  client.Reset();
  EXPECT_TRUE(WaitForConnections(0));
}

TEST_F(TransportTest, AboveTheBoundIdleConnectionsGiveWayAndBusyOnesStay) {
  ConnectionPoolOptions options;
  options.max_connections = 2;
  options.max_connections_per_peer = 2;
  Start(options);
  UniqueFd busy = Connect(port_);
  Talk(busy, "PRI busy");
  UniqueFd idle = Connect(port_);
  Talk(idle, "PRI idle");
  UniqueFd third = Connect(port_);
  Talk(third, "PRI busy");
  EXPECT_EQ(Read(idle, 7), "goodbye");
  EXPECT_TRUE(IsClosedByServer(idle));
  ASSERT_TRUE(WaitForConnections(2));
  UniqueFd fourth = Connect(port_);
  EXPECT_TRUE(IsClosedByServer(fourth)) << "nobody is idle";
  Talk(busy, "still here");
  Talk(third, "and here");
}

TEST_F(TransportTest, OutputThatIsNotReadHoldsUpItsConnectionAlone) {
  Start();
  UniqueFd slow = Connect(port_);
  Talk(slow, "PRI ");
  // More than the system's buffers hold both ways: the server stops reading from who does not read.
  const std::string piece(1 << 20, 'x');
  size_t sent = 0;
  while (true) {
    const ssize_t count = send(slow.get(), piece.data(), piece.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count <= 0) {
      pollfd poll_fd = {slow.get(), POLLOUT, 0};
      if (poll(&poll_fd, 1, 500) == 0) break;
      continue;
    }
    sent += static_cast<size_t>(count);
    ASSERT_LT(sent, size_t{1} << 30) << "the server keeps what nobody reads";
  }
  UniqueFd other = Connect(port_);
  Talk(other, "PRI hello");
  EXPECT_EQ(Read(slow, sent).size(), sent) << "nothing is lost";
}

TEST_F(TransportTest, TheLastBytesArriveThoughInputWasNotRead) {
  Start();
  UniqueFd client = Connect(port_);
  Send(client, "PRI end");
  Send(client, "more");
  EXPECT_EQ(Read(client, 100).substr(0, 7),
            "PRI end");  // the end of the connection ends it, no error
}

TEST_F(TransportTest, AcceptsAgainAfterDescriptorsRanOut) {
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
  Talk(client, "PRI hello");
}

TEST_F(TransportTest, AShutdownSaysGoodbyeAndClosesThePort) {
  Start();
  UniqueFd client = Connect(port_);
  Talk(client, "PRI ");
  acceptor_.reset();
  EXPECT_TRUE(Listener::Bind("127.0.0.1", port_).ok());
  pool_->BeginShutdown();
  EXPECT_EQ(Read(client, 7), "goodbye");
  EXPECT_TRUE(IsClosedByServer(client));
  client.Reset();
  EXPECT_TRUE(pool_->WaitUntilEmpty(absl::Now() + absl::Seconds(20)));
}

TEST(ByteBudgetTest, TheGreedyLeaveRoomForOthers) {
  ByteBudget budget(1 << 20);
  ByteBudget::Account greedy(&budget, "a"), second(&budget, "a"), other(&budget, "b");
  EXPECT_FALSE(greedy.Take((1 << 18) + 1)) << "half of a peer's half";
  EXPECT_TRUE(greedy.Take(1 << 18));
  EXPECT_TRUE(second.Take(1 << 17));
  EXPECT_FALSE(second.Take(1));
  EXPECT_TRUE(other.Take(100'000));
  EXPECT_EQ(budget.held_bytes(), (1 << 18) + (1 << 17) + 100'000);
  greedy.GiveBack(1 << 18);
  EXPECT_TRUE(second.Take(1 << 16));
  second.GiveBack((1 << 17) + (1 << 16));
  other.GiveBack(100'000);
  EXPECT_EQ(budget.held_bytes(), 0);
}

TEST(ByteBudgetTest, ASmallRequestAlwaysHasItsPlace) {
  ByteBudget budget(0);
  ByteBudget::Account account(&budget, "a");
  EXPECT_TRUE(account.Take(ByteBudget::kSureBytes));
  EXPECT_FALSE(account.Take(1));
  account.GiveBack(ByteBudget::kSureBytes);
}

TEST(EventLoopTest, RunsWhatIsPostedInOrderAndTimersWhenTheyAreDue) {
  auto loop = EventLoop::Start("test");
  ASSERT_TRUE(loop.ok());
  std::vector<int> order;
  std::atomic<bool> done = false;
  (*loop)->Post([&, raw = loop->get()] {
    raw->AddTimer(raw->now() + absl::Milliseconds(20), [&] {
      order.push_back(4);
      done = true;
    });
    raw->AddTimer(raw->now() + absl::Milliseconds(1), [&] { order.push_back(3); });
    raw->CancelTimer(raw->AddTimer(raw->now(), [&] { order.push_back(0); }));
    raw->AtEndOfTurn([&] { order.push_back(2); });
    order.push_back(1);
  });
  while (!done) absl::SleepFor(absl::Milliseconds(1));
  (*loop)->Stop();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3, 4}));
  (*loop)->Post([] { FAIL() << "the loop has ended"; });
}

// Nothing else wakes the loop: what its thread posts to itself, at whatever point of a turn, runs.
TEST(EventLoopTest, RunsWhatItPostsToItself) {
  auto loop = EventLoop::Start("test");
  ASSERT_TRUE(loop.ok());
  EventLoop* raw = loop->get();
  absl::Notification done;
  raw->Post([&] {
    raw->Post([&] {
      raw->AtEndOfTurn([&] {
        raw->Post([&] { raw->AddTimer(raw->now(), [&] { raw->Post([&] { done.Notify(); }); }); });
      });
    });
  });
  EXPECT_TRUE(done.WaitForNotificationWithTimeout(absl::Seconds(30)));
}

TEST(TokenBucketTest, DebtIsPaidInTime) {
  const absl::Time begin = absl::Now();
  TokenBucket bucket(/*per_second=*/10, /*burst=*/20);
  bucket.Refill(begin);
  bucket.Take(20);
  EXPECT_FALSE(bucket.is_in_debt());
  bucket.Take(5);
  EXPECT_TRUE(bucket.is_in_debt());
  EXPECT_EQ(bucket.debt_end(), begin + absl::Milliseconds(500));
  bucket.Refill(bucket.debt_end());
  EXPECT_FALSE(bucket.is_in_debt());
  bucket.Take(1'000'000);
  EXPECT_LE(bucket.debt_end(), begin + absl::Seconds(3)) << "a debt is bounded";
}

}  // namespace
}  // namespace quire
