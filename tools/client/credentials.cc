#include "tools/client/credentials.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace quire::client {

namespace {

std::string Variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? "" : std::string(absl::StripAsciiWhitespace(value));
}

// Whether the text has a line "-----BEGIN ...CONTENT-----"; what it holds is for gRPC to check.
bool HasPem(absl::string_view text, absl::string_view content) {
  return absl::StrContains(text, "-----BEGIN ") &&
         absl::StrContains(text, absl::StrCat(content, "-----"));
}

}  // namespace

std::string Key() { return Variable(kKeyVariable); }

absl::StatusOr<std::string> FileOf(const char* variable) {
  const std::string path = Variable(variable);
  if (path.empty()) return "";
  errno = 0;
  std::ifstream file(path);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  if (!file || text.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(variable, ": cannot read ", path,
                     errno != 0 ? absl::StrCat(": ", std::strerror(errno)) : ", or it is empty"));
  }
  return text;
}

absl::Status CheckKeyVariable() {
  for (const char c : Key()) {
    if (!absl::ascii_isgraph(c)) {
      return absl::InvalidArgumentError(
          absl::StrCat(kKeyVariable, ": no key has spaces, control characters or letters beyond ",
                       "ASCII; is it the key itself, not the name of a file?"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTlsVariables() {
  for (const auto& [variable, content] :
       {std::pair(kCaVariable, "CERTIFICATE"), std::pair(kCertificateVariable, "CERTIFICATE"),
        std::pair(kCertificateKeyVariable, "PRIVATE KEY")}) {
    const absl::StatusOr<std::string> text = FileOf(variable);
    if (!text.ok()) return text.status();
    if (!text->empty() && !HasPem(*text, content)) {
      return absl::InvalidArgumentError(absl::StrCat(variable, ": ", Variable(variable), " has no ",
                                                     absl::AsciiStrToLower(content),
                                                     " in PEM form"));
    }
  }
  if (Variable(kCertificateVariable).empty() != Variable(kCertificateKeyVariable).empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        kCertificateVariable, " and ", kCertificateKeyVariable, " are needed together"));
  }
  return absl::OkStatus();
}

}  // namespace quire::client
