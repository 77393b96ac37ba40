#include "tools/bench/sampling_flags.h"

#include <cmath>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "tools/bench/command_line.h"
#include "tools/bench/failure.h"

namespace quire::bench {

namespace {

constexpr char kGroup[] = "Sampling";

// nlohmann writes a float as the double it is; this is the decimal number that was meant.
double Decimal(float value) { return std::round(static_cast<double>(value) * 1e6) / 1e6; }

}  // namespace

void AddSamplingFlags(CLI::App& command, SamplingFlags* flags) {
  FlagGroup add(command, kGroup);
  add.Real("--temperature", &flags->temperature, 0, 100, "0 = greedy (default)");
  add.Real("--top-p", &flags->top_p, 1e-6, 1, "Nucleus sampling, 1 = off (default)");
  add.Count("--top-k", &flags->top_k, 0, 1 << 30, "0 = off (default)");
  add.Real("--min-p", &flags->min_p, 0, 1, "0 = off (default)");
  add.Real("--repetition-penalty", &flags->repetition_penalty, 0.001, 100, "1 = off (default)");
  add.Real("--presence-penalty", &flags->presence_penalty, -2, 2, "0 = off (default)");
  add.Real("--frequency-penalty", &flags->frequency_penalty, -2, 2, "0 = off (default)");
}

void AddIgnoreEosFlag(CLI::App& command, SamplingFlags* flags) {
  FlagGroup add(command, kGroup);
  add.Switch("--ignore-eos,!--no-ignore-eos", &flags->ignore_eos,
             "Go on after end tokens, so that every answer has its full length (default: on)");
}

absl::Status CheckSampling(const SamplingFlags& flags) {
  if (flags.temperature > 0) return absl::OkStatus();
  const char* without_effect = flags.top_p < 1   ? "--top-p"
                               : flags.top_k > 0 ? "--top-k"
                               : flags.min_p > 0 ? "--min-p"
                                                 : nullptr;
  if (without_effect == nullptr) return absl::OkStatus();
  return UsageError(
      absl::StrCat(without_effect, ": has no effect on greedy sampling; give --temperature too"));
}

std::string SamplingText(const SamplingFlags& flags) {
  std::string text =
      flags.temperature > 0 ? absl::StrCat("temperature ", flags.temperature) : "greedy";
  const auto add = [&](const char* name, float value, float off) {
    if (value != off) absl::StrAppend(&text, ", ", name, " ", value);
  };
  add("top-p", flags.top_p, 1);
  if (flags.top_k > 0) absl::StrAppend(&text, ", top-k ", flags.top_k);
  add("min-p", flags.min_p, 0);
  add("repetition penalty", flags.repetition_penalty, 1);
  add("presence penalty", flags.presence_penalty, 0);
  add("frequency penalty", flags.frequency_penalty, 0);
  return absl::StrCat(text,
                      flags.ignore_eos ? ", goes on after end tokens" : ", stops at end tokens");
}

nlohmann::ordered_json SamplingJson(const SamplingFlags& flags) {
  return {{"temperature", Decimal(flags.temperature)},
          {"top_p", Decimal(flags.top_p)},
          {"top_k", flags.top_k},
          {"min_p", Decimal(flags.min_p)},
          {"repetition_penalty", Decimal(flags.repetition_penalty)},
          {"presence_penalty", Decimal(flags.presence_penalty)},
          {"frequency_penalty", Decimal(flags.frequency_penalty)},
          {"ignore_eos", flags.ignore_eos}};
}

}  // namespace quire::bench
