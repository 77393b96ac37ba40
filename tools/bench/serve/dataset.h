// The prompts of `serve`, under the names that vLLM's benchmark has for them: random ones, texts of
// a file, or a trace with its times; single requests or conversations.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "server/text/tokenizer/tokenizer.h"
#include "tools/bench/load/arrivals.h"
#include "tools/bench/workload.h"

namespace quire::bench {

// Of random ones and sharegpt's.
struct ConversationFlags {
  double turn_mean = 1, turn_stddev = 0;  // of random ones: normal, rounded, at least 1
  int64_t max_turns = 0;                  // 0: of sharegpt's the first alone, of random ones any
  double delay_mean_ms = 0, delay_stddev_ms = 0;  // from an answer to the next turn: normal
};

struct DatasetFlags {
  std::string name = "random";  // random, prefix_repetition, sharegpt, custom, timed_trace
  std::string path = {};        // of the last three's
  WorkloadFlags random = {};    // also the number of prompts (or conversations) and the seed
  // prefix_repetition: so many prefixes of this length, each with many suffixes.
  int64_t num_prefixes = 10;
  int64_t prefix_len = 256;
  int64_t suffix_len = 256;
  int64_t prefix_output_len = 128;
  // Generated tokens of each of sharegpt's and custom's; 0: as the file says.
  int64_t file_output_len = 0;
  bool keeps_order = false;     // of sharegpt's and custom's
  bool no_oversample = false;   // likewise: no more than the file has
  bool skips_too_long = false;  // of a file
  bool text = false;            // random prompts are words, too: for servers that take no token ids
  ConversationFlags conversation = {};
  double trace_speedup = 1;
  int64_t trace_block_size = 512;         // tokens of each of hash_ids
  double trace_seconds_per_unit = 0.001;  // of timestamps in JSON lines

  std::string tokenizer_folder = {};
  std::string trace_file = {}, trace_time_unit = "ms";  // as they were written
  // What follows from the flags, and from what the backend takes and tells.
  std::shared_ptr<const Tokenizer> tokenizer = nullptr;  // may be null
  bool takes_messages = true;
  bool tells_token_ids = true, tells_text = true;

  bool is_timed() const { return name == "timed_trace"; }
};

void AddDatasetFlags(CLI::App& command, DatasetFlags* flags);

// Fills what follows from the flags themselves. An error (exit code 64) for flags that do not go
// together.
absl::Status CheckDatasetFlags(DatasetFlags* flags);

// `vocab_size` and `max_model_len` as the server says them, or 0. Errors (exit code 64) name the
// flag, and the line of the file.
absl::StatusOr<std::vector<WorkItem>> MakeDataset(const DatasetFlags& flags, int64_t vocab_size,
                                                  int64_t max_model_len);

// When each is sent, as RunLoad takes it: by the trace's times, or by `arrivals`.
std::vector<double> DueTimes(const DatasetFlags& flags, const Arrivals& arrivals,
                             const std::vector<WorkItem>& items);

// Whether requests begin alike on purpose, so that a prefix cache ought to find some of them.
bool SharesPrefixes(const DatasetFlags& flags, const std::vector<WorkItem>& items);

// "64 requests of 128 + 64 tokens".
std::string DatasetText(const DatasetFlags& flags, const std::vector<WorkItem>& items);
nlohmann::ordered_json DatasetJson(const DatasetFlags& flags, const std::vector<WorkItem>& items);

}  // namespace quire::bench
