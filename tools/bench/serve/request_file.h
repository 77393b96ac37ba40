// Files of requests: JSON lines with their prompts or only lengths, with or without times, and the
// CSV files in which Azure and BurstGPT publish theirs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/bench/serve/prompt_words.h"
#include "tools/bench/workload.h"

namespace quire::bench {

// The turns of one; a single request is one of one turn.
using Conversation = std::vector<WorkItem>;

struct RequestFileOptions {
  std::string path = {};
  bool is_timed = false;           // then each first turn has a time
  int64_t output_len = 0;          // of each, if it is not 0
  int64_t block_size = 512;        // tokens of each of hash_ids
  double seconds_per_unit = 1e-3;  // of JSON lines' timestamps
  double speedup = 1;
  // Of prompts that only have lengths.
  int64_t vocab_size = 1000;
  uint64_t seed = 0;
  const PromptWords* words = nullptr;  // null: they are token ids
};

// In the order of their times if they have some, which begin at 0; else in that of the file. Errors
// (exit code 64) name the line.
absl::StatusOr<std::vector<Conversation>> ReadRequestFile(const RequestFileOptions& options);

// What ReadRequestFile reads again: `due` as RunLoad takes it.
std::string RequestFileText(const std::vector<WorkItem>& items, const std::vector<double>& due);

}  // namespace quire::bench
