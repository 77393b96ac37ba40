#include "server/transport/acceptor.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace quire {

namespace {

constexpr absl::Duration kAcceptPause = absl::Milliseconds(100);

UniqueFd OpenReserve() { return UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

// Small messages go out at once; peers that vanished are noticed within two minutes.
void SetConnectionOptions(int fd) {
  const auto set = [fd](int level, int option, int value) {
    setsockopt(fd, level, option, &value, sizeof(value));
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 60);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 15);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::Start(Listener listener,
                                                          const AcceptorOptions& options,
                                                          Handlers handlers) {
  std::unique_ptr<Acceptor> acceptor(
      new Acceptor(std::move(listener), options, std::move(handlers)));
  if (!acceptor->epoll_.valid() || !acceptor->wake_.valid() || !acceptor->reserve_.valid()) {
    return absl::UnavailableError(
        absl::StrCat("cannot watch the port: ", std::strerror(errno), "; raise `ulimit -n`"));
  }
  acceptor->Watch(acceptor->wake_.get(), EPOLLIN);
  acceptor->Watch(acceptor->listener_.fd(), EPOLLIN);
  acceptor->thread_ = std::thread([raw = acceptor.get()] { raw->Run(); });
  return acceptor;
}

Acceptor::Acceptor(Listener listener, const AcceptorOptions& options, Handlers handlers)
    : listener_(std::move(listener)),
      options_(options),
      handlers_(std::move(handlers)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      reserve_(OpenReserve()) {}

Acceptor::~Acceptor() {
  if (!thread_.joinable()) return;
  eventfd_write(wake_.get(), 1);
  thread_.join();
  for (const auto& [fd, connection] : connections_) shutdown(fd, SHUT_RDWR);
}

void Acceptor::Run() {
  pthread_setname_np(pthread_self(), "quire-accept");
  std::array<epoll_event, 64> events;
  while (true) {
    const int count = epoll_wait(epoll_.get(), events.data(), events.size(), TimeoutMs());
    for (int i = 0; i < count; ++i) {
      const int fd = events[i].data.fd;
      if (fd == wake_.get()) return;
      if (fd == listener_.fd()) {
        AcceptAll();
      } else {
        OnConnectionEvent(fd, events[i].events);
      }
    }
    const absl::Time now = absl::Now();
    if (now >= next_silent_check_) CloseSilent(now);
    if (now >= resume_time_) ResumeAccepting();
  }
}

int Acceptor::TimeoutMs() const {
  const absl::Time next = std::min(next_silent_check_, resume_time_);
  if (next == absl::InfiniteFuture()) return -1;
  const int64_t ms = absl::ToInt64Milliseconds(next - absl::Now()) + 1;
  return static_cast<int>(std::clamp<int64_t>(ms, 0, 60000));
}

void Acceptor::Watch(int fd, uint32_t events) {
  epoll_event event = {};
  event.events = events;
  event.data.fd = fd;
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
}

void Acceptor::AcceptAll() {
  while (AcceptOne()) {
  }
}

// False when there is nothing more to accept now.
bool Acceptor::AcceptOne() {
  UniqueFd fd(accept4(listener_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (fd.valid()) {
    // Above the bound the connection is closed at once: clients see UNAVAILABLE and go elsewhere.
    if (num_connections() < options_.max_connections) AddConnection(std::move(fd));
    return true;
  }
  switch (errno) {
    case ECONNABORTED:
    case EINTR:
      return true;
    case EMFILE:
    case ENFILE:
      OnDescriptorsExhausted();
      return false;
    case ENOBUFS:
    case ENOMEM:
      PauseAccepting(absl::Now());
      return false;
    default:
      return false;
  }
}

// Refuses one connection by means of the reserve; the rest wait a moment in the kernel's queue.
void Acceptor::OnDescriptorsExhausted() {
  reserve_.Reset();
  UniqueFd refused(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  refused.Reset();
  reserve_ = OpenReserve();
  PauseAccepting(absl::Now());
}

void Acceptor::PauseAccepting(absl::Time now) {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener_.fd(), nullptr);
  resume_time_ = now + kAcceptPause;
}

void Acceptor::ResumeAccepting() {
  if (!reserve_.valid()) reserve_ = OpenReserve();
  resume_time_ = absl::InfiniteFuture();
  Watch(listener_.fd(), EPOLLIN);
}

void Acceptor::AddConnection(UniqueFd fd) {
  SetConnectionOptions(fd.get());
  const int key = fd.get();
  Connection connection;
  connection.fd = std::move(fd);
  connection.deadline = absl::Now() + options_.first_bytes_timeout;
  if (num_silent_++ == 0) next_silent_check_ = connection.deadline;
  connections_.emplace(key, std::move(connection));
  num_connections_.fetch_add(1, std::memory_order_relaxed);
  Watch(key, EPOLLIN | EPOLLRDHUP | EPOLLET);  // edges: the bytes stay unread
}

void Acceptor::OnConnectionEvent(int fd, uint32_t events) {
  const auto it = connections_.find(fd);
  if (it == connections_.end()) return;
  if (it->second.handed_over || (events & (EPOLLHUP | EPOLLERR)) != 0) {
    Close(fd);  // handed over: only the end of the connection is reported
    return;
  }
  std::array<char, kHttp2Start.size()> first;
  const ssize_t size = recv(fd, first.data(), first.size(), MSG_PEEK);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) {
    Close(fd);
    return;
  }
  const Protocol protocol = DetectProtocol({first.data(), static_cast<size_t>(size)});
  if (protocol == Protocol::kUndecided) {
    if ((events & EPOLLRDHUP) != 0) Close(fd);
    return;
  }
  if (const auto handler = handlers_.find(protocol); handler != handlers_.end()) {
    HandOver(fd, handler->second);
  } else {
    Close(fd);
  }
}

void Acceptor::HandOver(int fd, const Handler& handler) {
  UniqueFd duplicate(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!duplicate.valid()) {
    Close(fd);
    return;
  }
  Connection connection = std::move(connections_.at(fd));
  connections_.erase(fd);
  --num_silent_;
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  UniqueFd handed_over = std::exchange(connection.fd, std::move(duplicate));
  connection.handed_over = true;
  const int key = connection.fd.get();
  connections_.emplace(key, std::move(connection));
  Watch(key, 0);  // EPOLLHUP is reported always: both directions were shut down
  handler(std::move(handed_over));
}

void Acceptor::Close(int fd) {
  const auto it = connections_.find(fd);
  if (!it->second.handed_over) --num_silent_;
  // Closing alone would not end the watch while gRPC has the connection's other descriptor open.
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  connections_.erase(it);
  num_connections_.fetch_sub(1, std::memory_order_relaxed);
}

void Acceptor::CloseSilent(absl::Time now) {
  std::vector<int> overdue;
  next_silent_check_ = absl::InfiniteFuture();
  for (const auto& [fd, connection] : connections_) {
    if (connection.handed_over) continue;
    if (connection.deadline <= now) {
      overdue.push_back(fd);
    } else {
      next_silent_check_ = std::min(next_silent_check_, connection.deadline);
    }
  }
  for (int fd : overdue) Close(fd);
}

}  // namespace quire
