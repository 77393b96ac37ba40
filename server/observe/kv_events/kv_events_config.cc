#include "server/observe/kv_events/kv_events_config.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "engine/json/json_reader.h"

namespace quire {

namespace {

absl::Status Wrong(absl::string_view key, absl::string_view what) {
  return absl::OutOfRangeError(absl::StrCat("--kv-events-config: ", key, " ", what));
}

absl::Status Set(const std::string& key, const nlohmann::json& value, bool* target) {
  if (!value.is_boolean()) return Wrong(key, "is true or false");
  *target = value.get<bool>();
  return absl::OkStatus();
}

absl::Status Set(const std::string& key, const nlohmann::json& value, std::string* target) {
  if (value.is_null()) return absl::OkStatus();
  if (!value.is_string()) return Wrong(key, "is a text");
  *target = value.get<std::string>();
  return absl::OkStatus();
}

absl::Status Set(const std::string& key, const nlohmann::json& value, int64_t* target) {
  constexpr int64_t kMost = 10'000'000;
  if (!value.is_number_integer() || value.get<int64_t>() < 1 || value.get<int64_t>() > kMost) {
    return Wrong(key, absl::StrCat("is a number from 1 to ", kMost));
  }
  *target = value.get<int64_t>();
  return absl::OkStatus();
}

absl::Status SetMember(const std::string& key, const nlohmann::json& value,
                       KvEventsConfig* config) {
  if (key == "enable_kv_cache_events") return Set(key, value, &config->enabled);
  if (key == "endpoint") return Set(key, value, &config->endpoint);
  if (key == "replay_endpoint") return Set(key, value, &config->replay_endpoint);
  if (key == "topic") return Set(key, value, &config->topic);
  if (key == "buffer_steps") return Set(key, value, &config->buffer_steps);
  if (key == "hwm") return Set(key, value, &config->hwm);
  // vLLM's queue between engine and publisher is here the same buffer.
  int64_t max_queue_size = 0;
  if (key == "max_queue_size") return Set(key, value, &max_queue_size);
  if (key != "publisher") {
    return Wrong(key,
                 "is not known; known are enable_kv_cache_events, publisher, endpoint, "
                 "replay_endpoint, topic, buffer_steps, hwm and max_queue_size");
  }
  if (value == "null") {
    config->enabled = false;
  } else if (value != "zmq") {
    return Wrong(key, "is \"zmq\" or \"null\"");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<KvEventsConfig> ParseKvEventsConfig(absl::string_view json) {
  KvEventsConfig config;
  if (json.empty()) return config;
  const absl::StatusOr<nlohmann::json> tree =
      ParseJsonObject(json, "--kv-events-config", DuplicateKeys::kRefused);
  if (!tree.ok()) {
    return absl::OutOfRangeError(
        absl::StrCat(tree.status().message(),
                     "; give a JSON object, such as {\"enable_kv_cache_events\": true}"));
  }
  for (const auto& [key, value] : tree->items()) {
    if (absl::Status status = SetMember(key, value, &config); !status.ok()) return status;
  }
  // Whatever the order of the keys.
  if (tree->contains("publisher") && (*tree)["publisher"] == "null") config.enabled = false;
  return config;
}

}  // namespace quire
