#include "server/start/hub/hub_error.h"

#include <cerrno>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace quire {
namespace {

constexpr size_t kMaxShownChars = 200;
constexpr char kAnotherCache[] =
    "set HF_HOME or pass --download-dir with a folder that can be written";

// The hub's own words in brackets, if it has any.
std::string Quoted(const HubResponse& response) {
  const std::string message = response.Header("x-error-message");
  return message.empty()
             ? ""
             : absl::StrCat(" (\"", absl::CHexEscape(message.substr(0, kMaxShownChars)), "\")");
}

std::string Page(const HubSubject& subject, const HubOptions& options) {
  return absl::StrCat(options.endpoint, "/", subject.name);
}

absl::Status ExplainGated(const HubSubject& subject, const HubOptions& options) {
  const std::string token = options.token.empty()
                                ? "set HF_TOKEN to a token of yours"
                                : absl::StrCat("use a token that may read it (this one is from ",
                                               options.token_source, ")");
  return absl::PermissionDeniedError(absl::StrCat(subject.name, " is gated: accept its licence at ",
                                                  Page(subject, options), " and ", token));
}

absl::Status ExplainUnknown(const HubSubject& subject, const HubOptions& options) {
  const std::string cure =
      options.token.empty()
          ? absl::StrCat(options.endpoint,
                         " shows no such model to everybody: check the spelling "
                         "(org/name); if it is private, set HF_TOKEN to a token that may read it")
          : absl::StrCat(options.endpoint, " has no such model that the token from ",
                         options.token_source, " may read: check the spelling (org/name)");
  return absl::NotFoundError(
      absl::StrCat("there is no folder ", subject.name, " here, and ", cure));
}

absl::Status ExplainRefusal(const HubResponse& response, const HubSubject& subject,
                            const HubOptions& options) {
  const std::string code = response.Header("x-error-code");
  if (code == "GatedRepo") return ExplainGated(subject, options);
  if (code == "RepoNotFound") return ExplainUnknown(subject, options);
  if (options.token.empty()) {
    return absl::PermissionDeniedError(absl::StrCat(
        options.endpoint, " lets nobody read ", subject.name, " without a token", Quoted(response),
        ": check the spelling; if it is private or gated, accept its "
        "licence at ",
        Page(subject, options), " and set HF_TOKEN"));
  }
  return absl::PermissionDeniedError(absl::StrCat(
      options.endpoint, " refuses the token from ", options.token_source, " for ", subject.name,
      Quoted(response), ": put a valid token there that may read the model, or remove it"));
}

absl::Status ExplainNotFound(const HubResponse& response, const HubSubject& subject,
                             const HubOptions& options) {
  const std::string code = response.Header("x-error-code");
  if (code == "RevisionNotFound") {
    return absl::NotFoundError(absl::StrCat(subject.name, " has no revision ", subject.revision,
                                            ": pass a branch, a tag or a commit that ",
                                            Page(subject, options), " lists"));
  }
  if (code == "EntryNotFound") {
    return absl::UnavailableError(absl::StrCat(options.endpoint, " lists a file of ", subject.name,
                                               " but does not have it", Quoted(response),
                                               ": try again later, or another --revision"));
  }
  return ExplainUnknown(subject, options);
}

}  // namespace

bool IsWebPage(const HubResponse& response) {
  return absl::StartsWithIgnoreCase(response.Header("content-type"), "text/html");
}

absl::Status ExplainResponse(const HubResponse& response, const HubSubject& subject,
                             const HubOptions& options) {
  if (response.bad_certificate) {
    return absl::UnavailableError(absl::StrCat(
        options.endpoint, " cannot prove who it is (", response.error,
        "): install ca-certificates, or set SSL_CERT_FILE to your proxy's certificates"));
  }
  if (!response.error.empty() || response.status == 0) {
    return absl::UnavailableError(absl::StrCat(
        "there is no folder ", subject.name, " here, and it cannot be got from ", options.endpoint,
        " (", response.error.empty() ? "no answer" : response.error,
        "): check the network (a proxy goes into HTTPS_PROXY), or pass --model with a folder"));
  }
  switch (response.status) {
    case 401:
    case 403:
      return ExplainRefusal(response, subject, options);
    case 404:
    case 410:
      return ExplainNotFound(response, subject, options);
    case 429: {
      const std::string wait = response.Header("retry-after").substr(0, 20);
      return absl::UnavailableError(
          absl::StrCat(options.endpoint, " has had too many requests from here: try again ",
                       wait.empty() ? "later" : absl::StrCat("in ", absl::CHexEscape(wait), " s"),
                       options.token.empty() ? ", or set HF_TOKEN, which raises the limit" : ""));
    }
    case 451:
      return absl::PermissionDeniedError(absl::StrCat(
          subject.name, " may not be downloaded from where you are", Quoted(response)));
    default:
      break;
  }
  if (IsWebPage(response)) {
    return absl::UnavailableError(absl::StrCat(
        options.endpoint, " answers with a web page (HTTP ", response.status,
        ") where data should be: a proxy or a log-in page is in the way, or HF_ENDPOINT is not a "
        "hub"));
  }
  return absl::UnavailableError(absl::StrCat(options.endpoint, " answers with HTTP ",
                                             response.status, Quoted(response), " for ",
                                             subject.name, ": try again later"));
}

absl::Status ExplainWriteError(const std::string& path, int error_number) {
  const std::string reason = std::strerror(error_number);
  if (error_number == ENOSPC || error_number == EDQUOT || error_number == EFBIG) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot write ", path, " (", reason,
                     "): free some space, or set HF_HOME or pass "
                     "--download-dir with a folder on a larger disk; what is there is kept"));
  }
  return absl::UnavailableError(
      absl::StrCat("cannot write ", path, " (", reason, "): ", kAnotherCache));
}

}  // namespace quire
