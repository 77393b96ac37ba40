// The text form of single settings: parsing, ranges, defaults.
#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/start/settings/scaled_number.h"
#include "server/start/settings/setting_table.h"

namespace quire {

namespace {

template <typename... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};
template <typename... Visitors>
Overloaded(Visitors...) -> Overloaded<Visitors...>;

bool ParseValue(const TextField& field, const std::string& text, Settings* settings) {
  if (text.empty()) return false;
  settings->*field.member = text;
  return true;
}

bool ParseValue(const NamesField& field, const std::string& text, Settings* settings) {
  std::vector<std::string> names;
  // vLLM takes some of them as JSON: ["a", "b"].
  absl::string_view list = text;
  const bool is_json = absl::ConsumePrefix(&list, "[") && absl::ConsumeSuffix(&list, "]");
  for (absl::string_view part : absl::StrSplit(is_json ? list : absl::string_view(text), ',')) {
    part = absl::StripAsciiWhitespace(part);
    const bool is_quoted =
        !is_json || (absl::ConsumePrefix(&part, "\"") && absl::ConsumeSuffix(&part, "\""));
    if (!is_quoted || (is_json && absl::StrContains(part, "\""))) return false;
    names.emplace_back(part);
    if (names.back().empty()) return false;
  }
  settings->*field.member = std::move(names);
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

std::optional<int64_t> ParseInteger(IntField::Unit unit, const std::string& text) {
  if (unit == IntField::Unit::kCount) return ParseCount(text);
  if (unit == IntField::Unit::kBytes) return ParseBytes(text);
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value)) return std::nullopt;
  return value;
}

bool ParseValue(const IntField& field, const std::string& text, Settings* settings) {
  const std::optional<int64_t> value = ParseInteger(field.unit, text);
  if (!value.has_value() || *value < field.min || *value > field.max) return false;
  settings->*field.member = *value;
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
  const std::string word = absl::AsciiStrToLower(text);  // Python writes True
  const bool on = word == "true" || word == "1";
  if (!on && word != "false" && word != "0") return false;
  settings->*field.member = on;
  return true;
}

std::string IntRange(const IntField& field) {
  if (field.min == field.max) return absl::StrCat(field.min, " only");
  std::string range = field.max == std::numeric_limits<int64_t>::max()
                          ? absl::StrCat(field.min, " or more")
                          : absl::StrCat(field.min, " .. ", field.max);
  if (field.unit == IntField::Unit::kCount) return absl::StrCat(range, ", such as 500 or 32k");
  if (field.unit == IntField::Unit::kBytes) return absl::StrCat(range, ", such as 512M or 1.5G");
  return range;
}

}  // namespace

std::string JsonKey(const Setting& setting) {
  return absl::StrReplaceAll(setting.name, {{"-", "_"}});
}

std::string EnvironmentName(const Setting& setting) {
  return absl::StrCat("QUIRE_", absl::AsciiStrToUpper(JsonKey(setting)));
}

std::string AllowedValues(const Setting& setting) {
  return std::visit(
      Overloaded{
          [](const TextField&) { return std::string(); },
          [](const NamesField&) { return std::string("names separated by commas"); },
          [](const ChoiceField& field) { return absl::StrJoin(field.choices, " | "); },
          [](const IntField& field) { return IntRange(field); },
          [](const IntChoiceField& field) { return absl::StrJoin(field.choices, " | "); },
          [](const RealField& field) { return absl::StrCat(field.min, " .. ", field.max); },
          [](const SwitchField&) { return std::string("true | false"); },
      },
      setting.field);
}

std::string DefaultValue(const Setting& setting) {
  if (!setting.default_meaning.empty()) return setting.default_meaning;
  static const Settings defaults;
  return std::visit(
      Overloaded{
          [](const NamesField& field) { return absl::StrJoin(defaults.*field.member, ","); },
          [](const SwitchField& field) {
            return std::string(defaults.*field.member ? "true" : "false");
          },
          [](const auto& field) { return absl::StrCat(defaults.*field.member); },
      },
      setting.field);
}

std::string Shortened(const std::string& text) {
  constexpr size_t kMaxShown = 100;
  return text.size() <= kMaxShown ? text : absl::StrCat(text.substr(0, kMaxShown), "...");
}

absl::Status SetFromText(const Setting& setting, const std::string& shown_name,
                         const std::string& text, Settings* settings) {
  const bool ok = std::visit([&](const auto& field) { return ParseValue(field, text, settings); },
                             setting.field);
  if (ok) return absl::OkStatus();
  if (text.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        shown_name, ": must not be empty; leave it out for the default: ", DefaultValue(setting)));
  }
  return absl::InvalidArgumentError(absl::StrCat(shown_name, ": \"", Shortened(text),
                                                 "\" is not allowed; allowed is ",
                                                 AllowedValues(setting)));
}

}  // namespace quire
