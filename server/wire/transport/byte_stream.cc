#include "server/wire/transport/byte_stream.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace quire {

namespace {

IoResult FromTls(const TlsIo& io) {
  switch (io.state) {
    case TlsIo::State::kDone:
      return {IoResult::Kind::kDone, io.num_bytes};
    case TlsIo::State::kWantRead:
      return {IoResult::Kind::kWantRead};
    case TlsIo::State::kWantWrite:
      return {IoResult::Kind::kWantWrite};
    case TlsIo::State::kClosed:
      return {IoResult::Kind::kEnd};
    case TlsIo::State::kError:
      break;
  }
  return {IoResult::Kind::kFailed};
}

}  // namespace

IoResult TlsByteStream::Read(absl::Span<char> buffer) {
  if (!is_open_) {
    const TlsIo handshake = tls_->Handshake();
    if (handshake.state != TlsIo::State::kDone) return FromTls(handshake);
    is_open_ = true;
  }
  return FromTls(tls_->Read(buffer));
}

IoResult TlsByteStream::Write(std::string_view bytes) {
  return FromTls(tls_->Write({bytes.data(), bytes.size()}));
}

IoResult SocketStream::Read(absl::Span<char> buffer) {
  if (std::exchange(is_drained_, false)) return {IoResult::Kind::kWantRead};
  ssize_t size = 0;
  do {
    size = recv(fd_, buffer.data(), buffer.size(), 0);
  } while (size < 0 && errno == EINTR);
  is_drained_ = size > 0 && static_cast<size_t>(size) < buffer.size();
  if (size > 0) return {IoResult::Kind::kDone, static_cast<size_t>(size)};
  if (size == 0) return {IoResult::Kind::kEnd};
  return {errno == EAGAIN ? IoResult::Kind::kWantRead : IoResult::Kind::kFailed};
}

IoResult SocketStream::Write(std::string_view bytes) {
  ssize_t size = 0;
  do {
    size = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  } while (size < 0 && errno == EINTR);
  if (size >= 0) return {IoResult::Kind::kDone, static_cast<size_t>(size)};
  return {errno == EAGAIN ? IoResult::Kind::kWantWrite : IoResult::Kind::kFailed};
}

void SocketStream::EndWriting() { shutdown(fd_, SHUT_WR); }

}  // namespace quire
