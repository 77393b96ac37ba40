// The requests of a benchmark: prompts of random token ids, with lengths that are fixed or read
// from a file. Every run with the same seed has the same ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

namespace CLI {
class App;
}

namespace quire::bench {

// Lengths of a prompt and its answer, in tokens.
inline constexpr int64_t kMaxLength = int64_t{1} << 24;

struct WorkloadFlags {
  int64_t num_prompts = 64;
  int64_t input_len = 128;
  int64_t output_len = 64;
  double range_ratio = 0;         // lengths are uniform within 1 - this and 1 + this times these
  int64_t shared_prefix_len = 0;  // leading tokens that all prompts have in common
  std::string file = {};          // JSON lines of {"input_len", "output_len"}; replaces the lengths
  uint64_t seed = 0;
};

struct ChatMessage {
  std::string role;
  std::string content;
};

// A request, which has one of three kinds of prompt.
struct WorkItem {
  std::vector<int32_t> prompt = {};
  std::string text = {};
  std::vector<ChatMessage> messages = {};  // for servers that take messages
  int64_t output_len = 0;                  // at most
  std::vector<std::string> stop = {};
  // Whether it is the next turn of the item before it. Then it is sent once the earlier answer has
  // ended, and its prompt comes after the earlier prompt and answer.
  bool continues = false;
  // Set if the workload says when the request is sent: seconds from the beginning, or, for a later
  // turn, from the end of the answer before it.
  double due_seconds = 0;
};

void AddWorkloadFlags(CLI::App& command, WorkloadFlags* flags);

// Token ids are uniform in [0, min(vocab_size, 10000)). Errors (exit code 64) name what is wrong
// with the file or the lengths, also when a request does not fit max_model_len.
absl::StatusOr<std::vector<WorkItem>> MakeWorkload(const WorkloadFlags& flags, int64_t vocab_size,
                                                   int64_t max_model_len);

// "64 requests of 128 + 64 tokens"; "64 requests of lengths.jsonl, 8192 + 4096 tokens in all".
std::string WorkloadText(const WorkloadFlags& flags, const std::vector<WorkItem>& items);
nlohmann::ordered_json WorkloadJson(const WorkloadFlags& flags, const std::vector<WorkItem>& items);

}  // namespace quire::bench
