#include "server/base/host_port.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace quire {

namespace {

bool IsHostName(absl::string_view host) {
  if (host.empty() || host.size() > 253) return false;
  for (const char c : host) {
    if (!absl::ascii_isalnum(c) && c != '-' && c != '.' && c != '_') return false;
  }
  return true;
}

// The inside of [...]: the address, perhaps with "%interface".
bool IsIpv6(absl::string_view host) {
  const absl::string_view address = host.substr(0, host.find('%'));
  if (!absl::StrContains(address, ':')) return false;
  for (const char c : address) {
    if (!absl::ascii_isxdigit(c) && c != ':' && c != '.') return false;
  }
  return address.size() == host.size() || IsHostName(host.substr(address.size() + 1));
}

absl::StatusOr<int32_t> ParsePort(absl::string_view text) {
  int32_t port = 0;
  if (!absl::SimpleAtoi(text, &port) || !absl::ascii_isdigit(text.front()) || port < 1 ||
      port > 65535) {
    return absl::InvalidArgumentError("has no port from 1 to 65535 after its colon");
  }
  return port;
}

}  // namespace

std::string HostPort::ToString() const {
  const bool is_ipv6 = absl::StrContains(host, ':');
  return absl::StrCat(is_ipv6 ? "[" : "", host, is_ipv6 ? "]:" : ":", port);
}

absl::StatusOr<HostPort> ParseHostPort(absl::string_view text, int32_t default_port) {
  absl::string_view host, after;  // what follows the host: nothing, or a colon and the port
  if (absl::ConsumePrefix(&text, "[")) {
    const size_t end = text.find(']');
    if (end == absl::string_view::npos || !IsIpv6(text.substr(0, end))) {
      return absl::InvalidArgumentError("has no IPv6 address in its brackets");
    }
    host = text.substr(0, end);
    after = text.substr(end + 1);
    if (!after.empty() && after[0] != ':') {
      return absl::InvalidArgumentError("goes on after the bracket without a colon");
    }
  } else {
    const size_t colon = text.find(':');
    if (colon != text.rfind(':')) {
      return absl::InvalidArgumentError("has several colons; IPv6 needs brackets");
    }
    host = text.substr(0, colon);
    if (colon != absl::string_view::npos) after = text.substr(colon);
    if (!IsHostName(host)) return absl::InvalidArgumentError("has no host name or address");
  }
  HostPort parsed{.host = std::string(host), .port = default_port};
  if (after.empty()) return parsed;
  const absl::StatusOr<int32_t> port = ParsePort(after.substr(1));
  if (!port.ok()) return port.status();
  parsed.port = *port;
  return parsed;
}

}  // namespace quire
