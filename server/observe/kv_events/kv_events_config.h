// KvEventsConfig: --kv-events-config, JSON with vLLM's names. Plain value.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace quire {

struct KvEventsConfig {
  bool enabled = false;  // over ZeroMQ; gRPC's subscribers need no setting
  std::string endpoint = "tcp://127.0.0.1:5557";
  std::string replay_endpoint;  // empty: nobody can ask for past batches
  std::string topic;
  int64_t buffer_steps = 10'000;  // batches kept for subscribers that ask for past ones
  int64_t hwm = 100'000;          // batches kept for a subscriber that does not read
};

// `json` may be empty: disabled. OUT_OF_RANGE naming the key.
absl::StatusOr<KvEventsConfig> ParseKvEventsConfig(absl::string_view json);

}  // namespace quire
