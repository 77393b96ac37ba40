// An SSL_CTX of a client. Any thread; it reads files.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace quire {

// Paths of PEM files.
struct ClientTlsFiles {
  std::string ca = {};           // the CAs to trust; empty: the system's
  std::string certificate = {};  // that the client shows, with those between it and its CA
  std::string key = {};          // of the certificate
};

// For TlsStream::NewClient: the server's certificate is verified. INVALID_ARGUMENT begins with the
// file that cannot be used.
absl::StatusOr<std::shared_ptr<SSL_CTX>> MakeClientContext(const ClientTlsFiles& files);

}  // namespace quire
