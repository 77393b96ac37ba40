// What a client shows of itself, and whom it trusts, from the environment: a key among the flags
// would be seen by everybody on the machine. Main thread.
#pragma once

#include <grpcpp/security/credentials.h>
#include <grpcpp/support/client_interceptor.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace quire::client {

inline constexpr char kKeyVariable[] = "QUIRE_API_KEY";
inline constexpr char kCaVariable[] = "QUIRE_CA_FILE";
inline constexpr char kCertificateVariable[] = "QUIRE_CLIENT_CERT";
inline constexpr char kCertificateKeyVariable[] = "QUIRE_CLIENT_KEY";

// What an address of https:// begins with after ParseTarget; others have no scheme.
inline constexpr char kTlsPrefix[] = "https://";

// Whether the environment has a key.
bool HasKey();

// INVALID_ARGUMENT when QUIRE_API_KEY holds what no key can be: gRPC ends the program over it.
absl::Status CheckKeyVariable();

// INVALID_ARGUMENT, naming the variable, when a file that TLS would need cannot be read or is no
// PEM.
absl::Status CheckTlsVariables();

// TLS or none. A file that cannot be read counts as empty, and the handshake fails.
std::shared_ptr<grpc::ChannelCredentials> MakeCredentials(bool tls);

// Adds the key of the environment, if there is one, to every call.
std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> KeySenders();

}  // namespace quire::client
