// Hosts and ports as users write them. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace quire {

struct HostPort {
  std::string host;  // of an IPv6 address without its brackets
  int32_t port = 0;

  // "HOST:PORT", an IPv6 address in brackets.
  std::string ToString() const;
};

// From HOST, HOST:PORT, [IPV6] or [IPV6]:PORT. The message of INVALID_ARGUMENT says what is wrong
// with `text`. It continues a sentence that has named `text`: "has no host name or address".
absl::StatusOr<HostPort> ParseHostPort(absl::string_view text, int32_t default_port);

}  // namespace quire
