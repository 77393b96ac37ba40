#include "tools/bench/http/server_address.h"

#include <netdb.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "kernels/base/status_macros.h"
#include "server/base/environment.h"
#include "server/wire/tls/tls_error.h"
#include "tools/client/credentials.h"

namespace quire::bench {

namespace {

absl::Status TlsProblem(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(what, ": ", TakeTlsErrors()));
}

absl::StatusOr<std::shared_ptr<SSL_CTX>> MakeTls() {
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  if (context == nullptr) return TlsProblem("no TLS");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  const std::string ca = ReadEnvironment(client::kCaVariable);
  const int trusts = !ca.empty() ? SSL_CTX_load_verify_file(context.get(), ca.c_str())
                                 : SSL_CTX_set_default_verify_paths(context.get());
  if (trusts != 1) return TlsProblem(client::kCaVariable);
  const std::string certificate = ReadEnvironment(client::kCertificateVariable);
  const std::string key = ReadEnvironment(client::kCertificateKeyVariable);
  if (!certificate.empty() && !key.empty() &&
      (SSL_CTX_use_certificate_chain_file(context.get(), certificate.c_str()) != 1 ||
       SSL_CTX_use_PrivateKey_file(context.get(), key.c_str(), SSL_FILETYPE_PEM) != 1)) {
    return TlsProblem(client::kCertificateVariable);
  }
  return context;
}

}  // namespace

absl::StatusOr<ServerAddress> FindServer(std::string_view target) {
  absl::string_view rest(target.data(), target.size());
  ServerAddress server;
  if (absl::ConsumePrefix(&rest, client::kTlsPrefix)) {
    ASSIGN_OR_RETURN(server.tls, MakeTls());
  }
  server.authority = std::string(rest);
  const size_t colon = rest.rfind(':');
  const std::string port(rest.substr(colon + 1));
  rest = rest.substr(0, colon);
  if (absl::ConsumePrefix(&rest, "[")) absl::ConsumeSuffix(&rest, "]");
  server.host = std::string(rest);
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(server.host.c_str(), port.c_str(), &hints, &found);
      error != 0) {
    return absl::UnavailableError(absl::StrCat("no host ", server.host, ": ", gai_strerror(error)));
  }
  std::memcpy(&server.address, found->ai_addr, found->ai_addrlen);
  server.address_size = found->ai_addrlen;
  freeaddrinfo(found);
  return server;
}

}  // namespace quire::bench
