// The pipe that carries a test client's bytes. Blocking; one thread.
#pragma once

#include <sys/socket.h>
#include <sys/time.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "server/wire/transport/unique_fd.h"

namespace quire::testing {

// The client's end of a connection.
class ClientPipe {
 public:
  virtual ~ClientPipe() = default;
  // Zero or less when the connection has ended; -1 and EAGAIN when nothing came for 20 s.
  virtual ssize_t Receive(char* buffer, size_t size) = 0;
  // All of it, unless the connection has ended.
  virtual void Send(const uint8_t* bytes, size_t size) = 0;
};

class SocketPipe final : public ClientPipe {
 public:
  explicit SocketPipe(UniqueFd fd) : fd_(std::move(fd)) {
    const timeval timeout = {20, 0};
    setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  }
  ssize_t Receive(char* buffer, size_t size) override { return recv(fd_.get(), buffer, size, 0); }
  void Send(const uint8_t* bytes, size_t size) override {
    send(fd_.get(), bytes, size, MSG_NOSIGNAL);
  }

 private:
  const UniqueFd fd_;
};

}  // namespace quire::testing
