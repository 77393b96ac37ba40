// The prompts of `serve`, under the names that vLLM's benchmark has for them: random ones, or texts
// of a file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "tools/bench/workload.h"

namespace quire::bench {

struct DatasetFlags {
  std::string name = "random";  // random, prefix_repetition, sharegpt, custom
  std::string path = {};        // of sharegpt's and custom's
  WorkloadFlags random = {};    // also the number of prompts and the seed
  // prefix_repetition: so many prefixes of this length, each with many suffixes.
  int64_t num_prefixes = 10;
  int64_t prefix_len = 256;
  int64_t suffix_len = 256;
  int64_t prefix_output_len = 128;
  // Generated tokens of each of sharegpt's and custom's; 0: as the file says.
  int64_t file_output_len = 0;
  bool text = false;  // random prompts are words, too: for servers that take no token ids
};

void AddDatasetFlags(CLI::App& command, DatasetFlags* flags);

// An error (exit code 64) for flags that do not go together.
absl::Status CheckDatasetFlags(const DatasetFlags& flags);

// `vocab_size` and `max_model_len` as the server says them, or 0. Errors (exit code 64) name the
// flag, and the line of the file.
absl::StatusOr<std::vector<WorkItem>> MakeDataset(const DatasetFlags& flags, int64_t vocab_size,
                                                  int64_t max_model_len);

// "64 requests of 128 + 64 tokens".
std::string DatasetText(const DatasetFlags& flags, const std::vector<WorkItem>& items);
nlohmann::ordered_json DatasetJson(const DatasetFlags& flags, const std::vector<WorkItem>& items);

}  // namespace quire::bench
