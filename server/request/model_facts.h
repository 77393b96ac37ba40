// ModelFacts: the facts about the served model that request conversion needs. Built once at start;
// any thread reads it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/checkpoint/generation_config.h"
#include "kernels/base/types.h"

namespace quire {

struct ModelFacts {
  std::string path;                       // as the server was told: a folder, or a name on the hub
  std::string folder;                     // where its files are
  std::vector<std::string> served_names;  // at least one; the first is the one that is reported
  int64_t vocab_size = 0;
  int64_t max_model_len = 0;
  bool has_tokenizer = true;           // false with --skip-tokenizer-init: token ids only
  GenerationConfig defaults;           // empty with --generation-config none
  std::vector<TokenId> eos_token_ids;  // every token that ends an answer, ascending
};

}  // namespace quire
