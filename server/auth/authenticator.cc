#include "server/auth/authenticator.h"

#include <spdlog/spdlog.h>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace quire {

namespace {

constexpr absl::string_view kScheme = "Bearer ";

}  // namespace

absl::StatusOr<absl::string_view> BearerToken(absl::string_view authorization) {
  if (!absl::StartsWithIgnoreCase(authorization, kScheme)) {
    return absl::UnauthenticatedError(
        "the header authorization must be \"Bearer KEY\"; other schemes are not known here");
  }
  return absl::StripAsciiWhitespace(authorization.substr(kScheme.size()));
}

absl::StatusOr<std::shared_ptr<const Principal>> Authenticator::Authenticate(
    const Credentials& credentials) const {
  if (!is_closed()) return AnonymousPrincipal(credentials.peer);  // whatever key a client sends
  const std::shared_ptr<const KeyTable> table = keys_ == nullptr ? nullptr : keys_->Table();
  if (credentials.bearer_token.has_value() && table != nullptr) {
    if (auto principal = table->FindKey(*credentials.bearer_token)) return principal;
    spdlog::debug("a wrong key from {}", credentials.peer.name());
    return absl::UnauthenticatedError("the API key is none of this server's");
  }
  if (credentials.certificate_name.has_value() && client_certificates_) {
    if (table != nullptr) {
      if (auto principal = table->FindCertificate(*credentials.certificate_name)) return principal;
    }
    return CertificatePrincipal(*credentials.certificate_name);
  }
  return absl::UnauthenticatedError(absl::StrCat(
      "this server wants to know who calls: ",
      table != nullptr
          ? "send an API key in the header authorization, as \"Bearer KEY\", or in x-api-key"
          : "",
      table != nullptr && client_certificates_ ? ", or " : "",
      client_certificates_ ? "connect by TLS with a client certificate" : ""));
}

void Authenticator::Look() const {
  if (keys_ != nullptr) keys_->Look();
}

void Authenticator::Reload() const {
  if (keys_ != nullptr) keys_->Reload();
}

}  // namespace quire
