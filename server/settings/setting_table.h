// One declaration per setting: name, kind, range, help and group. Everything that names a setting
// (flags, JSON keys, --help, the README table, error sentences) reads this table. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "server/settings/settings.h"

namespace quire {

struct TextField {
  std::string Settings::*member;
};
struct ChoiceField {
  std::string Settings::*member;
  std::vector<std::string> choices;
};
struct IntField {
  int64_t Settings::*member;
  int64_t min;
  int64_t max;
};
struct IntChoiceField {
  int64_t Settings::*member;
  std::vector<int64_t> choices;
};
struct RealField {
  double Settings::*member;
  double min;
  double max;
};
struct SwitchField {  // --name / --no-name
  bool Settings::*member;
};

struct Setting {
  std::string name;  // the flag without its dashes; the JSON key has underscores instead
  std::string group;
  std::variant<TextField, ChoiceField, IntField, IntChoiceField, RealField, SwitchField> field;
  std::string help;
  std::string default_meaning = {};  // says what a default of "" or 0 stands for

  bool is_switch() const { return std::holds_alternative<SwitchField>(field); }
};

absl::Span<const Setting> SettingTable();

// "max_model_len" for "max-model-len".
std::string JsonKey(const Setting& setting);

// What the values may be: "1 .. 65535", "auto | cpu | cuda", "true | false"; empty for free text.
std::string AllowedValues(const Setting& setting);

// The default as a user would write it, or what it stands for.
std::string DefaultValue(const Setting& setting);

// Parses `text` and stores it in `settings`. INVALID_ARGUMENT, beginning with `shown_name` (the
// flag or key as the user knows it), says what is allowed.
absl::Status SetFromText(const Setting& setting, const std::string& shown_name,
                         const std::string& text, Settings* settings);

// The README's table: one row per setting, Markdown.
std::string SettingsMarkdown();

}  // namespace quire
