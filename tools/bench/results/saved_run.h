// A saved result of quire-bench's commands or of vLLM's `bench serve`, and its requests if the file
// has them. The reader does not trust the file: it may have anything in it. Plain values; any
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "tools/bench/json_values.h"

namespace quire::bench {

// Times in seconds from the first request of the run; latencies as the run's own figures have them.
struct SavedRequest {
  double start = 0;        // when it was sent
  double first_token = 0;  // when its first token came
  double end = 0;
  double ttft_ms = 0;
  double queue_ms = 0;  // in the client
  std::optional<double> tpot_ms = {};
  std::optional<double> e2el_ms = {};  // only for requests that completed
  std::vector<float> itl_ms = {};
  double input_tokens = 0, output_tokens = 0;
  bool got_tokens = false;
};

struct SavedRun {
  std::string path;
  std::shared_ptr<const nlohmann::ordered_json> document;  // without its requests
  std::vector<SavedRequest> requests;                      // only the sent ones
  std::string why_no_requests;                             // if there are none
  std::vector<std::pair<std::string, double>>
      goodput;  // the run's own bounds, as ReportOptions has them

  const nlohmann::ordered_json& json() const { return *document; }
};

// The documents of a file: a single one, or one on each line, as vLLM's --append-result writes
// them. The error (exit code 66) names the file.
absl::StatusOr<std::vector<nlohmann::ordered_json>> ReadJsonFile(const std::string& path);

// "sweep", "startup", "kernels", "timeline" or "quality", as its "command" says; else "run".
std::string KindOf(const nlohmann::ordered_json& json);

// The error (exit code 66) names file and key.
absl::StatusOr<SavedRun> MakeSavedRun(const std::string& path, nlohmann::ordered_json json);
// The runs of a file; an error if it has none, or has a result of another kind.
absl::StatusOr<std::vector<SavedRun>> ReadSavedRuns(const std::string& path);

}  // namespace quire::bench
