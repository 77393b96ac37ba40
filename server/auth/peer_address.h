// PeerAddress: the client of a connection, as far as an address tells it. Immutable value; any
// thread.
#pragma once

#include <sys/socket.h>

#include <string>

namespace quire {

class PeerAddress {
 public:
  // The peer of the connected socket `fd`; unknown when it has no peer (any more).
  static PeerAddress OfSocket(int fd);
  static PeerAddress From(const sockaddr_storage& address);
  PeerAddress() = default;  // unknown

  // One client: "203.0.113.7"; "2001:db8:1:2::/64" for IPv6, where a single customer has that many
  // addresses; "local" for a socket of this machine's file system; "unknown".
  const std::string& name() const { return name_; }
  // Whether the client runs on this machine.
  bool is_loopback() const { return is_loopback_; }

 private:
  PeerAddress(std::string name, bool is_loopback)
      : name_(std::move(name)), is_loopback_(is_loopback) {}

  std::string name_ = "unknown";
  bool is_loopback_ = false;
};

}  // namespace quire
