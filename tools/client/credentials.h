// The credentials of a client, and the CAs that it trusts. They come from the environment, because
// everybody on the machine could see a key among the flags. Main thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace quire::client {

inline constexpr char kKeyVariable[] = "QUIRE_API_KEY";
inline constexpr char kCaVariable[] = "QUIRE_CA_FILE";
inline constexpr char kCertificateVariable[] = "QUIRE_CLIENT_CERT";
inline constexpr char kCertificateKeyVariable[] = "QUIRE_CLIENT_KEY";

// The beginning of an https:// address after ParseTarget; other addresses have no scheme.
inline constexpr char kTlsPrefix[] = "https://";

// The key of the environment; empty if it has none.
std::string Key();

// The contents of the file that the variable names; empty if the variable names none.
// INVALID_ARGUMENT, naming the variable, if it cannot be read or is empty.
absl::StatusOr<std::string> FileOf(const char* variable);

// INVALID_ARGUMENT when QUIRE_API_KEY holds a value that no key can have: gRPC would end the
// program over it.
absl::Status CheckKeyVariable();

// INVALID_ARGUMENT, naming the variable, when a file that TLS would need cannot be read or is no
// PEM.
absl::Status CheckTlsVariables();

}  // namespace quire::client
