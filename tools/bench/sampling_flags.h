// How a benchmark's tokens are drawn: the flags, their meaning in words and in JSON, and a
// request's parameters. Plain values.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "nlohmann/json_fwd.hpp"

namespace CLI {
class App;
}

namespace quire::bench {

// A request carries all of them, so that no default of the model affects a measurement.
struct SamplingFlags {
  float temperature = 0;  // greedy
  float top_p = 1;
  int32_t top_k = 0;  // 0 = off
  float min_p = 0;
  float repetition_penalty = 1;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  bool ignore_eos = true;
};

void AddSamplingFlags(CLI::App& command, SamplingFlags* flags);
// --ignore-eos and --no-ignore-eos.
void AddIgnoreEosFlag(CLI::App& command, SamplingFlags* flags);

// An error (exit code 64) for flags that have no effect: top-p, top-k and min-p at temperature 0.
absl::Status CheckSampling(const SamplingFlags& flags);

// "greedy, end tokens ignored"; "temperature 0.8, top-p 0.95, stops at end tokens".
std::string SamplingText(const SamplingFlags& flags);
nlohmann::ordered_json SamplingJson(const SamplingFlags& flags);

}  // namespace quire::bench
