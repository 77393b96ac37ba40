#include "server/transport/byte_stream.h"

#include <sys/socket.h>

#include <cerrno>

namespace quire {

IoResult SocketStream::Read(absl::Span<char> buffer) {
  ssize_t size = 0;
  do {
    size = recv(fd_, buffer.data(), buffer.size(), 0);
  } while (size < 0 && errno == EINTR);
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
