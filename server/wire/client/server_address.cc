#include "server/wire/client/server_address.h"

#include <netdb.h>

#include <cstring>

#include "absl/strings/str_cat.h"

namespace quire {

namespace {

absl::StatusOr<ServerAddress> LookUp(const HostPort& server, int flags) {
  addrinfo hints = {};
  hints.ai_flags = flags | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error =
          getaddrinfo(server.host.c_str(), absl::StrCat(server.port).c_str(), &hints, &found);
      error != 0) {
    return absl::UnavailableError(absl::StrCat("no host ", server.host, ": ", gai_strerror(error)));
  }
  ServerAddress result{.authority = server.ToString(), .host = server.host};
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    SocketAddress address;
    address.size = one->ai_addrlen;
    std::memcpy(&address.address, one->ai_addr, one->ai_addrlen);
    result.addresses.push_back(address);
  }
  freeaddrinfo(found);
  return result;
}

}  // namespace

absl::StatusOr<ServerAddress> LookUpServer(const HostPort& server) { return LookUp(server, 0); }

absl::StatusOr<ServerAddress> ReadServerAddress(const HostPort& server) {
  return LookUp(server, AI_NUMERICHOST);
}

}  // namespace quire
