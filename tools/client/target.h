// The address of a server as users write it. Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace CLI {
class App;
}

namespace quire::client {

inline constexpr int kDefaultPort = 8000;
inline constexpr char kDefaultTarget[] = "127.0.0.1:8000";

// "HOST:PORT" from HOST, HOST:PORT, [IPV6], [IPV6]:PORT, each with or without http:// or grpc://
// before it. "https://HOST:PORT" if https:// or grpcs:// asks for TLS. The port is 8000 unless
// given. INVALID_ARGUMENT says what to write instead.
absl::StatusOr<std::string> ParseTarget(std::string_view text);

// --target, or else QUIRE_TARGET in the environment, or else the address that the server wrote to
// the file that QUIRE_ADDRESS_FILE names (--address-file), or else kDefaultTarget. After parsing,
// `target` has the form of ParseTarget; a malformed one is an error of the command line, and so are
// files for TLS that cannot be read (credentials.h).
void AddTargetFlag(CLI::App& command, std::string* target);

}  // namespace quire::client
