// Certificates made for one test: CAs, and what they sign.
#pragma once

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

namespace quire {

struct CertificateOptions {
  std::string common_name = {};        // empty: none
  std::string alternative_names = {};  // as OpenSSL's configuration has them: "DNS:a,URI:b"
  bool is_ca = false;
  bool has_expired = false;
};

// A certificate and its key.
class TestCertificate {
 public:
  // Signed by `issuer`, or by itself when that is null.
  explicit TestCertificate(const CertificateOptions& options,
                           const TestCertificate* issuer = nullptr);

  X509* certificate() const { return certificate_.get(); }
  EVP_PKEY* key() const { return key_.get(); }
  std::string CertificatePem() const;
  // In PEM; encrypted if there is a password.
  std::string KeyPem(const std::string& password = "") const;

 private:
  struct Free {
    void operator()(X509* certificate) const { X509_free(certificate); }
    void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  };
  std::unique_ptr<X509, Free> certificate_;
  std::unique_ptr<EVP_PKEY, Free> key_;
};

}  // namespace quire
