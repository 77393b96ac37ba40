// The prompts of `serve`, under vLLM's names for them: random prompts, texts of a file, or a trace
// with its times. They are single requests or conversations.
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

// Conversations of the datasets random and sharegpt.
struct ConversationFlags {
  double turn_mean = 1, turn_stddev = 0;  // random: normal, rounded, at least 1
  int64_t max_turns = 0;                  // 0: sharegpt has only the first turn, random any number
  double delay_mean_ms = 0, delay_stddev_ms = 0;  // from an answer to the next turn: normal
};

struct DatasetFlags {
  std::string name = "random";  // random, prefix_repetition, sharegpt, custom, timed_trace
  std::string path = {};        // file of one of the last three
  WorkloadFlags random = {};    // also the number of prompts (or conversations) and the seed
  // prefix_repetition: num_prefixes prefixes of prefix_len tokens, each with many suffixes.
  int64_t num_prefixes = 10;
  int64_t prefix_len = 256;
  int64_t suffix_len = 256;
  int64_t prefix_output_len = 128;
  // Generated tokens of each request of sharegpt and custom; 0: as the file says.
  int64_t file_output_len = 0;
  bool keeps_order = false;     // for sharegpt and custom
  bool no_oversample = false;   // for both: no more requests than the file has
  bool skips_too_long = false;  // requests of a file
  bool text = false;            // random prompts are words, for servers that take no token ids
  ConversationFlags conversation = {};
  double trace_speedup = 1;
  int64_t trace_block_size = 512;         // tokens for each of hash_ids
  double trace_seconds_per_unit = 0.001;  // of timestamps in JSON lines

  std::string tokenizer_folder = {};
  std::string trace_file = {}, trace_time_unit = "ms";  // as they were written
  // Values that follow from the flags, and from the abilities of the backend.
  std::shared_ptr<const Tokenizer> tokenizer = nullptr;  // may be null
  bool takes_messages = true;
  bool tells_token_ids = true, tells_text = true;

  bool is_timed() const { return name == "timed_trace"; }
};

void AddDatasetFlags(CLI::App& command, DatasetFlags* flags);

// Fills the values that follow from the flags themselves. An error (exit code 64) for flags that do
// not go together.
absl::Status CheckDatasetFlags(DatasetFlags* flags);

// `vocab_size` and `max_model_len` as the server says them, or 0. Errors (exit code 64) name the
// flag, and the line of the file.
absl::StatusOr<std::vector<WorkItem>> MakeDataset(const DatasetFlags& flags, int64_t vocab_size,
                                                  int64_t max_model_len);

// When each item is sent, in RunLoad's form: by the trace's times, or by `arrivals`.
std::vector<double> DueTimes(const DatasetFlags& flags, const Arrivals& arrivals,
                             const std::vector<WorkItem>& items);

// Whether requests have the same beginning on purpose, so that a prefix cache should find some of
// them.
bool SharesPrefixes(const DatasetFlags& flags, const std::vector<WorkItem>& items);

// "64 requests of 128 + 64 tokens".
std::string DatasetText(const DatasetFlags& flags, const std::vector<WorkItem>& items);
nlohmann::ordered_json DatasetJson(const DatasetFlags& flags, const std::vector<WorkItem>& items);

}  // namespace quire::bench
