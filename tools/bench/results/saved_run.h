// A result that was saved: what quire-bench's commands or vLLM's `bench serve` wrote, and its
// requests where the file has them. What is read is not trusted: a file may have anything in it.
// Plain values; any thread.
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
  double first_token = 0;  // likewise, as `end`
  double end = 0;
  double ttft_ms = 0;
  double queue_ms = 0;  // in the client
  std::optional<double> tpot_ms = {};
  std::optional<double> e2el_ms = {};  // of those that completed
  std::vector<float> itl_ms = {};
  double input_tokens = 0, output_tokens = 0;
  bool got_tokens = false;
};

struct SavedRun {
  std::string path;
  std::shared_ptr<const nlohmann::ordered_json> document;  // without its requests
  std::vector<SavedRequest> requests;                      // those that were sent
  std::string why_no_requests;                             // where there are none
  std::vector<std::pair<std::string, double>>
      goodput;  // the run's own bounds, as ReportOptions has them

  const nlohmann::ordered_json& json() const { return *document; }
};

// The documents of a file: one, or one on each line, as vLLM's --append-result writes them. The
// error (exit code 66) names the file.
absl::StatusOr<std::vector<nlohmann::ordered_json>> ReadJsonFile(const std::string& path);

// "sweep", "startup", "kernels", "timeline" or "quality", as its "command" says; else "run".
std::string KindOf(const nlohmann::ordered_json& json);

// The error (exit code 66) names file and key.
absl::StatusOr<SavedRun> MakeSavedRun(const std::string& path, nlohmann::ordered_json json);
// Those of a file; an error when it has none, or a result of another kind.
absl::StatusOr<std::vector<SavedRun>> ReadSavedRuns(const std::string& path);

}  // namespace quire::bench
