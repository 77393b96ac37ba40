// What a client shows of itself, and whom it trusts, from the environment: a key among the flags
// would be seen by everybody on the machine. Main thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace quire::client {

inline constexpr char kKeyVariable[] = "QUIRE_API_KEY";
inline constexpr char kCaVariable[] = "QUIRE_CA_FILE";
inline constexpr char kCertificateVariable[] = "QUIRE_CLIENT_CERT";
inline constexpr char kCertificateKeyVariable[] = "QUIRE_CLIENT_KEY";

// What an address of https:// begins with after ParseTarget; others have no scheme.
inline constexpr char kTlsPrefix[] = "https://";

// The key of the environment; empty if it has none.
std::string Key();

// What the file holds that the variable names; empty if it names none. INVALID_ARGUMENT, naming
// the variable, if it cannot be read or is empty.
absl::StatusOr<std::string> FileOf(const char* variable);

// INVALID_ARGUMENT when QUIRE_API_KEY holds what no key can be: gRPC ends the program over it.
absl::Status CheckKeyVariable();

// INVALID_ARGUMENT, naming the variable, when a file that TLS would need cannot be read or is no
// PEM.
absl::Status CheckTlsVariables();

}  // namespace quire::client
