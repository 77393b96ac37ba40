// Listener: the server's TCP port. Bound early, so that a port in use is found before the model is
// loaded; it accepts connections only after Listen. Main thread, then the acceptor's.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/wire/transport/unique_fd.h"

namespace quire {

class Listener {
 public:
  // `host` is a numeric IPv4 or IPv6 address, or "localhost"; port 0 picks a free one.
  // INVALID_ARGUMENT for another host; UNAVAILABLE when the port is in use or not allowed.
  static absl::StatusOr<Listener> Bind(const std::string& host, int port);

  // UNAVAILABLE when another process began to listen on the port since Bind.
  absl::Status Listen();

  int fd() const { return fd_.get(); }
  int port() const { return port_; }
  const std::string& address() const { return address_; }  // "0.0.0.0:8000", "[::]:8000"

 private:
  UniqueFd fd_;
  int port_ = 0;
  std::string address_;
};

}  // namespace quire
