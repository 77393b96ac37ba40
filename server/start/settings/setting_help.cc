// The texts about settings that users read: --help and the table of docs/settings.md.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "server/base/version.h"
#include "server/start/settings/setting_table.h"

namespace quire {

namespace {

constexpr char kUsage[] = R"(: serves a large language model over gRPC.

usage: quire-server [MODEL] [--flag VALUE]...

  quire-server                                  the small bundled model
  quire-server /models/Qwen3-0.6B --port 9000   a folder with a Hugging Face model
  QUIRE_PORT=9000 quire-server --config configs/cpu.json
)";

constexpr char kGeneral[] = R"(
General:
  --check-health
      Ask the server that runs on this machine, at the address in the file of --address-file or else
      at --port, whether it serves, and exit: 0 if it does, else 69.
  --config FILE
      JSON object of these settings, with underscores: {"max_model_len": 8192}.
  --plan, --plan-json
      Print, as text or as JSON, what a start with these settings would find room for, and exit:
      weights, KV cache by token, streams by context. Reads config.json and the headers of weights.
  --plan-memory SIZE
      With --plan: plan for a device with this much memory (80GiB), such as a GPU that is not here.
  --print-settings-table
      Print the settings as a Markdown table and exit.
  --version
      Print the version and exit.
  -h, --help
      Print this help and exit.

Where settings come from: a flag wins over an environment variable, which wins over the --config
file, which wins over the default. The variable of --max-model-len is QUIRE_MAX_MODEL_LEN, that of
--config is QUIRE_CONFIG.

Units: a number of tokens, requests or sequences may end in k, m, g (thousands) or K, M, G (powers
of 1024): 32k is 32000, 32K is 32768. A size takes these and KiB, MiB, GiB, kB, MB, GB: 4G is 4 GiB.

Exit codes: 0 stopped cleanly; 1 a second signal ended it before all requests had finished; 64 bad
flag, environment variable or configuration; 66 model files unreadable or invalid; 69 device or port
unavailable or too little memory; 70 engine failure.

More: docs/settings.md
)";

// `text` in lines of at most 100 characters, indented.
std::string Wrapped(const std::string& text) {
  constexpr absl::string_view kIndent = "     ";  // and a space before each word
  constexpr size_t kWidth = 100;
  std::string out;
  size_t column = 0;
  for (absl::string_view word : absl::StrSplit(text, ' ')) {
    if (column == 0 || column + 1 + word.size() > kWidth) {
      absl::StrAppend(&out, column == 0 ? "" : "\n", kIndent);
      column = kIndent.size();
    }
    absl::StrAppend(&out, " ", word);
    column += 1 + word.size();
  }
  return out + "\n";
}

std::string Placeholder(const Setting& setting) {
  if (setting.is_switch()) return "";
  if (setting.is_names()) return " NAME...";
  if (std::holds_alternative<TextField>(setting.field)) return " TEXT";
  return std::holds_alternative<ChoiceField>(setting.field) ? " CHOICE" : " NUMBER";
}

std::string HelpEntry(const Setting& setting) {
  std::string text = absl::StrCat(Meaning(setting), " Default: ", DefaultValue(setting), ".");
  const std::string values = AllowedValues(setting);
  if (!setting.is_switch() && !values.empty()) absl::StrAppend(&text, " Allowed: ", values, ".");
  const std::string off = setting.is_switch() ? absl::StrCat(", --no-", setting.name) : "";
  return absl::StrCat("  ", setting.flag(), off, Placeholder(setting), "\n", Wrapped(text));
}

}  // namespace

std::string Meaning(const Setting& setting) {
  if (!setting.only_on.has_value()) return setting.help;
  return absl::StrCat(*setting.only_on == DeviceKind::kCuda ? "GPU only: " : "CPU only: ",
                      setting.help);
}

std::string HelpText() {
  std::string out = absl::StrCat("quire-server ", kVersion, kUsage);
  std::string group;
  for (const Setting& setting : SettingTable()) {
    if (setting.group != group) absl::StrAppend(&out, "\n", setting.group, ":\n");
    group = setting.group;
    absl::StrAppend(&out, HelpEntry(setting));
  }
  return absl::StrCat(out, kGeneral);
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
                    DefaultValue(setting), " | ", Meaning(setting), " |\n");
  }
  return out;
}

}  // namespace quire
