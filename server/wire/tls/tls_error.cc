#include "server/wire/tls/tls_error.h"

#include <openssl/err.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace quire {

std::string TakeTlsErrors() {
  std::vector<std::string> reasons;
  while (const unsigned long error = ERR_get_error()) {  // NOLINT(google-runtime-int): OpenSSL's
    const char* reason = ERR_reason_error_string(error);
    reasons.push_back(reason != nullptr ? reason : absl::StrCat("error ", error));
  }
  return reasons.empty() ? "no reason given" : absl::StrJoin(reasons, "; ");
}

}  // namespace quire
