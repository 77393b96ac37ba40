// The header that every command prints first, and that every JSON file has about its run: the
// measured work, the machine and the seed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json_fwd.hpp"

namespace CLI {
class App;
}

namespace quire::bench {

struct RunHeader {
  std::string command;  // "throughput"
  std::string what;     // "64 requests of 128 + 64 tokens, all at once"
  std::vector<std::pair<std::string, std::string>> lines;  // label, text
};

// "Intel(R) Xeon(R) Processor, 2 CPUs, 23.4 GiB of memory".
std::string MachineText();
// Prints the header to standard output, with the machine as its last line.
void Print(const RunHeader& header);
// The beginning of a JSON file: command, version, time (UTC) and machine.
nlohmann::ordered_json RunJson(const std::string& command);

// --seed: the seed for everything random in a run; a new one each time unless it is given.
void AddSeedFlag(CLI::App& command, std::optional<uint64_t>* seed);
// The seed given, or a new one of at most ten digits.
uint64_t ChooseSeed(const std::optional<uint64_t>& seed);
// "123456 (--seed 123456 repeats it)".
std::string SeedText(uint64_t seed);

// A sentence if a prefix cache had more than 5 % of the prompt tokens, in a run that did not ask
// for that; empty otherwise.
std::string CachedPromptWarning(int64_t prompt_tokens, int64_t cached_tokens);
void WarnIfCached(int64_t prompt_tokens, int64_t cached_tokens);

// Whether the client held a load back. Its thread was busy for this share of the time, and sent 1 %
// of the requests at least this late.
constexpr double kBusyShare = 0.85;
constexpr bool IsBottleneck(double cpu_share, double p99_lag_ms) {
  return cpu_share >= kBusyShare || p99_lag_ms >= 10;
}

}  // namespace quire::bench
