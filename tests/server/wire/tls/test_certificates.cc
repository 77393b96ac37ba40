#include "tests/server/wire/tls/test_certificates.h"

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "kernels/base/check.h"

namespace quire {

namespace {

constexpr long kDay = 24L * 60 * 60;  // NOLINT(google-runtime-int): OpenSSL's

void AddExtension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  CHECK(extension != nullptr) << value;
  CHECK_EQ(X509_add_ext(certificate, extension, -1), 1);
  X509_EXTENSION_free(extension);
}

template <typename Write>
std::string Pem(Write write) {
  BIO* bio = BIO_new(BIO_s_mem());
  CHECK_EQ(write(bio), 1);
  char* data = nullptr;
  const auto size = BIO_get_mem_data(bio, &data);
  std::string text(data, size);
  BIO_free(bio);
  return text;
}

}  // namespace

TestCertificate::TestCertificate(const CertificateOptions& options, const TestCertificate* issuer)
    : certificate_(X509_new()), key_(EVP_EC_gen("P-256")) {
  static int serial = 0;
  X509* certificate = certificate_.get();
  X509_set_version(certificate, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++serial);
  X509_gmtime_adj(X509_getm_notBefore(certificate), options.has_expired ? -2 * kDay : -kDay);
  X509_gmtime_adj(X509_getm_notAfter(certificate), options.has_expired ? -kDay : kDay);
  X509_set_pubkey(certificate, key_.get());
  if (!options.common_name.empty()) {
    X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(options.common_name.data()),
                               static_cast<int>(options.common_name.size()), -1, 0);
  }
  const TestCertificate& signer = issuer == nullptr ? *this : *issuer;
  X509_set_issuer_name(certificate, X509_get_subject_name(signer.certificate()));
  AddExtension(certificate, signer.certificate(), NID_basic_constraints,
               options.is_ca ? "critical,CA:TRUE" : "CA:FALSE");
  if (!options.alternative_names.empty()) {
    AddExtension(certificate, signer.certificate(), NID_subject_alt_name,
                 options.alternative_names);
  }
  CHECK_GT(X509_sign(certificate, signer.key(), EVP_sha256()), 0);
}

std::string TestCertificate::CertificatePem() const {
  return Pem([this](BIO* bio) { return PEM_write_bio_X509(bio, certificate()); });
}

std::string TestCertificate::KeyPem(const std::string& password) const {
  return Pem([&](BIO* bio) {
    return PEM_write_bio_PKCS8PrivateKey(
        bio, key(), password.empty() ? nullptr : EVP_aes_128_cbc(), nullptr, 0, nullptr,
        const_cast<char*>(password.empty() ? nullptr : password.c_str()));
  });
}

}  // namespace quire
