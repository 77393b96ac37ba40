#include "server/wire/tls/client_context.h"

#include <openssl/err.h>

#include "absl/strings/str_cat.h"
#include "server/wire/tls/tls_error.h"
#include "server/wire/tls/tls_options.h"

namespace quire {

namespace {

absl::Status Mistake(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(what, ": ", TakeTlsErrors()));
}

}  // namespace

absl::StatusOr<std::shared_ptr<SSL_CTX>> MakeClientContext(const ClientTlsFiles& files) {
  ERR_clear_error();
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free);
  if (context == nullptr) return Mistake("no memory for TLS");
  SSL_CTX* const ssl = context.get();
  SetTlsOptions(ssl);
  SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER, nullptr);
  if (files.ca.empty()) {
    if (SSL_CTX_set_default_verify_paths(ssl) != 1) return Mistake("the system's CAs");
  } else if (SSL_CTX_load_verify_file(ssl, files.ca.c_str()) != 1) {
    return Mistake(files.ca);
  }
  if (files.certificate.empty()) return context;
  if (SSL_CTX_use_certificate_chain_file(ssl, files.certificate.c_str()) != 1) {
    return Mistake(files.certificate);
  }
  if (SSL_CTX_use_PrivateKey_file(ssl, files.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return Mistake(files.key);
  }
  return context;
}

}  // namespace quire
