#include "server/start/settings/settings_parser.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/json/small_file.h"
#include "kernels/base/status_macros.h"
#include "server/base/version.h"
#include "server/start/settings/foreign_flags.h"
#include "server/start/settings/scaled_number.h"
#include "server/start/settings/setting_table.h"
#include "server/text/near_name.h"

namespace quire {

namespace {

constexpr char kConfigVariable[] = "QUIRE_CONFIG";
constexpr int64_t kMaxConfigBytes = 1 << 20;

bool IsFlag(const std::string& argument) { return argument.size() > 1 && argument[0] == '-'; }

// "-1" and "-.5" are values.
bool IsNumber(const std::string& text) {
  double number = 0;
  return absl::SimpleAtod(text, &number);
}

absl::Status UnknownFlag(const std::string& flag) {
  if (const std::string advice = ForeignFlagAdvice(flag); !advice.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(flag, ": ", advice));
  }
  std::vector<std::string> known = {"--check-health", "--config",      "--help",   "--plan",
                                    "--plan-json",    "--plan-memory", "--version"};
  for (const Setting& setting : SettingTable()) {
    known.push_back(setting.flag());
    if (setting.is_switch()) known.push_back(absl::StrCat("--no-", setting.name));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown flag ", flag, "; ", DidYouMean(flag, known, "--help lists the flags")));
}

// Takes a command line apart, from the front; values are not looked at.
class ArgumentReader {
 public:
  explicit ArgumentReader(const std::vector<std::string>& args) : args_(args) {}

  absl::Status Read() {
    while (next_ < args_.size()) {
      const std::string& argument = args_[next_++];
      if (argument == "--") continue;
      if (!IsFlag(argument)) {
        positional_.push_back(argument);
        continue;
      }
      const size_t end = argument.find('=');
      std::optional<std::string> value;
      if (end != std::string::npos) value = argument.substr(end + 1);
      // As other servers and the keys of a configuration spell it, too: --max_model_len.
      const std::string flag = absl::StrReplaceAll(argument.substr(0, end), {{"_", "-"}});
      RETURN_IF_ERROR(ReadFlag(flag, std::move(value)));
      if (!output_.empty()) break;  // --help and its like win over what is wrong elsewhere
    }
    return absl::OkStatus();
  }

  const std::vector<std::pair<const Setting*, std::string>>& values() const { return values_; }
  const std::vector<std::string>& positional() const { return positional_; }
  const std::optional<std::string>& config() const { return config_; }
  const std::string& output() const { return output_; }
  bool checks_health() const { return checks_health_; }
  absl::StatusOr<std::optional<PlanRequest>> plan() const {
    if (plan_memory_bytes_ == 0) return plan_;
    if (!plan_) {
      return absl::InvalidArgumentError("--plan-memory: goes with --plan, which prints a plan");
    }
    return PlanRequest{plan_->as_json, plan_memory_bytes_};
  }

 private:
  absl::Status ReadFlag(const std::string& flag, std::optional<std::string> value) {
    if (flag == "--help" || flag == "-h") output_ = HelpText();
    if (flag == "--version") output_ = absl::StrCat("quire-server ", kVersion, "\n");
    if (flag == "--print-settings-table") output_ = SettingsMarkdown();
    if (!output_.empty()) return absl::OkStatus();
    if (flag == "--config") {
      ASSIGN_OR_RETURN(config_, TakeValue(flag, "a JSON file", std::move(value)));
      return absl::OkStatus();
    }
    if (flag == "--check-health") {
      if (value.has_value()) return TakesNoValue(flag);
      checks_health_ = true;
      return absl::OkStatus();
    }
    if (absl::StartsWith(flag, "--plan")) {
      ASSIGN_OR_RETURN(const bool is_plan, ReadPlan(flag, &value));
      if (is_plan) return absl::OkStatus();
    }
    for (const Setting& setting : SettingTable()) {
      if (flag == setting.flag()) return ReadSetting(setting, std::move(value));
      if (!setting.is_switch() || flag != absl::StrCat("--no-", setting.name)) continue;
      if (value.has_value()) return SwitchWithValue(setting, *value);
      return ReadSwitch(setting, "false");
    }
    return UnknownFlag(flag);
  }

  static absl::Status TakesNoValue(const std::string& flag) {
    return absl::InvalidArgumentError(absl::StrCat(flag, ": takes no value"));
  }

