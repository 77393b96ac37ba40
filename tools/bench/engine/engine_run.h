// Runs requests through an Engine in this process. `throughput`, `latency` and `timeline` measure
// these runs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "engine/engine_config.h"
#include "kernels/base/progress.h"
#include "nlohmann/json_fwd.hpp"
#include "tools/bench/engine/model_shapes.h"
#include "tools/bench/load/request_record.h"
#include "tools/bench/sampling_flags.h"
#include "tools/bench/workload.h"

namespace CLI {
class App;
}

namespace quire::bench {

// The engine that a benchmark runs: a named shape, or the server's own flags (--model, --dtype,
// --max-num-seqs, ...). Every flag that the command does not know is one of the server's.
struct EngineFlags {
  std::string shape;
  std::optional<uint64_t> weights_seed;  // seed of random weights; the server's --seed
  CLI::App* command = nullptr;
};
void AddEngineFlags(CLI::App& command, EngineFlags* flags);

// The flags of a command that runs requests through an engine.
struct EngineRunFlags {
  EngineFlags engine;
  SamplingFlags sampling;
  std::optional<uint64_t> given_seed;
  uint64_t seed = 0;  // the seed that is used
  std::optional<std::string> json_file;
};
void AddEngineRunFlags(CLI::App& command, EngineRunFlags* flags);

// The meaning of the flags. If the folder is temporary, it lives as long as this.
struct BenchEngineConfig {
  EngineConfig config;
  std::optional<ShapeFolder> shape;
};
// Exit code 64 for flags, 66 for a model that is not there. `progress` shows a download; it may be
// null.
absl::StatusOr<BenchEngineConfig> MakeEngineConfig(const EngineFlags& flags, Progress* progress);

// Shows its progress. `trace`, if any, outlives the engine.
absl::StatusOr<std::unique_ptr<Engine>> OpenEngine(const EngineFlags& flags,
                                                   StepTrace* trace = nullptr);
// The exit code that quire-server would end with when its engine does not open.
absl::Status StartFailure(const absl::Status& status);

// Prints what will run ("64 requests"). Returns the members that describe the run in a result: the
// machine, the model, the sampling and its seed.
nlohmann::ordered_json BeginEngineRun(const std::string& command, const std::string& what,
                                      const EngineRunFlags& flags, const ModelInfo& model);

struct RunOptions {
  SamplingFlags sampling;
  uint64_t seed = 0;             // for drawing tokens; each request has another one
  Progress* progress = nullptr;  // counts requests that have ended
};

// Submits all items at once and waits for them. Once Interrupted(), it cancels the requests that
// still run and returns the records so far. A request's times count from its submission. The status
// is the first refusal or failure.
absl::StatusOr<std::vector<RequestRecord>> RunItems(Engine& engine,
                                                    const std::vector<WorkItem>& items,
                                                    const RunOptions& options = {});

}  // namespace quire::bench
