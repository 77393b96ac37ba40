// One declaration per setting: name, kind, range, help, group and device. Everything that names a
// setting (flags, environment variables, JSON keys, --help, the table of docs/settings.md, error
// sentences) reads this table. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/device.h"
#include "server/start/settings/settings.h"

namespace quire {

struct TextField {  // never empty when given
  std::string Settings::*member;
};
struct NamesField {  // one or more, separated by commas; a JSON list
  std::vector<std::string> Settings::*member;
};
struct ChoiceField {
  std::string Settings::*member;
  std::vector<std::string> choices;
};
struct IntField {
  enum class Unit { kNone, kCount, kBytes };  // counts and bytes may end in a unit: 32k, 4G
  int64_t Settings::*member;
  int64_t min;
  int64_t max;
  Unit unit = Unit::kNone;
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
  std::variant<TextField, NamesField, ChoiceField, IntField, IntChoiceField, RealField, SwitchField>
      field;
  std::string help;
  std::string default_meaning = {};        // the meaning of a default of "", 0 or -1
  std::optional<DeviceKind> only_on = {};  // refused when another device serves: no effect there
  std::string instead = {};  // the setting that does the same on the other device, if any

  bool is_switch() const { return std::holds_alternative<SwitchField>(field); }
  bool is_names() const { return std::holds_alternative<NamesField>(field); }
  bool has_unit() const {
    const auto* integer = std::get_if<IntField>(&field);
    return integer != nullptr && integer->unit != IntField::Unit::kNone;
  }
  std::string flag() const { return "--" + name; }
};

absl::Span<const Setting> SettingTable();

// The setting of that name ("max-model-len"); null if there is none.
const Setting* FindSetting(const std::string& name);

// "max_model_len" for "max-model-len".
std::string JsonKey(const Setting& setting);

// "QUIRE_MAX_MODEL_LEN" for "max-model-len".
std::string EnvironmentName(const Setting& setting);

// The allowed values: "1 .. 65535", "auto | cpu | cuda", "true | false"; empty for free text.
std::string AllowedValues(const Setting& setting);

// The help of a setting: its device, if it has one, and its effect.
std::string Meaning(const Setting& setting);

// The default as a user would write it, or its meaning.
std::string DefaultValue(const Setting& setting);

// `text` for a message: its beginning if it is long.
std::string Shortened(const std::string& text);

// Parses `text` and stores it in `settings`. INVALID_ARGUMENT, beginning with `shown_name` (the
// flag or key as the user knows it), says what is allowed.
absl::Status SetFromText(const Setting& setting, const std::string& shown_name,
                         const std::string& text, Settings* settings);

// The table of docs/settings.md: one row per setting, Markdown.
std::string SettingsMarkdown();

// The text of --help: usage, every setting by group, where settings come from, exit codes.
std::string HelpText();

}  // namespace quire
