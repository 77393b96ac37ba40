// Flags that describe a GenerateRequest, shared by `quire generate` and `quire chat`. A flag that
// is not given leaves its field unset, so that the server's defaults hold.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "quire/v1/inference.pb.h"
#include "tools/client/constraint_flags.h"

namespace CLI {
class App;
}

namespace quire::client {

struct RequestFlags {
  std::optional<float> temperature, top_p, min_p;
  std::optional<float> repetition_penalty, presence_penalty, frequency_penalty;
  std::optional<int32_t> top_k, n, logprobs, prompt_logprobs;
  std::optional<uint64_t> seed;
  std::optional<int64_t> max_tokens, min_tokens;
  std::vector<std::string> stop_strings;
  std::vector<uint32_t> stop_token_ids;
  std::vector<std::string> logit_bias;  // ID=BIAS
  bool ignore_eos = false;
  bool include_stop = false;
  bool keep_special_tokens = false;
  int32_t priority = 0;
  std::string cache_salt, request_id, model;
  ConstraintFlags constraint;
};

// Flags that make sense for every request of a conversation.
void AddRequestFlags(CLI::App& command, RequestFlags* flags);

// Flags that make sense only for a single request.
void AddSingleRequestFlags(CLI::App& command, RequestFlags* flags);

// Fills every field except the prompt; reads the files that flags name. The string is empty, or
// says which flag is malformed.
std::string ApplyRequestFlags(const RequestFlags& flags, v1::GenerateRequest* request);

}  // namespace quire::client
