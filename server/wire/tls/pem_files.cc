#include "server/wire/tls/pem_files.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kernels/base/status_macros.h"
#include "server/wire/tls/tls_error.h"
#include "server/wire/tls/tls_options.h"

namespace quire {

namespace {

constexpr char kCertificateFlag[] = "--tls-cert";
constexpr char kKeyFlag[] = "--tls-key";
constexpr char kClientCaFlag[] = "--tls-client-ca";
constexpr int kMaxClientChainBytes = 32 << 10;  // before a client is known

struct FreeOpenSsl {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
template <typename Object>
using Owned = std::unique_ptr<Object, FreeOpenSsl>;

absl::Status Mistake(absl::string_view flag, absl::string_view sentence) {
  return absl::InvalidArgumentError(absl::StrCat(flag, ": ", sentence));
}

absl::Status NoMemory() {
  return absl::UnavailableError(absl::StrCat("no memory for a certificate: ", TakeTlsErrors()));
}

// Null when there is no memory.
Owned<BIO> Reader(const std::string& text) {
  return Owned<BIO>(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// Instead of asking on the terminal.
int NoPassword(char*, int, int, void*) { return -1; }

// Calls `add` with every certificate of the text, of which there must be one.
template <typename Add>
absl::Status ForEachCertificate(absl::string_view flag, const std::string& text, Add add) {
  const Owned<BIO> bio = Reader(text);
  if (bio == nullptr) return NoMemory();
  int count = 0;
  ERR_clear_error();
  while (X509* certificate = PEM_read_bio_X509(bio.get(), nullptr, &NoPassword, nullptr)) {
    RETURN_IF_ERROR(add(count++, Owned<X509>(certificate)));
  }
  const bool is_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  const std::string errors = TakeTlsErrors();
  if (!is_end) return Mistake(flag, absl::StrCat("certificate ", count + 1, ": ", errors));
  if (count == 0) return Mistake(flag, "has no certificate in PEM form");
  return absl::OkStatus();
}

absl::Status UseCertificate(const std::string& text, SSL_CTX* context) {
  return ForEachCertificate(kCertificateFlag, text, [context](int index, Owned<X509> certificate) {
    const bool used = index == 0 ? SSL_CTX_use_certificate(context, certificate.get()) == 1
                                 : SSL_CTX_add1_chain_cert(context, certificate.get()) == 1;
    if (!used) return Mistake(kCertificateFlag, TakeTlsErrors());
    return absl::OkStatus();
  });
}

absl::Status UseKey(const std::string& text, SSL_CTX* context) {
  ERR_clear_error();
  const Owned<BIO> bio = Reader(text);
  if (bio == nullptr) return NoMemory();
  const Owned<EVP_PKEY> key(PEM_read_bio_PrivateKey(bio.get(), nullptr, &NoPassword, nullptr));
  if (key == nullptr) {
    ERR_clear_error();
    return Mistake(kKeyFlag, absl::StrCat("has no private key in PEM form that can be read without "
                                          "a password"));
  }
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1 || SSL_CTX_check_private_key(context) != 1) {
    return Mistake(kKeyFlag, absl::StrCat("does not fit the certificate of ", kCertificateFlag,
                                          ": ", TakeTlsErrors()));
  }
  return absl::OkStatus();
}

absl::Status TrustClients(const std::string& text, bool required, SSL_CTX* context) {
  X509_STORE* store = SSL_CTX_get_cert_store(context);
  RETURN_IF_ERROR(ForEachCertificate(kClientCaFlag, text, [&](int, Owned<X509> certificate) {
    if (X509_STORE_add_cert(store, certificate.get()) != 1 ||
        SSL_CTX_add_client_CA(context, certificate.get()) != 1) {
      return Mistake(kClientCaFlag, TakeTlsErrors());
    }
    return absl::OkStatus();
  }));
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | (required ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0),
                     nullptr);
  return absl::OkStatus();
}

// The server's order counts. A client that offers only other protocols is refused.
int SelectProtocol(SSL*, const unsigned char** chosen, unsigned char* chosen_size,
                   const unsigned char* offered, unsigned int offered_size, void*) {
  static constexpr unsigned char kKnown[] = "\x02h2\x08http/1.1";
  const int selected = SSL_select_next_proto(const_cast<unsigned char**>(chosen), chosen_size,
                                             kKnown, sizeof(kKnown) - 1, offered, offered_size);
  return selected == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

// False when there is no memory.
bool SetProtocol(SSL_CTX* context) {
  SetTlsOptions(context);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_max_cert_list(context, kMaxClientChainBytes);
  SSL_CTX_set_alpn_select_cb(context, &SelectProtocol, nullptr);
  // Of TLS 1.2, what HTTP/2 allows (RFC 9113, appendix A).
  return SSL_CTX_set_cipher_list(context, "ECDHE+AESGCM:ECDHE+CHACHA20") == 1;
}

}  // namespace

absl::StatusOr<std::shared_ptr<SSL_CTX>> MakeServerContext(const PemTexts& texts) {
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), &SSL_CTX_free);
  if (context == nullptr || !SetProtocol(context.get())) return NoMemory();
  RETURN_IF_ERROR(UseCertificate(texts.certificate, context.get()));
  RETURN_IF_ERROR(UseKey(texts.key, context.get()));
  if (!texts.client_ca.empty()) {
    RETURN_IF_ERROR(TrustClients(texts.client_ca, texts.require_client_certificate, context.get()));
  }
  return context;
}

}  // namespace quire
