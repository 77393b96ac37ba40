#include "server/hub/hub_name.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace quire {
namespace {

constexpr size_t kMaxNameChars = 96;
constexpr size_t kMaxRevisionChars = 200;
constexpr size_t kMaxEtagChars = 128;

bool IsLowerHex(absl::string_view text, size_t size) {
  return text.size() == size && std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isdigit(c) || (c >= 'a' && c <= 'f');
         });
}

bool IsNameChar(char c) { return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.'; }

bool EndsWithNameMark(absl::string_view part) {
  return part.front() == '-' || part.front() == '.' || part.back() == '-' || part.back() == '.';
}

absl::Status NameError(absl::string_view name, absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat("\"", absl::CHexEscape(name.substr(0, 200)),
                                                 "\" is not the name of a model: ", problem));
}

// "https://huggingface.co/org/name/tree/main" -> "org/name".
std::string NameInAddress(absl::string_view address) {
  const std::vector<absl::string_view> parts =
      absl::StrSplit(address.substr(address.find("://") + 3), '/', absl::SkipEmpty());
  return parts.size() < 3 ? "org/name" : absl::StrCat(parts[1], "/", parts[2]);
}

}  // namespace

absl::Status CheckHubName(absl::string_view name) {
  if (absl::StrContains(name, "://")) {
    return NameError(name, absl::StrCat("pass the part that names it, ", NameInAddress(name)));
  }
  for (const char mark : {'@', ':'}) {
    const std::pair<absl::string_view, absl::string_view> halves =
        absl::StrSplit(name, absl::MaxSplits(mark, 1));
    if (!halves.second.empty() && CheckHubName(halves.first).ok()) {
      return NameError(name, absl::StrCat("pass --model ", halves.first, " and --revision ",
                                          absl::CHexEscape(halves.second)));
    }
  }
  if (name.size() > kMaxNameChars) {
    return NameError(name, absl::StrCat("at most ", kMaxNameChars, " characters"));
  }
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '/');
  if (parts.size() > 2) return NameError(name, "pass org/name, or a folder that exists");
  for (const absl::string_view part : parts) {
    if (part.empty()) return NameError(name, "pass org/name, or a folder that exists");
    if (!std::all_of(part.begin(), part.end(), IsNameChar)) {
      return NameError(name, "it has letters, digits, '-', '_' and '.' only");
    }
    if (EndsWithNameMark(part)) {
      return NameError(name, "neither part starts or ends with '-' or '.'");
    }
  }
  if (absl::StrContains(name, "--") || absl::StrContains(name, "..") ||
      absl::EndsWith(name, ".git")) {
    return NameError(name, "it has no \"--\", no \"..\" and does not end with \".git\"");
  }
  return absl::OkStatus();
}

absl::Status CheckRevision(absl::string_view revision) {
  const auto error = [&](absl::string_view problem) {
    return absl::InvalidArgumentError(
        absl::StrCat("--revision \"", absl::CHexEscape(revision.substr(0, 200)), "\" ", problem,
                     "; pass a branch, a tag or a commit of the model, such as main"));
  };
  if (revision.empty()) return error("is empty");
  if (revision.size() > kMaxRevisionChars) return error("is too long");
  for (const char c : revision) {
    if (absl::ascii_iscntrl(c) || static_cast<unsigned char>(c) >= 0x80 ||
        absl::string_view(" \\:?*[^~\"<>|").find(c) != absl::string_view::npos) {
      return error("has a character that no revision has");
    }
  }
  if (absl::StrContains(revision, "..")) return error("has \"..\" in it");
  for (const absl::string_view part : absl::StrSplit(revision, '/')) {
    if (part.empty() || part.front() == '.' || part.front() == '-' ||
        absl::EndsWith(part, ".lock")) {
      return error("is not one that git accepts");
    }
  }
  return absl::OkStatus();
}

bool IsCommit(absl::string_view revision) { return IsLowerHex(revision, 40); }

bool IsSha256(absl::string_view text) { return IsLowerHex(text, 64); }

std::string NormalizeEtag(absl::string_view header) {
  absl::string_view etag = absl::StripAsciiWhitespace(header);
  absl::ConsumePrefix(&etag, "W/");
  if (absl::ConsumePrefix(&etag, "\"")) absl::ConsumeSuffix(&etag, "\"");
  const bool usable = !etag.empty() && etag.size() <= kMaxEtagChars && etag.front() != '.' &&
                      std::all_of(etag.begin(), etag.end(), IsNameChar);
  return usable ? std::string(etag) : "";
}

std::string PercentEncode(absl::string_view text) {
  std::string encoded;
  for (const char c : text) {
    if (IsNameChar(c) || c == '~') {
      encoded += c;
    } else {
      absl::StrAppend(&encoded, "%",
                      absl::AsciiStrToUpper(absl::BytesToHexString(absl::string_view(&c, 1))));
    }
  }
  return encoded;
}

std::string CacheFolderName(absl::string_view name) {
  return absl::StrCat("models--", absl::StrReplaceAll(name, {{"/", "--"}}));
}

}  // namespace quire
