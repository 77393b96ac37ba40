// The JSON of --config: every setting that results is one that the table allows. Input: the file.
#include <algorithm>
#include <type_traits>

#include "kernels/base/check.h"
#include "server/settings/setting_table.h"
#include "server/settings/settings_parser.h"
#include "tests/fuzz/target.h"

namespace quire::fuzz {
namespace {

bool IsAllowed(const Setting& setting, const Settings& settings) {
  return std::visit(
      [&settings](const auto& field) {
        using Field = std::decay_t<decltype(field)>;
        const auto& value = settings.*field.member;
        if constexpr (std::is_same_v<Field, IntField> || std::is_same_v<Field, RealField>) {
          // A default outside the range stands for a choice made later, such as by the device.
          return (value >= field.min && value <= field.max) || value == Settings().*field.member;
        } else if constexpr (std::is_same_v<Field, ChoiceField> ||
                             std::is_same_v<Field, IntChoiceField>) {
          return std::count(field.choices.begin(), field.choices.end(), value) == 1;
        } else {
          return true;
        }
      },
      setting.field);
}

}  // namespace

std::vector<std::string> Seeds() {
  std::string every = "{";
  for (const Setting& setting : SettingTable()) {
    const bool is_text = std::holds_alternative<TextField>(setting.field) ||
                         std::holds_alternative<ChoiceField>(setting.field);
    const std::string value = DefaultValue(setting);
    const std::string quote = is_text ? "\"" : "";
    const bool is_meaning = !setting.default_meaning.empty();
    if (is_meaning) continue;
    every += (every.size() > 1 ? ",\"" : "\"") + JsonKey(setting) + "\":" + quote + value + quote;
  }
  return {"{}", every + "}",
          R"({"port":8001,"max_model_len":4096,"device":"cpu","gpu_memory_utilization":0.5,)"
          R"("enable_prefix_caching":false,"block_size":32,"model":"/models/x"})"};
}

std::vector<std::string> Dictionary() {
  std::vector<std::string> words;
  for (const Setting& setting : SettingTable()) words.push_back("\"" + JsonKey(setting) + "\":");
  return words;
}

}  // namespace quire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;  // NOLINT(build/namespaces)
  Settings settings;
  const absl::Status applied =
      ApplyJson(std::string(reinterpret_cast<const char*>(data), size), &settings);
  if (applied.ok()) {
    ++fuzz::num_accepted;
  } else {
    CHECK(absl::IsInvalidArgument(applied)) << applied;
  }
  for (const Setting& setting : SettingTable()) {
    CHECK(fuzz::IsAllowed(setting, settings)) << setting.name;
  }
  return 0;
}
