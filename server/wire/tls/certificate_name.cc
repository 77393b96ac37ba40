#include "server/wire/tls/certificate_name.h"

#include <openssl/x509v3.h>

#include <algorithm>
#include <memory>

#include "absl/strings/ascii.h"

namespace quire {

namespace {

constexpr size_t kMaxNameBytes = 256;

std::optional<std::string> Text(const ASN1_STRING* value) {
  std::string text(reinterpret_cast<const char*>(ASN1_STRING_get0_data(value)),
                   ASN1_STRING_length(value));
  const bool is_printable = std::all_of(text.begin(), text.end(),
                                        [](char c) { return c == ' ' || absl::ascii_isgraph(c); });
  if (text.empty() || text.size() > kMaxNameBytes || !is_printable) return std::nullopt;
  return text;
}

const ASN1_STRING* AlternativeName(const GENERAL_NAMES* names) {
  for (int i = 0; i < sk_GENERAL_NAME_num(names); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names, i);
    if (name->type == GEN_DNS) return name->d.dNSName;
    if (name->type == GEN_URI) return name->d.uniformResourceIdentifier;
    if (name->type == GEN_EMAIL) return name->d.rfc822Name;
  }
  return nullptr;
}

// The last one is the most specific.
const ASN1_STRING* CommonName(const X509* certificate) {
  const X509_NAME* subject = X509_get_subject_name(certificate);
  int last = -1;
  for (int at = -1; (at = X509_NAME_get_index_by_NID(subject, NID_commonName, at)) >= 0;) last = at;
  return last < 0 ? nullptr : X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, last));
}

struct FreeNames {
  void operator()(GENERAL_NAMES* names) const { GENERAL_NAMES_free(names); }
};

}  // namespace

std::optional<std::string> CertificateName(const X509* certificate) {
  const std::unique_ptr<GENERAL_NAMES, FreeNames> names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  const ASN1_STRING* name = names == nullptr ? nullptr : AlternativeName(names.get());
  if (name == nullptr) name = CommonName(certificate);
  return name == nullptr ? std::nullopt : Text(name);
}

}  // namespace quire
