#include "server/call/shown_credentials.h"

#include <optional>
#include <string>

namespace quire {

Credentials ShownCredentials(const RequestHead& head, HttpStream& stream) {
  Credentials credentials;
  credentials.peer = stream.connection().peer();
  if (const absl::string_view header = head.Find("authorization"); !header.empty()) {
    // A header of another scheme counts as a wrong key, which does no harm where no key is wanted.
    credentials.bearer_token = BearerToken(header).value_or("");
  } else if (const absl::string_view key = head.Find("x-api-key"); !key.empty()) {
    credentials.bearer_token = key;  // as Anthropic's clients send it
  }
  if (const std::optional<std::string>& name = stream.connection().client_name()) {
    credentials.certificate_name = *name;
  }
  return credentials;
}

}  // namespace quire
