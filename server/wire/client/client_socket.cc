#include "server/wire/client/client_socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/wire/tls/tls_stream.h"

namespace quire {

namespace {

constexpr size_t kReadBytes = 256 << 10;
constexpr int kMaxReadsAtOnce = 64;  // then other connections have their turn, and deadlines

}  // namespace

ClientSocket::ClientSocket(IoLoop* loop, const ServerAddress& server, std::string_view alpn,
                           User* user)
    : loop_(*loop), server_(server), alpn_(alpn), user_(*user) {
  is_lost_ = !ConnectToNext();
}

ClientSocket::~ClientSocket() {
  if (fd_.valid()) loop_.EndWatch(fd_.get(), this);
}

// False when none of the addresses is left that the system lets us connect to.
bool ClientSocket::ConnectToNext() {
  while (num_tried_ < server_.addresses.size()) {
    const SocketAddress& next = server_.addresses[num_tried_++];
    fd_ = UniqueFd(socket(next.address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd_.valid()) continue;
    const int on = 1;
    setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    // An error is told as soon as the loop looks.
    connect_error_ = 0;
    if (connect(fd_.get(), reinterpret_cast<const sockaddr*>(&next.address), next.size) != 0 &&
        errno != EINPROGRESS) {
      connect_error_ = errno;
    }
    watched_events_ = EPOLLOUT;
    if (loop_.Watch(fd_.get(), watched_events_, this)) return true;
    fd_.Reset();
  }
  return false;
}

bool ClientSocket::FinishConnecting() {
  int error = connect_error_;
  socklen_t size = sizeof(error);
  if (error == 0) getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) {
    loop_.EndWatch(fd_.get(), this);
    fd_.Reset();
    if (ConnectToNext()) return false;
    Lose(error == ECONNREFUSED ? "nothing listens there"
                               : absl::StrCat("cannot connect: ", std::strerror(error)));
    return false;
  }
  if (server_.tls == nullptr) {
    stream_ = std::make_unique<SocketStream>(fd_.get());
  } else if (auto tls = TlsStream::NewClient(server_.tls.get(), fd_.get(), server_.host, alpn_)) {
    tls_ = tls.get();
    stream_ = std::make_unique<TlsByteStream>(std::move(tls));
  } else {
    Lose("no memory for TLS");
    return false;
  }
  is_connecting_ = false;
  return true;
}

void ClientSocket::OnReady(uint32_t epoll_events) {
  const bool was_connecting = is_connecting_;
  if (was_connecting && !FinishConnecting()) return;
  // TLS begins with a read, and a read of TLS may have waited until it could write.
  const bool reads = (epoll_events & ~uint32_t{EPOLLOUT}) != 0;
  if (reads || was_connecting || read_wants_write_) ReadSome();
  if (!is_lost_) SendPending();
  if (!is_lost_) UpdateWatch();
}

void ClientSocket::ReadSome() {
  thread_local std::string buffer(kReadBytes, '\0');
  for (int i = 0; i < kMaxReadsAtOnce; ++i) {
    const IoResult result = stream_->Read(absl::MakeSpan(buffer));
    read_wants_write_ = result.kind == IoResult::Kind::kWantWrite;
    switch (result.kind) {
      case IoResult::Kind::kDone:
        user_.OnBytes({buffer.data(), result.bytes});
        if (is_lost_) return;
        break;
      case IoResult::Kind::kWantRead:
      case IoResult::Kind::kWantWrite:
        return;
      case IoResult::Kind::kEnd:
        return Lose("the server closed the connection");
      case IoResult::Kind::kFailed:
        return Lose(WhyBroken());
    }
  }
}

void ClientSocket::Send(std::string_view bytes) {
  if (is_lost_) return;
  pending_.append(bytes);
  if (is_connecting_) return;
  SendPending();
  if (!is_lost_) UpdateWatch();
}

void ClientSocket::SendPending() {
  while (pending_begin_ < pending_.size()) {
    const IoResult result = stream_->Write(std::string_view(pending_).substr(pending_begin_));
    write_wants_read_ = result.kind == IoResult::Kind::kWantRead;
    if (result.kind != IoResult::Kind::kDone) return;  // if it is lost, the next read says why
    pending_begin_ += result.bytes;
  }
  pending_.clear();
  pending_begin_ = 0;
}

void ClientSocket::UpdateWatch() {
  const bool writes = (!pending_.empty() && !write_wants_read_) || read_wants_write_;
  const uint32_t events = EPOLLIN | (writes ? uint32_t{EPOLLOUT} : 0);
  if (events == watched_events_) return;
  watched_events_ = events;
  loop_.ChangeWatch(fd_.get(), events, this);
}

std::string ClientSocket::WhyBroken() const {
  if (tls_ == nullptr) return "the connection was reset";
  // A server that speaks TLS shows a certificate; other servers have sent something else.
  const bool speaks_tls = absl::StrContains(tls_->error(), "certificate");
  return absl::StrCat("TLS: ", tls_->error(),
                      speaks_tls ? "" : " (https:// is for servers with TLS, others have http://)");
}

void ClientSocket::Lose(const std::string& why) {
  is_lost_ = true;
  if (fd_.valid()) loop_.EndWatch(fd_.get(), this);
  fd_.Reset();
  user_.OnLost(why);
}

}  // namespace quire
