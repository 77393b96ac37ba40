// Runs requests through an Engine in this process: what `throughput` and `latency` measure.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "tools/bench/model_shapes.h"
#include "tools/bench/workload.h"

namespace quire::bench {

// Which engine a benchmark runs: a named shape, or the server's own flags (--model, --dtype,
// --max-num-seqs, ...), which are whatever the command itself does not know.
struct EngineFlags {
  std::string shape;
  CLI::App* command = nullptr;
};
void AddEngineFlags(CLI::App& command, EngineFlags* flags);

// What the flags mean; the folder, if temporary, lives as long as this.
struct BenchEngineConfig {
  EngineConfig config;
  std::optional<ShapeFolder> shape;
};
absl::StatusOr<BenchEngineConfig> MakeEngineConfig(const EngineFlags& flags);

// `trace`, if any, outlives the engine.
absl::StatusOr<std::unique_ptr<Engine>> OpenEngine(const EngineFlags& flags,
                                                   StepTrace* trace = nullptr);

struct EngineRequestTimes {
  double first_token_ms;       // since it was submitted
  std::vector<double> itl_ms;  // between tokens
  double total_ms;
};

// Submits all items at once, greedy and ignoring end tokens, and waits for them. The status is the
// first refusal or failure.
absl::StatusOr<std::vector<EngineRequestTimes>> RunItems(Engine& engine,
                                                         const std::vector<WorkItem>& items);

}  // namespace quire::bench
