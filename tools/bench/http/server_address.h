// ServerAddress: where a load's connections go to, looked up once, and how they speak TLS there.
#pragma once

#include <openssl/ssl.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace quire::bench {

struct ServerAddress {
  std::string authority;  // "HOST:PORT", as requests name it
  std::string host;       // as certificates name it
  sockaddr_storage address = {};
  socklen_t address_size = 0;
  std::shared_ptr<SSL_CTX> tls;  // null: in the clear
};

// `target` as client::ParseTarget writes it: HOST:PORT, with https:// before it for TLS, whose
// files the environment names (client/credentials.h). UNAVAILABLE when the host has no address.
absl::StatusOr<ServerAddress> FindServer(std::string_view target);

}  // namespace quire::bench
