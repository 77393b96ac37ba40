// ServerAddress: where a client connects to, looked up once, and how it speaks TLS there. Any
// thread.
#pragma once

#include <openssl/ssl.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/host_port.h"

namespace quire {

struct SocketAddress {
  sockaddr_storage address = {};
  socklen_t size = 0;
};

struct ServerAddress {
  std::string authority;                      // "HOST:PORT", as requests name it
  std::string host;                           // as certificates name it
  std::vector<SocketAddress> addresses = {};  // tried in this order; not empty
  std::shared_ptr<SSL_CTX> tls = {};          // null: in the clear
};

// Takes as long as name servers take. UNAVAILABLE when the host has no address.
absl::StatusOr<ServerAddress> LookUpServer(const HostPort& server);

// The same without name servers, for an address, which needs none.
absl::StatusOr<ServerAddress> ReadServerAddress(const HostPort& server);

}  // namespace quire
