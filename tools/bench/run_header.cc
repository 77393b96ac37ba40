#include "tools/bench/run_header.h"

#include <cstdio>
#include <random>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "kernels/base/clock.h"
#include "kernels/cpu/runtime/host_info.h"
#include "kernels/host_limits.h"
#include "nlohmann/json.hpp"
#include "server/base/version.h"
#include "tools/bench/command_line.h"
#include "tools/bench/failure.h"

namespace quire::bench {

std::string MachineText() {
  return absl::StrFormat("%s, %d CPUs, %.1f GiB of memory", cpu::CpuModelName(), NumUsableCpus(),
                         static_cast<double>(ReadMemoryInfo().total_bytes) / (1 << 30));
}

void Print(const RunHeader& header) {
  std::printf("quire-bench %s %s: %s\n", header.command.c_str(), kVersion, header.what.c_str());
  for (const auto& [label, text] : header.lines) {
    std::printf("%-10s %s\n", label.c_str(), text.c_str());
  }
  std::printf("%-10s %s\n\n", "machine", MachineText().c_str());
}

nlohmann::ordered_json RunJson(const std::string& command) {
  return {{"command", command},
          {"version", kVersion},
          {"time", absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", WallNow(), absl::UTCTimeZone())},
          {"machine", MachineText()}};
}

void AddSeedFlag(CLI::App& command, std::optional<uint64_t>* seed) {
  FlagGroup(command, "Workload")
      .Seed(
          "--seed", seed,
          "Of all that is random in the workload; repeats an earlier run (default: a new one each "
          "run, which is printed)");
}

uint64_t ChooseSeed(const std::optional<uint64_t>& seed) {
  return seed.has_value() ? *seed : std::random_device()();
}

std::string SeedText(uint64_t seed) {
  return absl::StrCat(seed, " (--seed ", seed, " repeats this workload)");
}

std::string CachedPromptWarning(int64_t prompt_tokens, int64_t cached_tokens) {
  if (cached_tokens * 20 <= prompt_tokens) return "";
  return absl::StrFormat(
      "%.0f %% of the prompt tokens were found in the prefix cache: these prompts were sent "
      "before, so the figures are better than with new ones. Leave --seed out, or empty the "
      "cache first (quire flush); ask for shared beginnings with --shared-prefix-len",
      100.0 * static_cast<double>(cached_tokens) / static_cast<double>(prompt_tokens));
}

void WarnIfCached(int64_t prompt_tokens, int64_t cached_tokens) {
  const std::string warning = CachedPromptWarning(prompt_tokens, cached_tokens);
  if (!warning.empty()) Warn(warning);
}

}  // namespace quire::bench
