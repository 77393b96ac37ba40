#include "server/wire/tls/tls_stream.h"

#include <openssl/err.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "server/wire/tls/certificate_name.h"
#include "server/wire/tls/tls_error.h"

namespace quire {

std::unique_ptr<TlsStream> TlsStream::New(SSL_CTX* context, int fd) {
  std::unique_ptr<SSL, Free> ssl(SSL_new(context));
  if (ssl == nullptr || SSL_set_fd(ssl.get(), fd) != 1) return nullptr;
  SSL_set_accept_state(ssl.get());
  return std::unique_ptr<TlsStream>(new TlsStream(std::move(ssl)));
}

std::unique_ptr<TlsStream> TlsStream::NewClient(SSL_CTX* context, int fd, const std::string& host,
                                                std::string_view protocol) {
  std::unique_ptr<SSL, Free> ssl(SSL_new(context));
  if (ssl == nullptr || SSL_set_fd(ssl.get(), fd) != 1) return nullptr;
  SSL_set_connect_state(ssl.get());
  // An address is matched with the certificate's addresses, and is no name to ask for.
  if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl.get()), host.c_str()) != 1) {
    SSL_set_tlsext_host_name(ssl.get(), host.c_str());
    if (SSL_set1_host(ssl.get(), host.c_str()) != 1) return nullptr;
  }
  std::string offered(1, static_cast<char>(protocol.size()));
  offered.append(protocol);
  SSL_set_alpn_protos(ssl.get(), reinterpret_cast<const unsigned char*>(offered.data()),
                      static_cast<unsigned int>(offered.size()));
  return std::unique_ptr<TlsStream>(new TlsStream(std::move(ssl)));
}

TlsIo TlsStream::Handshake() {
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_.get());
  if (result == 1) return {TlsIo::State::kDone};
  return Failed(result);
}

TlsIo TlsStream::Read(absl::Span<char> buffer) {
  ERR_clear_error();
  size_t num_bytes = 0;
  const int result = SSL_read_ex(ssl_.get(), buffer.data(), buffer.size(), &num_bytes);
  if (result == 1) return {TlsIo::State::kDone, num_bytes};
  return Failed(result);
}

TlsIo TlsStream::Write(absl::string_view bytes) {
  if (bytes.empty()) return {TlsIo::State::kDone};
  ERR_clear_error();
  size_t num_bytes = 0;
  const int result = SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &num_bytes);
  if (result == 1) return {TlsIo::State::kDone, num_bytes};
  const TlsIo failed = Failed(result);
  if (failed.state != TlsIo::State::kClosed) return failed;
  error_ = "the peer has closed the connection";
  return {TlsIo::State::kError};
}

void TlsStream::SendClose() {
  // Not after an error, nor before the end of the handshake: OpenSSL forbids both.
  if (!error_.empty() || SSL_is_init_finished(ssl_.get()) == 0) return;
  ERR_clear_error();
  SSL_shutdown(ssl_.get());
}

TlsIo TlsStream::Failed(int result) {
  const int system_error = errno;
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return {TlsIo::State::kWantRead};
    case SSL_ERROR_WANT_WRITE:
      return {TlsIo::State::kWantWrite};
    case SSL_ERROR_ZERO_RETURN:
      if (SSL_is_init_finished(ssl_.get()) != 0) return {TlsIo::State::kClosed};
      error_ = "the peer closed the connection in the handshake";
      break;
    case SSL_ERROR_SYSCALL:
      error_ = system_error != 0 ? std::strerror(system_error)
                                 : "the peer closed the connection in the handshake";
      break;
    default:
      error_ = TakeTlsErrors();
      AddWhyNotTrusted();
  }
  return {TlsIo::State::kError};
}

// OpenSSL's error says that a certificate was not accepted; a client needs to know why.
void TlsStream::AddWhyNotTrusted() {
  const auto verdict = SSL_get_verify_result(ssl_.get());
  if (SSL_is_server(ssl_.get()) != 0 || verdict == X509_V_OK) return;
  absl::StrAppend(&error_, ": ", X509_verify_cert_error_string(verdict));
}

std::string TlsStream::protocol() const {
  const unsigned char* name = nullptr;
  unsigned int size = 0;
  SSL_get0_alpn_selected(ssl_.get(), &name, &size);
  return std::string(reinterpret_cast<const char*>(name), size);
}

std::optional<std::string> TlsStream::client_name() const {
  const X509* certificate = SSL_get0_peer_certificate(ssl_.get());
  if (certificate == nullptr || SSL_get_verify_result(ssl_.get()) != X509_V_OK) return std::nullopt;
  return CertificateName(certificate);
}

}  // namespace quire
