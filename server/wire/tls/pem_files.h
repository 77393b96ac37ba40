// An SSL_CTX of a server, made of PEM texts. Any thread.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace quire {

struct PemTexts {
  std::string certificate;
  std::string key;
  std::string client_ca;  // empty: clients are not asked for certificates
  bool require_client_certificate = false;
};

// TLS 1.2 and 1.3, forward secrecy only, no renegotiation, no resumed sessions (each would keep the
// client certificate that an earlier CA has signed), HTTP/2 or HTTP/1.1. INVALID_ARGUMENT,
// beginning with the setting that the text came from.
absl::StatusOr<std::shared_ptr<SSL_CTX>> MakeServerContext(const PemTexts& texts);

}  // namespace quire
