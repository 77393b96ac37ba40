// Files of requests: JSON lines with prompts or only lengths, with or without times; and the CSV
// files in which Azure and BurstGPT publish their requests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/bench/serve/prompt_words.h"
#include "tools/bench/workload.h"

namespace quire::bench {

// The turns of a conversation. A single request is a conversation with one turn.
using Conversation = std::vector<WorkItem>;

struct RequestFileOptions {
  std::string path = {};
  bool is_timed = false;           // each first turn has a time
  int64_t output_len = 0;          // of each request, if it is not 0
  int64_t block_size = 512;        // tokens for each of hash_ids
  double seconds_per_unit = 1e-3;  // for JSON lines' timestamps
  double speedup = 1;
  // For prompts that only have lengths.
  int64_t vocab_size = 1000;
  uint64_t seed = 0;
  const PromptWords* words = nullptr;  // null: prompts are token ids
};

// In the order of their times, which begin at 0; without times, in the file's order. Errors (exit
// code 64) name the line.
absl::StatusOr<std::vector<Conversation>> ReadRequestFile(const RequestFileOptions& options);

// A text that ReadRequestFile can read again. `due` is as in RunLoad.
std::string RequestFileText(const std::vector<WorkItem>& items, const std::vector<double>& due);

}  // namespace quire::bench
