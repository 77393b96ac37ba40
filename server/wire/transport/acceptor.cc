#include "server/wire/transport/acceptor.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/base/status_macros.h"
#include "server/auth/peer_address.h"
#include "server/base/start_thread.h"

namespace quire {

namespace {

constexpr int kPauseMs = 100;

UniqueFd OpenReserve() { return UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

}  // namespace

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::Start(Listener listener, ConnectionPool* pool) {
  std::unique_ptr<Acceptor> acceptor(new Acceptor(std::move(listener), pool));
  if (!acceptor->wake_.valid() || !acceptor->reserve_.valid()) {
    return absl::UnavailableError(
        absl::StrCat("cannot watch the port: ", std::strerror(errno), "; raise `ulimit -n`"));
  }
  ASSIGN_OR_RETURN(acceptor->thread_, StartThread([raw = acceptor.get()] { raw->Run(); }));
  return acceptor;
}

Acceptor::Acceptor(Listener listener, ConnectionPool* pool)
    : listener_(std::move(listener)),
      pool_(pool),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      reserve_(OpenReserve()) {}

Acceptor::~Acceptor() {
  if (!thread_.joinable()) return;
  eventfd_write(wake_.get(), 1);
  thread_.join();
}

void Acceptor::Run() {
  pthread_setname_np(pthread_self(), "quire-accept");
  while (true) {
    // While paused, this waits only for the call to stop.
    std::array<pollfd, 2> fds = {{{wake_.get(), POLLIN, 0}, {listener_.fd(), POLLIN, 0}}};
    const int count = poll(fds.data(), paused_ ? 1 : 2, paused_ ? kPauseMs : -1);
    if (fds[0].revents != 0) {
      // Clients that have connected already are told why the server ends.
      while (AcceptOne()) {
      }
      return;
    }
    if (paused_) {
      paused_ = false;
      if (!reserve_.valid()) reserve_ = OpenReserve();
      continue;
    }
    if (count > 0) {
      while (AcceptOne()) {
      }
    }
  }
}

// False when there is nothing more to accept now.
bool Acceptor::AcceptOne() {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  UniqueFd fd(accept4(listener_.fd(), reinterpret_cast<sockaddr*>(&address), &size,
                      SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (fd.valid()) {
    pool_->Add(std::move(fd), PeerAddress::From(address));
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
      paused_ = true;
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
  paused_ = true;
}

}  // namespace quire
