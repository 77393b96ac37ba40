// GenerationJob: one validated request, split into the part that the engine needs and the part that
// the server keeps to turn tokens back into text. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "scheduler/request.h"
#include "server/request/field_names.h"

namespace quire {

// How the tokens of a request become responses.
struct OutputOptions {
  std::vector<std::string> stop_strings;
  bool include_stop_in_output = false;
  bool skip_special_tokens = true;
  std::vector<TokenId> shown_special_tokens;  // even if special tokens are skipped
  bool return_token_ids = false;
  bool return_prompt_token_ids = false;
  bool logprobs = false;
  bool prompt_logprobs = false;
  bool prompt_has_added_tokens = false;  // special tokens that a tokenizer puts around a text
  bool generates = true;                 // false: the one token that the engine draws is not shown
};

struct GenerationJob {
  const FieldNames* names = &kOpenAiNames;  // as the request's surface calls its fields
  std::string client_id;                    // empty: the server chooses one
  Request request;
  OutputOptions output;
  int64_t truncate_prompt_tokens = 0;  // how many are kept; 0: all
  bool keeps_first_tokens = false;     // else the last ones
};

}  // namespace quire
