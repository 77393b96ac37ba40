// The settings: every one that results is one that the table allows. Input: the JSON of --config,
// or, by its beginning, environment variables or a command line, one per line.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <type_traits>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "kernels/base/check.h"
#include "server/start/settings/scaled_number.h"
#include "server/start/settings/setting_table.h"
#include "server/start/settings/settings_parser.h"
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
        } else if constexpr (std::is_same_v<Field, NamesField>) {
          return std::count(value.begin(), value.end(), "") == 0;
        } else {
          return true;
        }
      },
      setting.field);
}

absl::Status Apply(const std::string& input, CommandLine* line) {
  const std::vector<std::string> lines = absl::StrSplit(input, '\n');
  if (absl::StartsWith(input, "QUIRE_")) return ApplyEnvironment(lines, line);
  if (!absl::StartsWith(input, "-")) return ApplyJson(input, line);
  for (const std::string& argument : lines) {  // files are not the fuzzer's
    if (absl::StartsWith(argument, "--config")) return absl::OkStatus();
  }
  absl::StatusOr<CommandLine> parsed = ParseCommandLine(lines);
  if (parsed.ok()) *line = *std::move(parsed);
  return parsed.status();
}

// What a unit makes of a number is never negative and never less than the number.
void CheckUnits(const std::string& text) {
  for (const std::optional<int64_t> value : {ParseCount(text), ParseBytes(text)}) {
    if (!value.has_value()) continue;
    CHECK(*value >= 0) << text;
    CHECK(static_cast<double>(*value) >= std::floor(std::strtod(text.c_str(), nullptr))) << text;
  }
}

}  // namespace

std::vector<std::string> Seeds() {
  std::string json = "{";
  std::string environment = "QUIRE_PORT=8001";
  std::string flags = "--port=8001";
  for (const Setting& setting : SettingTable()) {
    const bool is_text = std::holds_alternative<TextField>(setting.field) ||
                         std::holds_alternative<ChoiceField>(setting.field);
    const std::string value = DefaultValue(setting);
    const std::string quote = is_text ? "\"" : "";
    const bool is_meaning = !setting.default_meaning.empty();
    if (is_meaning) continue;
    json += (json.size() > 1 ? ",\"" : "\"") + JsonKey(setting) + "\":" + quote + value + quote;
    environment += "\n" + EnvironmentName(setting) + "=" + value;
    flags += "\n" + setting.flag() + "=" + value;
  }
  return {"{}",
          json + "}",
          environment,
          flags,
          R"({"port":8001,"max_model_len":"4k","device":"cpu","gpu_memory_utilization":0.5,)"
          R"("enable_prefix_caching":false,"block_size":32,"served_model_name":["x","y"]})",
          "QUIRE_KV_CACHE_MEMORY_BYTES=1.5GiB\nQUIRE_SERVED_MODEL_NAME=a,b\nQUIRE_PROT=tcp://x:1",
          "--served-model-name\na\nb\n--max-model-len\n25.6k\n--no-autotune\n--\nmodel",
          "1.5G",
          "9223372036854775807",
          "0.000001T"};
}

std::vector<std::string> Dictionary() {
  std::vector<std::string> words = {"KiB", "GB", "1.5k", "serve", "--ctx-size", "tcp://"};
  for (const Setting& setting : SettingTable()) {
    words.push_back("\"" + JsonKey(setting) + "\":");
    words.push_back(EnvironmentName(setting) + "=");
    words.push_back(setting.flag());
  }
  return words;
}

}  // namespace quire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;  // NOLINT(build/namespaces)
  const std::string input(reinterpret_cast<const char*>(data), size);
  fuzz::CheckUnits(input);
  CommandLine line;
  const absl::Status applied = fuzz::Apply(input, &line);
  if (applied.ok()) {
    ++fuzz::num_accepted;
  } else {
    CHECK(absl::IsInvalidArgument(applied)) << applied;
  }
  for (const Setting& setting : SettingTable()) {
    CHECK(fuzz::IsAllowed(setting, line.settings)) << setting.name;
  }
  for (const auto& [name, place] : line.places) CHECK(FindSetting(name) != nullptr) << place;
  return 0;
}
