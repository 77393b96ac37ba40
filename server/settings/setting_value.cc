// The text form of single settings: parsing, ranges, defaults, the Markdown table.
#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "server/settings/setting_table.h"

namespace quire {

namespace {

template <typename... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};
template <typename... Visitors>
Overloaded(Visitors...) -> Overloaded<Visitors...>;

bool ParseValue(const TextField& field, const std::string& text, Settings* settings) {
  settings->*field.member = text;
  return true;
}

bool ParseValue(const ChoiceField& field, const std::string& text, Settings* settings) {
  for (const std::string& choice : field.choices) {
    if (text != choice) continue;
    settings->*field.member = text;
    return true;
  }
  return false;
}

bool ParseValue(const IntField& field, const std::string& text, Settings* settings) {
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < field.min || value > field.max) return false;
  settings->*field.member = value;
  return true;
}

bool ParseValue(const IntChoiceField& field, const std::string& text, Settings* settings) {
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value)) return false;
  if (std::find(field.choices.begin(), field.choices.end(), value) == field.choices.end()) {
    return false;
  }
  settings->*field.member = value;
  return true;
}

bool ParseValue(const RealField& field, const std::string& text, Settings* settings) {
  double value = 0;
  if (!absl::SimpleAtod(text, &value) || !std::isfinite(value)) return false;
  if (value < field.min || value > field.max) return false;
  settings->*field.member = value;
  return true;
}

bool ParseValue(const SwitchField& field, const std::string& text, Settings* settings) {
  if (text != "true" && text != "false") return false;
  settings->*field.member = text == "true";
  return true;
}

}  // namespace

std::string JsonKey(const Setting& setting) {
  return absl::StrReplaceAll(setting.name, {{"-", "_"}});
}

std::string AllowedValues(const Setting& setting) {
  return std::visit(
      Overloaded{
          [](const TextField&) { return std::string(); },
          [](const ChoiceField& field) { return absl::StrJoin(field.choices, " | "); },
          [](const IntField& field) {
            return field.min == field.max ? absl::StrCat(field.min, " only")
                                          : absl::StrCat(field.min, " .. ", field.max);
          },
          [](const IntChoiceField& field) { return absl::StrJoin(field.choices, " | "); },
          [](const RealField& field) { return absl::StrCat(field.min, " .. ", field.max); },
          [](const SwitchField&) { return std::string("true | false"); },
      },
      setting.field);
}

std::string DefaultValue(const Setting& setting) {
  if (!setting.default_meaning.empty()) return setting.default_meaning;
  static const Settings defaults;
  return std::visit(Overloaded{
                        [](const SwitchField& field) {
                          return std::string(defaults.*field.member ? "true" : "false");
                        },
                        [](const auto& field) { return absl::StrCat(defaults.*field.member); },
                    },
                    setting.field);
}

absl::Status SetFromText(const Setting& setting, const std::string& shown_name,
                         const std::string& text, Settings* settings) {
  const bool ok = std::visit([&](const auto& field) { return ParseValue(field, text, settings); },
                             setting.field);
  if (ok) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      shown_name, ": \"", text, "\" is not allowed; allowed is ", AllowedValues(setting)));
}

std::string SettingsMarkdown() {
  std::string out =
      "| flag | JSON key | values | default | meaning |\n| --- | --- | --- | --- | --- |\n";
  for (const Setting& setting : SettingTable()) {
    const std::string flag = setting.is_switch()
                                 ? absl::StrCat("`--", setting.name, "`, `--no-", setting.name, "`")
                                 : absl::StrCat("`--", setting.name, "`");
    const std::string values = AllowedValues(setting);
    absl::StrAppend(&out, "| ", flag, " | `", JsonKey(setting), "` | ",
                    absl::StrReplaceAll(values.empty() ? "text" : values, {{"|", "\\|"}}), " | ",
                    DefaultValue(setting), " | ", setting.help, " |\n");
  }
  return out;
}

}  // namespace quire