  // False: the flag is none of --plan's.
  absl::StatusOr<bool> ReadPlan(const std::string& flag, std::optional<std::string>* value) {
    if (flag == "--plan-memory") {
      ASSIGN_OR_RETURN(const std::string text, TakeValue(flag, "a size, such as 80GiB", *value));
      const std::optional<int64_t> bytes = ParseBytes(text);
      if (!bytes || *bytes < 1) {
        return absl::InvalidArgumentError(
            absl::StrCat(flag, ": \"", Shortened(text), "\" is no size; write one such as 80GiB"));
      }
      plan_memory_bytes_ = *bytes;
      return true;
    }
    if (flag != "--plan" && flag != "--plan-json") return false;
    if (value->has_value()) return TakesNoValue(flag);
    if (!plan_) plan_.emplace();
    if (flag == "--plan-json") plan_->as_json = true;
    return true;
  }

  absl::Status ReadSetting(const Setting& setting, std::optional<std::string> value) {
    if (setting.is_switch() && value.has_value()) {
      values_.emplace_back(&setting, *std::move(value));
      return absl::OkStatus();
    }
    if (setting.is_switch()) return ReadSwitch(setting, "true");
    const std::string allowed = AllowedValues(setting);
    ASSIGN_OR_RETURN(
        std::string text,
        TakeValue(setting.flag(), allowed.empty() ? "a text" : allowed, std::move(value)));
    if (setting.is_names()) {  // as many as follow, and from each time the flag is given
      while (next_ < args_.size() && !IsFlag(args_[next_])) {
        absl::StrAppend(&text, ",", args_[next_++]);
      }
      for (auto& [earlier, names] : values_) {
        if (earlier != &setting) continue;
        absl::StrAppend(&names, ",", text);
        return absl::OkStatus();
      }
    }
    values_.emplace_back(&setting, std::move(text));
    return absl::OkStatus();
  }

  // Reads a switch. A word that follows it would be taken for the model.
  absl::Status ReadSwitch(const Setting& setting, const char* text) {
    for (const char* word : {"true", "false", "1", "0"}) {
      if (next_ >= args_.size() || absl::AsciiStrToLower(args_[next_]) != word) continue;
      return SwitchWithValue(setting, args_[next_]);
    }
    values_.emplace_back(&setting, text);
    return absl::OkStatus();
  }

  static absl::Status SwitchWithValue(const Setting& setting, const std::string& value) {
    return absl::InvalidArgumentError(absl::StrCat(setting.flag(), ": \"", value,
                                                   "\" must not follow; write ", setting.flag(),
                                                   " or --no-", setting.name));
  }

  absl::StatusOr<std::string> TakeValue(const std::string& flag, const std::string& allowed,
                                        std::optional<std::string> value) {
    if (value.has_value()) return *std::move(value);
    if (next_ < args_.size() && (!IsFlag(args_[next_]) || IsNumber(args_[next_]))) {
      return args_[next_++];
    }
    return absl::InvalidArgumentError(
        absl::StrCat(flag, ": a value must follow; allowed is ", allowed));
  }

  const std::vector<std::string>& args_;
  size_t next_ = 0;
  std::vector<std::pair<const Setting*, std::string>> values_;  // in order
  std::vector<std::string> positional_;
  std::optional<std::string> config_;
  std::optional<PlanRequest> plan_;
  bool checks_health_ = false;
  int64_t plan_memory_bytes_ = 0;
  std::string output_;
};

absl::Status ApplyFlags(const ArgumentReader& reader, CommandLine* result) {
  for (const auto& [setting, text] : reader.values()) {
    RETURN_IF_ERROR(SetFromText(*setting, setting->flag(), text, &result->settings));
    result->places[setting->name] = setting->flag();
  }
  return absl::OkStatus();
}

// The argument without a flag: the model.
absl::Status ApplyPositional(const ArgumentReader& reader, CommandLine* result) {
  const std::vector<std::string>& words = reader.positional();
  if (words.empty()) return absl::OkStatus();
  const std::string advice = ForeignCommandAdvice(words.front(), words.size() > 1 ? words[1] : "");
  if (!advice.empty()) return absl::InvalidArgumentError(advice);
  if (words.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat("unexpected argument \"", words[1],
                                                   "\"; the only argument without a flag is ",
                                                   "the model, here \"", words[0], "\""));
  }
  const Setting& model = *FindSetting("model");
  const auto given = std::find_if(reader.values().begin(), reader.values().end(),
                                  [&model](const auto& value) { return value.first == &model; });
  if (given != reader.values().end() && result->settings.model != words.front()) {
    return absl::InvalidArgumentError(absl::StrCat("two models are given, \"", words.front(),
                                                   "\" and --model ", result->settings.model,
                                                   "; leave one out"));
  }
  RETURN_IF_ERROR(SetFromText(model, model.flag(), words.front(), &result->settings));
  result->places[model.name] = model.flag();
  return absl::OkStatus();
}

// `place` is --config or its variable.
absl::Status ApplyFile(const std::string& place, const std::string& path, CommandLine* result) {
  if (path.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(place, ": must not be empty; name a JSON file or leave it out"));
  }
  const absl::StatusOr<std::string> text = ReadSmallFile(path, kMaxConfigBytes);
  if (!text.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(place, ": ", text.status().message(), "; name a JSON file of settings"));
  }
  absl::Status status = ApplyJson(*text, result);
  if (status.ok()) return status;
  return absl::InvalidArgumentError(absl::StrCat(place, " ", path, ": ", status.message()));
}

