#include "server/start/hub/hub_name.h"

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

// "https://huggingface.co/org/name/tree/main", "hf://org/name" and "hf.co/org/name" -> "org/name".
std::string NameInAddress(absl::string_view address) {
  const size_t scheme = address.find("://");
  if (scheme != absl::string_view::npos) address.remove_prefix(scheme + 3);
  std::vector<absl::string_view> parts = absl::StrSplit(address, '/', absl::SkipEmpty());
  const bool has_host = !parts.empty() && absl::StrContains(parts[0], '.');
  if (has_host || parts.size() > 2) parts.erase(parts.begin());
  if (parts.size() < 2) return "org/name";
  return absl::StrCat(parts[0], "/", parts[1].substr(0, parts[1].find_first_of("@:?#")));
}

// "Q4_K_M", "UD-IQ2_XXS", "bf16": what llama.cpp and Ollama name files of weights by.
bool IsGgufTag(absl::string_view tag) {
  const std::string name = absl::AsciiStrToUpper(tag);
  absl::string_view rest = name;
  absl::ConsumePrefix(&rest, "UD-");
  for (const absl::string_view plain : {"F16", "BF16", "F32", "FP16", "FP32"}) {
    if (rest == plain) return true;
  }
  if (absl::StartsWith(rest, "MXFP")) return true;
  if (!absl::ConsumePrefix(&rest, "IQ") && !absl::ConsumePrefix(&rest, "TQ") &&
      !absl::ConsumePrefix(&rest, "Q")) {
    return false;
  }
  return !rest.empty() && absl::ascii_isdigit(rest.front());
}

// "0.6b", "8b-instruct-q4_K_M", "latest": Ollama's.
bool IsOllamaTag(absl::string_view tag) {
  if (absl::StartsWith(tag, "latest")) return true;
  const size_t end = tag.find_first_not_of("0123456789.");
  return end > 0 && end < tag.size() && (tag[end] == 'b' || tag[end] == 'm');
}

// Advice on the text after a colon, which names a revision nowhere. Empty if it is no tag that
// other programs know.
std::string AdviceOnTag(absl::string_view name, absl::string_view tag) {
  if (IsGgufTag(tag)) {
    return "GGUF files are not supported yet; pass the repository with safetensors files that "
           "they were made from";
  }
  if (IsOllamaTag(tag) || !absl::StrContains(name, '/')) {
    return "Ollama's models are GGUF files, which are not supported yet; pass the one with "
           "safetensors files on the Hugging Face hub, such as Qwen/Qwen3-0.6B";
  }
  return "";
}

}  // namespace

bool IsHubAddress(absl::string_view name) {
  return absl::StrContains(name, "://") || absl::StartsWith(name, "hf.co/") ||
         absl::StartsWith(name, "huggingface.co/");
}

absl::Status CheckHubName(absl::string_view name) {
  if (IsHubAddress(name)) {
    const std::string advice = AdviceOnTag("org/name", name.substr(name.rfind(':') + 1));
    if (!advice.empty()) return NameError(name, advice);
    return NameError(name, absl::StrCat("pass the part that names it, ", NameInAddress(name)));
  }
  for (const char mark : {'@', ':'}) {
    const std::pair<absl::string_view, absl::string_view> halves =
        absl::StrSplit(name, absl::MaxSplits(mark, 1));
    if (!halves.second.empty() && CheckHubName(halves.first).ok()) {
      if (const std::string advice = AdviceOnTag(halves.first, halves.second);
          mark == ':' && !advice.empty()) {
        return NameError(name, advice);
      }
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
