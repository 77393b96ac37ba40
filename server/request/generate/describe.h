// The server's description of its model and of itself, for every transport. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "engine/engine_status.h"
#include "server/request/generate/serving_context.h"

namespace quire {

struct ModelDescription {
  std::string name;
  std::vector<std::string> aliases;
  std::string architecture;
  std::string dtype;
  std::string kv_cache_dtype;
  std::string device;
  int64_t num_parameters = 0;
  int64_t vocab_size = 0;
  int64_t max_model_len = 0;
  int32_t block_size = 0;
  int64_t num_kv_blocks = 0;
  bool has_chat_template = false;
  std::vector<TokenId> eos_token_ids;
  std::string version;  // of the server
};
ModelDescription DescribeModel(const ServingContext& serving);

struct ServerStatus {
  EngineStatus engine;
  absl::Duration uptime;
  int64_t num_requests = 0;  // running
};
ServerStatus DescribeStatus(const ServingContext& serving);

}  // namespace quire