// Checks what the range of a single setting cannot say.
absl::Status CheckTogether(const CommandLine& result) {
  const Settings& settings = result.settings;
  if (settings.max_num_batched_tokens != 0 &&
      settings.max_num_batched_tokens < settings.max_num_seqs) {
    return absl::InvalidArgumentError(
        absl::StrCat("--max-num-batched-tokens: ", settings.max_num_batched_tokens,
                     " is less than --max-num-seqs ", settings.max_num_seqs,
                     "; a step must have room for one token of each sequence"));
  }
  if (settings.skip_tokenizer_init && !settings.chat_template.empty()) {
    return absl::InvalidArgumentError(
        "--chat-template: has no effect with --skip-tokenizer-init, which refuses messages; leave "
        "one of them out");
  }
  return absl::OkStatus();
}

absl::Status ApplyConfig(const ArgumentReader& reader, const std::vector<std::string>& environment,
                         CommandLine* result) {
  if (reader.config().has_value()) return ApplyFile("--config", *reader.config(), result);
  const std::string prefix = absl::StrCat(kConfigVariable, "=");
  for (const std::string& variable : environment) {
    if (!absl::StartsWith(variable, prefix)) continue;
    return ApplyFile(kConfigVariable, variable.substr(prefix.size()), result);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& args,
                                             const std::vector<std::string>& environment) {
  ArgumentReader reader(args);
  RETURN_IF_ERROR(reader.Read());
  CommandLine result;
  result.print_and_exit = reader.output();
  if (!result.print_and_exit.empty()) return result;
  ASSIGN_OR_RETURN(result.plan, reader.plan());
  result.checks_health = reader.checks_health();
  RETURN_IF_ERROR(ApplyConfig(reader, environment, &result));
  RETURN_IF_ERROR(ApplyEnvironment(environment, &result));
  RETURN_IF_ERROR(ApplyFlags(reader, &result));
  RETURN_IF_ERROR(ApplyPositional(reader, &result));
  const absl::Status together = CheckTogether(result);
  if (!together.ok()) {
    return absl::InvalidArgumentError(WithPlaces(result, std::string(together.message())));
  }
  return result;
}

absl::Status CheckDevice(const CommandLine& command_line, DeviceKind device) {
  for (const auto& [name, place] : command_line.places) {
    const Setting& setting = *FindSetting(name);
    if (!setting.only_on.has_value() || *setting.only_on == device) continue;
    const bool for_gpu = *setting.only_on == DeviceKind::kCuda;
    return absl::InvalidArgumentError(absl::StrCat(
        place, ": has an effect on ", for_gpu ? "a GPU" : "the CPU", " only, and the model runs ",
        for_gpu ? "on the CPU" : "on a GPU", "; leave it out",
        setting.instead.empty() ? "" : absl::StrCat(": ", setting.instead)));
  }
  return absl::OkStatus();
}

std::string WithPlaces(const CommandLine& command_line, const std::string& sentence) {
  std::string result = sentence;
  for (const auto& [name, place] : command_line.places) {
    const std::string flag = absl::StrCat("--", name);
    const size_t at = sentence.find(flag);
    if (place == flag || at == std::string::npos) continue;
    const size_t end = at + flag.size();
    const bool is_longer =
        end < sentence.size() && (sentence[end] == '-' || absl::ascii_isalnum(sentence[end]));
    if (!is_longer) absl::StrAppend(&result, " (", flag, " comes from ", place, ")");
  }
  return result;
}

}  // namespace quire
