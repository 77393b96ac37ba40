// Runs requests through an Engine in this process: what `throughput`, `latency` and `timeline`
// measure.
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

// Which engine a benchmark runs: a named shape, or the server's own flags (--model, --dtype,
// --max-num-seqs, ...), which are whatever the command itself does not know.
struct EngineFlags {
  std::string shape;
  std::optional<uint64_t> weights_seed;  // of random weights; the server's --seed
  CLI::App* command = nullptr;
};
void AddEngineFlags(CLI::App& command, EngineFlags* flags);

// The flags of a command that runs requests through an engine.
struct EngineRunFlags {
  EngineFlags engine;
  SamplingFlags sampling;
  std::optional<uint64_t> given_seed;
  uint64_t seed = 0;  // the one used
  std::optional<std::string> json_file;
};
void AddEngineRunFlags(CLI::App& command, EngineRunFlags* flags);

// What the flags mean; the folder, if temporary, lives as long as this.
struct BenchEngineConfig {
  EngineConfig config;
  std::optional<ShapeFolder> shape;
};
// Exit code 64 for flags, 66 for a model that is not there. `progress`, of a download, may be null.
absl::StatusOr<BenchEngineConfig> MakeEngineConfig(const EngineFlags& flags, Progress* progress);

// Shows its progress. `trace`, if any, outlives the engine.
absl::StatusOr<std::unique_ptr<Engine>> OpenEngine(const EngineFlags& flags,
                                                   StepTrace* trace = nullptr);
// The exit code that quire-server would end with when its engine does not open.
absl::Status StartFailure(const absl::Status& status);

// Prints what is run ("64 requests"), and returns the members that a result has about it: the
// machine, the model, the sampling and its seed.
nlohmann::ordered_json BeginEngineRun(const std::string& command, const std::string& what,
                                      const EngineRunFlags& flags, const ModelInfo& model);

struct RunOptions {
  SamplingFlags sampling;
  uint64_t seed = 0;             // of drawing tokens; another one for each request
  Progress* progress = nullptr;  // counts requests that have ended
};

// Submits all items at once and waits for them; or, once Interrupted(), cancels the others and
// returns what there is: the times of each count from when it was submitted. The status is the
// first refusal or failure.
absl::StatusOr<std::vector<RequestRecord>> RunItems(Engine& engine,
                                                    const std::vector<WorkItem>& items,
                                                    const RunOptions& options = {});

}  // namespace quire::bench
