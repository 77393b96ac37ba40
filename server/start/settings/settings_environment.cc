// Settings from environment variables, and a word about variables that look like settings.
#include <unistd.h>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "kernels/base/status_macros.h"
#include "server/start/settings/setting_table.h"
#include "server/start/settings/settings_parser.h"
#include "server/text/near_name.h"

namespace quire {

namespace {

constexpr absl::string_view kPrefix = "QUIRE_";

// Variables of other programs of this project, and what Kubernetes puts into every container of a
// namespace with a service named "quire" (QUIRE_SERVICE_HOST, QUIRE_PORT_8000_TCP_ADDR ...).
bool IsForOthers(absl::string_view name) {
  for (absl::string_view exact : {"QUIRE_CONFIG", "QUIRE_TARGET", "QUIRE_ROOT", "QUIRE_CUDA",
                                  "QUIRE_SANITIZER", "QUIRE_DISCONNECTS", "QUIRE_CA_FILE"}) {
    if (name == exact) return true;
  }
  for (absl::string_view prefix :
       {"QUIRE_CACHE_", "QUIRE_BUILD", "QUIRE_TEST", "QUIRE_CMAKE_", "QUIRE_BENCH_",
        "QUIRE_INVARIANCE_", "QUIRE_CLIENT_", "QUIRE_SERVICE_", "QUIRE_PORT_"}) {
    if (absl::StartsWith(name, prefix)) return true;
  }
  return false;
}

// Kubernetes sets QUIRE_PORT=tcp://10.0.0.1:8000 for a service named "quire".
bool IsServiceLink(absl::string_view name, absl::string_view value) {
  return name == "QUIRE_PORT" && absl::StrContains(value, "://");
}

const Setting* FindByVariable(const std::string& name) {
  for (const Setting& setting : SettingTable()) {
    if (EnvironmentName(setting) == name) return &setting;
  }
  return nullptr;
}

std::string UnknownVariable(const std::string& name) {
  if (name == "QUIRE_API_KEY") {  // its user may believe that the server now needs a key
    return "the environment variable QUIRE_API_KEY is for clients; QUIRE_API_KEY_FILE names the "
           "file "
           "of the keys that a server wants";
  }
  std::vector<std::string> known = {"QUIRE_CONFIG"};
  for (const Setting& setting : SettingTable()) known.push_back(EnvironmentName(setting));
  const std::string nearest = NearestName(name, known);
  return absl::StrCat("the environment variable ", name, " is not a setting and has no effect",
                      nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?"));
}

}  // namespace

std::vector<std::string> ProcessEnvironment() {
  std::vector<std::string> variables;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    variables.emplace_back(*variable);
  }
  return variables;
}

absl::Status ApplyEnvironment(const std::vector<std::string>& environment, CommandLine* result) {
  for (const std::string& variable : environment) {
    const size_t end = variable.find('=');
    if (!absl::StartsWith(variable, kPrefix) || end == std::string::npos) continue;
    const std::string name = variable.substr(0, end);
    const std::string value = variable.substr(end + 1);
    if (IsServiceLink(name, value)) {
      result->warnings.push_back(
          absl::StrCat(name, "=", value,
                       " is Kubernetes's link to a service, not a port: it has no effect; set "
                       "--port, or enableServiceLinks: false in the pod"));
      continue;
    }
    const Setting* setting = FindByVariable(name);
    if (setting == nullptr) {
      if (!IsForOthers(name)) result->warnings.push_back(UnknownVariable(name));
      continue;
    }
    RETURN_IF_ERROR(SetFromText(*setting, name, value, &result->settings));
    result->places[setting->name] = name;
  }
  return absl::OkStatus();
}

}  // namespace quire
