#include "server/wire/transport/listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "kernels/base/status_macros.h"

namespace quire {

namespace {

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

absl::StatusOr<SocketAddress> ParseAddress(const std::string& host, int port) {
  const std::string numeric = host == "localhost" ? "127.0.0.1" : host;
  SocketAddress address;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (inet_pton(AF_INET, numeric.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(static_cast<uint16_t>(port));
    address.size = sizeof(sockaddr_in);
    return address;
  }
  if (inet_pton(AF_INET6, numeric.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(static_cast<uint16_t>(port));
    address.size = sizeof(sockaddr_in6);
    return address;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--host: \"", host,
                   "\" is not a numeric address; allowed are IPv4 and IPv6 addresses, for "
                   "example 0.0.0.0, 127.0.0.1 or ::"));
}

absl::Status SocketError(const std::string& what, int error) {
  const char* advice = error == EADDRINUSE ? "; choose another --port or stop the program that "
                                             "has it"
                       : error == EACCES   ? "; ports below 1024 need privileges, choose "
                                             "another --port"
                       : error == EADDRNOTAVAIL
                           ? "; this machine has no such address, change --host"
                           : "";
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(error), advice));
}

// Linux gives accepted connections the options of their listener (tcp(7),
// net/ipv4/tcp_minisocks.c): small messages go out at once; peers that vanished are noticed within
// two minutes.
void SetOptions(int fd) {
  const auto set = [fd](int level, int option, int value) {
    setsockopt(fd, level, option, &value, sizeof(value));
  };
  set(SOL_SOCKET, SO_REUSEADDR, 1);
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 60);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 15);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
}

// The port that the system gave to a socket bound to port 0.
int BoundPort(int fd) {
  SocketAddress bound;
  bound.size = sizeof(bound.storage);
  getsockname(fd, bound.get(), &bound.size);
  return bound.storage.ss_family == AF_INET
             ? ntohs(reinterpret_cast<sockaddr_in*>(&bound.storage)->sin_port)
             : ntohs(reinterpret_cast<sockaddr_in6*>(&bound.storage)->sin6_port);
}

}  // namespace

absl::StatusOr<Listener> Listener::Bind(const std::string& host, int port) {
  ASSIGN_OR_RETURN(const SocketAddress address, ParseAddress(host, port));
  const bool v6 = address.storage.ss_family == AF_INET6;
  const auto shown = [&](int shown_port) {
    return v6 ? absl::StrCat("[", host, "]:", shown_port) : absl::StrCat(host, ":", shown_port);
  };
  Listener listener;
  listener.fd_ =
      UniqueFd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!listener.fd_.valid()) return SocketError("cannot open a socket", errno);
  SetOptions(listener.fd());
  if (bind(listener.fd(), address.get(), address.size) != 0) {
    return SocketError(absl::StrCat("cannot listen on ", shown(port)), errno);
  }
  listener.port_ = BoundPort(listener.fd());
  listener.address_ = shown(listener.port_);
  return listener;
}

absl::Status Listener::Listen() {
  constexpr int kBacklog = 1024;
  if (listen(fd(), kBacklog) == 0) return absl::OkStatus();
  return SocketError(absl::StrCat("cannot listen on ", address_), errno);
}

}  // namespace quire
