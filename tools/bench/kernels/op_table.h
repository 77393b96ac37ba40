// The tables of quire-bench kernels, the request that each table gets, and its rows. A row has an
// operation's time beside the limits of the device. One thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "engine/engine_config.h"
#include "engine/model/config/model_config.h"
#include "nlohmann/json_fwd.hpp"
#include "tools/bench/kernels/graph_timer.h"

namespace quire::bench {

// The limits of the device, measured in the same run.
struct Limits {
  double bytes_per_s = 0;
  double flops_per_s = 0;
  double copied_bytes_per_s = 0;  // read and written

  double Us(double bytes, double flops) const {
    return 1e6 * std::max(bytes / bytes_per_s, flops / flops_per_s);
  }
};

struct TableRequest {
  const EngineConfig* config = nullptr;
  const ModelConfig* model = nullptr;
  Limits limits = {};
  uint64_t seed = 0;
  std::string cases = {};                // only cases whose names contain this
  std::vector<int64_t> row_counts = {};  // rows of x; empty: the table's own list
  bool all_candidates = false;           // for gemms
  std::vector<int32_t> batch_sizes = {};
  int32_t context = 0;
  int32_t prefill_len = 0;
};

// One value of --only.
struct KernelTable {
  const char* name;
  const char* about;  // in --help
  const char* list;   // the member of the result that has its rows
  // The names that --cases chooses from; null where there are none.
  std::vector<std::string> (*case_names)(DeviceKind device, const EngineConfig& config,
                                         const ModelConfig& model) = nullptr;
  bool has_rows = false;  // takes --rows
  // Prints a line for each row and appends it to the list of the result.
  absl::Status (*measure)(GraphTimer& timer, const TableRequest& request,
                          nlohmann::ordered_json* result);
};

extern const KernelTable kStepTable, kAttentionTable, kAttentionPathTable, kCascadeTable,
    kRaggedTable, kLinearTable, kFormatTable, kSamplingTable, kGatedDeltaTable, kExpertsTable;

// The `name` of each of some cases.
template <typename Cases>
std::vector<std::string> NamesOf(const Cases& cases) {
  std::vector<std::string> names;
  names.reserve(std::size(cases));
  for (const auto& one : cases) names.emplace_back(one.name);
  return names;
}

// One operation, which a step calls `count` times, each in `us` microseconds.
nlohmann::ordered_json OpRow(const std::string& name, const std::string& shape, size_t count,
                             double us, double bytes, double flops, const Limits& limits);

// "0.625"; "-" above 1: bytes that come from a cache are no share of the memory's bandwidth.
inline std::string ShareText(double share) {
  return share > 1 ? "-" : absl::StrFormat("%.3f", share);
}

void PrintOpHeader(const std::string& title);
void PrintOpRow(const nlohmann::ordered_json& row);

// Notes a case that does not fit the memory.
void Skip(const std::string& name, int64_t needed_bytes, int64_t free_bytes,
          nlohmann::ordered_json* result);

}  // namespace quire::bench
