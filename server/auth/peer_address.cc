#include "server/auth/peer_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>

namespace quire {

namespace {

constexpr size_t kIpv6PrefixBytes = 8;  // a /64

std::string Text(int family, const void* address) {
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(family, address, text, sizeof(text));
  return text;
}

bool IsIpv4Loopback(const in_addr& address) { return (ntohl(address.s_addr) >> 24) == 127; }

}  // namespace

PeerAddress PeerAddress::OfSocket(int fd) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  return From(address);
}

PeerAddress PeerAddress::From(const sockaddr_storage& address) {
  if (address.ss_family == AF_UNIX) return {"local", true};
  if (address.ss_family == AF_INET) {
    const in_addr v4 = reinterpret_cast<const sockaddr_in&>(address).sin_addr;
    return {Text(AF_INET, &v4), IsIpv4Loopback(v4)};
  }
  if (address.ss_family != AF_INET6) return {};
  in6_addr v6 = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&v6)) {  // a socket that listens on :: sees IPv4 clients so
    in_addr v4;
    std::memcpy(&v4, v6.s6_addr + 12, sizeof(v4));
    return {Text(AF_INET, &v4), IsIpv4Loopback(v4)};
  }
  if (IN6_IS_ADDR_LOOPBACK(&v6)) return {"::1", true};
  std::memset(v6.s6_addr + kIpv6PrefixBytes, 0, sizeof(v6.s6_addr) - kIpv6PrefixBytes);
  return {Text(AF_INET6, &v6) + "/64", false};
}

}  // namespace quire
