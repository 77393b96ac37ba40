#include "tools/bench/http/client_socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/wire/tls/tls_stream.h"

namespace quire::bench {

namespace {

constexpr size_t kReadBytes = 256 << 10;

}  // namespace

ClientSocket::ClientSocket(IoLoop* loop, const ServerAddress& server, std::string_view alpn,
                           User* user)
    : loop_(*loop),
      user_(*user),
      fd_(socket(server.address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
  if (!fd_.valid()) {
    is_lost_ = true;
    return;
  }
  const int on = 1;
  setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (server.tls == nullptr) {
    stream_ = std::make_unique<SocketStream>(fd_.get());
  } else if (auto tls = TlsStream::NewClient(server.tls.get(), fd_.get(), server.host, alpn)) {
    tls_ = tls.get();
    stream_ = std::make_unique<TlsByteStream>(std::move(tls));
  }
  // An error is told as soon as the loop looks.
  if (connect(fd_.get(), reinterpret_cast<const sockaddr*>(&server.address), server.address_size) !=
          0 &&
      errno != EINPROGRESS) {
    connect_error_ = errno;
  }
  watched_events_ = EPOLLOUT;
  loop_.Watch(fd_.get(), watched_events_, this);
}

ClientSocket::~ClientSocket() {
  if (!is_lost_) loop_.EndWatch(fd_.get(), this);
}

bool ClientSocket::FinishConnecting() {
  int error = connect_error_;
  socklen_t size = sizeof(error);
  if (error == 0) getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error == 0 && stream_ != nullptr) {
    is_connecting_ = false;
    return true;
  }
  if (error == ECONNREFUSED) {
    Lose("nothing listens there");
  } else {
    Lose(absl::StrCat("cannot connect: ", stream_ == nullptr ? "no TLS" : std::strerror(error)));
  }
  return false;
}

void ClientSocket::OnReady(uint32_t epoll_events) {
  const bool was_connecting = is_connecting_;
  if (was_connecting && !FinishConnecting()) return;
  // TLS begins with a read, and a read of TLS may have waited until it could write.
  const bool reads = (epoll_events & ~uint32_t{EPOLLOUT}) != 0;
  if (reads || was_connecting || read_wants_write_) ReadAll();
  if (!is_lost_) SendPending();
  if (!is_lost_) UpdateWatch();
}

void ClientSocket::ReadAll() {
  thread_local std::string buffer(kReadBytes, '\0');
  for (;;) {
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
        return Lose(tls_ != nullptr ? absl::StrCat("TLS: ", tls_->error(),
                                                   " (https:// is for servers with TLS, others "
                                                   "have http://)")
                                    : "the connection was reset");
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

void ClientSocket::Lose(const std::string& why) {
  is_lost_ = true;
  loop_.EndWatch(fd_.get(), this);
  user_.OnLost(why);
}

}  // namespace quire::bench
