#include "server/start/hub/hub_options.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/json/json_reader.h"
#include "engine/json/small_file.h"
#include "kernels/base/status_macros.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr char kDefaultEndpoint[] = "https://huggingface.co";
constexpr int64_t kMaxTokenBytes = 4096;

bool IsTrue(const std::string& value) {
  const std::string upper = absl::AsciiStrToUpper(value);
  return upper == "1" || upper == "ON" || upper == "YES" || upper == "TRUE";
}

std::string ExpandHome(const std::string& path, const ReadVariable& variable) {
  if (path != "~" && !absl::StartsWith(path, "~/")) return path;
  return absl::StrCat(variable("HOME"), path.substr(1));
}

std::string HomeFolder(const ReadVariable& variable) {
  if (const std::string home = variable("HF_HOME"); !home.empty()) {
    return ExpandHome(home, variable);
  }
  const std::string cache = variable("XDG_CACHE_HOME");
  return absl::StrCat(ExpandHome(cache.empty() ? "~/.cache" : cache, variable), "/huggingface");
}

std::string CacheFolder(const std::string& download_dir, const ReadVariable& variable) {
  for (const std::string& folder :
       {download_dir, variable("HF_HUB_CACHE"), variable("HUGGINGFACE_HUB_CACHE")}) {
    if (!folder.empty()) return ExpandHome(folder, variable);
  }
  return absl::StrCat(HomeFolder(variable), "/hub");
}

absl::StatusOr<std::string> ReadEndpoint(const ReadVariable& variable) {
  std::string endpoint = variable("HF_ENDPOINT");
  while (absl::EndsWith(endpoint, "/")) endpoint.pop_back();
  if (endpoint.empty()) return kDefaultEndpoint;
  absl::string_view host = endpoint;
  const bool has_scheme =
      absl::ConsumePrefix(&host, "https://") || absl::ConsumePrefix(&host, "http://");
  if (!has_scheme || host.empty() || !std::all_of(host.begin(), host.end(), absl::ascii_isgraph)) {
    return absl::InvalidArgumentError(absl::StrCat("HF_ENDPOINT is ", Shown(endpoint),
                                                   "; it must be an address such as ",
                                                   kDefaultEndpoint, ", or unset"));
  }
  return endpoint;
}

absl::Status ReadToken(const ReadVariable& variable, HubOptions* options) {
  if (IsTrue(variable("HF_HUB_DISABLE_IMPLICIT_TOKEN"))) return absl::OkStatus();
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
    options->token = std::string(absl::StripAsciiWhitespace(variable(name)));
    options->token_source = name;
    if (!options->token.empty()) break;
  }
  if (options->token.empty()) {
    const std::string path = variable("HF_TOKEN_PATH");
    options->token_source =
        path.empty() ? absl::StrCat(HomeFolder(variable), "/token") : ExpandHome(path, variable);
    // As in huggingface_hub, a file that cannot be read is no token.
    options->token = std::string(absl::StripAsciiWhitespace(
        ReadSmallFile(options->token_source, kMaxTokenBytes).value_or("")));
  }
  // It becomes part of a header, which a line break would end.
  if (!std::all_of(options->token.begin(), options->token.end(), absl::ascii_isgraph)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the token in ", options->token_source,
                     " has characters that no token has; it looks like hf_... in one line"));
  }
  return absl::OkStatus();
}

absl::Status ReadSeconds(const std::string& name, const ReadVariable& variable,
                         absl::Duration* timeout) {
  const std::string text = variable(name);
  if (text.empty()) return absl::OkStatus();
  int seconds = 0;
  if (!absl::SimpleAtoi(text, &seconds) || seconds < 1 || seconds > 86400) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is ", Shown(text), "; it must be a number of seconds, 1 .. 86400"));
  }
  *timeout = absl::Seconds(seconds);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<HubOptions> ReadHubOptions(const std::string& download_dir,
                                          const ReadVariable& variable) {
  HubOptions options;
  ASSIGN_OR_RETURN(options.endpoint, ReadEndpoint(variable));
  std::error_code error;
  const std::string folder = CacheFolder(download_dir, variable);
  const fs::path absolute = fs::absolute(folder, error);
  options.cache_folder = error ? folder : absolute.lexically_normal().string();
  RETURN_IF_ERROR(ReadToken(variable, &options));
  const std::string offline = variable("HF_HUB_OFFLINE");
  options.offline = IsTrue(offline.empty() ? variable("TRANSFORMERS_OFFLINE") : offline);
  options.use_symlinks = !IsTrue(variable("HF_HUB_DISABLE_SYMLINKS"));
  RETURN_IF_ERROR(ReadSeconds("HF_HUB_ETAG_TIMEOUT", variable, &options.answer_timeout));
  RETURN_IF_ERROR(ReadSeconds("HF_HUB_DOWNLOAD_TIMEOUT", variable, &options.stall_timeout));
  return options;
}

}  // namespace quire
