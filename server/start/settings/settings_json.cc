#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/json/json_reader.h"
#include "kernels/base/status_macros.h"
#include "server/start/settings/foreign_flags.h"
#include "server/start/settings/setting_table.h"
#include "server/start/settings/settings_parser.h"
#include "server/text/near_name.h"

namespace quire {

namespace {

const Setting* FindByJsonKey(const std::string& key) {
  for (const Setting& setting : SettingTable()) {
    if (JsonKey(setting) == key) return &setting;
  }
  return nullptr;
}

absl::Status UnknownKey(const std::string& key) {
  const std::string advice = ForeignFlagAdvice(absl::StrCat("--", key));
  if (!advice.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("configuration key \"", key, "\": ", advice));
  }
  std::vector<std::string> known;
  for (const Setting& setting : SettingTable()) known.push_back(JsonKey(setting));
  const std::string nearest = NearestName(key, known);
  return absl::InvalidArgumentError(
      absl::StrCat("configuration: unknown key \"", Shortened(key), "\"",
                   nearest.empty() ? "; --help lists the settings"
                                   : absl::StrCat("; did you mean \"", nearest, "\"?")));
}

bool IsListOfTexts(const nlohmann::json& value) {
  return value.is_array() && !value.empty() &&
         std::all_of(value.begin(), value.end(), [](const auto& one) { return one.is_string(); });
}

bool TypeFits(const Setting& setting, const nlohmann::json& value) {
  if (setting.is_names()) return value.is_string() || IsListOfTexts(value);
  if (setting.has_unit() && value.is_string()) return true;  // "4G"
  if (std::holds_alternative<IntField>(setting.field) ||
      std::holds_alternative<IntChoiceField>(setting.field)) {
    return value.is_number_integer();
  }
  if (std::holds_alternative<RealField>(setting.field)) return value.is_number();
  if (std::holds_alternative<SwitchField>(setting.field)) return value.is_boolean();
  return value.is_string();
}

// As the command line would spell it.
std::string ToText(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!IsListOfTexts(value)) return value.dump();
  return absl::StrJoin(value.get<std::vector<std::string>>(), ",");
}

absl::Status ApplyValue(const std::string& key, const nlohmann::json& value, CommandLine* result) {
  const Setting* setting = FindByJsonKey(key);
  if (setting == nullptr) return UnknownKey(key);
  const std::string shown_name = absl::StrCat("configuration key \"", key, "\"");
  if (!TypeFits(*setting, value)) {
    const std::string allowed = AllowedValues(*setting);
    return absl::InvalidArgumentError(absl::StrCat(shown_name, ": ", Shortened(value.dump()),
                                                   " has the wrong type; allowed is ",
                                                   setting->is_names() ? "a list of strings"
                                                   : allowed.empty()   ? "a string"
                                                                       : allowed));
  }
  const std::string text = ToText(value);
  if (text.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat(shown_name, ": must have no NUL (\\u0000)"));
  }
  RETURN_IF_ERROR(SetFromText(*setting, shown_name, text, &result->settings));
  result->places[setting->name] = shown_name;
  return absl::OkStatus();
}

}  // namespace

absl::Status ApplyJson(const std::string& json_text, CommandLine* result) {
  const absl::StatusOr<nlohmann::json> json =
      ParseJsonObject(json_text, "configuration", DuplicateKeys::kRefused);
  if (!json.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(json.status().message(), "; expected {\"max_model_len\": 4096, ...}"));
  }
  for (const auto& [key, value] : json->items()) {
    RETURN_IF_ERROR(ApplyValue(key, value, result));
  }
  return absl::OkStatus();
}

}  // namespace quire
