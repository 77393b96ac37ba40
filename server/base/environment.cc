#include "server/base/environment.h"

#include <unistd.h>

#include <cstdlib>

namespace quire {

namespace {

// The certificates of distributions other than the one that libcurl and OpenSSL were built on, for
// a bundle that runs there.
constexpr const char* kCertificateFiles[] = {"/etc/ssl/certs/ca-certificates.crt",
                                             "/etc/pki/tls/certs/ca-bundle.crt",
                                             "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"};

}  // namespace

std::string ReadEnvironment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? "" : value;
}

std::string CertificateFile(const ReadVariable& variable) {
  for (const char* name : {"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"}) {
    if (std::string file = variable(name); !file.empty()) return file;
  }
  for (const char* file : kCertificateFiles) {
    if (access(file, R_OK) == 0) return file;
  }
  return "";
}

}  // namespace quire
