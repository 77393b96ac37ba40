// Which server a command asks, and how. A flag has vLLM's name if vLLM's benchmark has such a flag.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "server/wire/client/server_address.h"
#include "tools/bench/load/load_backend.h"
#include "tools/bench/run_header.h"

namespace CLI {
class App;
}

namespace quire::bench {

struct ServerFlags {
  std::string backend = "quire";
  std::string target;  // as client::ParseTarget has it
  BackendOptions server;
  double ready_seconds = 0;  // time that a server may take until it answers

  // As they were written; CheckServerFlags reads them.
  std::string base_url, host, served_model_name, json_schema_file;
  int64_t port = 0;
  std::vector<std::string> headers;
};

void AddServerFlags(CLI::App& command, ServerFlags* flags);

// Fills the values that follow from the other flags. Errors (exit code 64) name the flag.
absl::Status CheckServerFlags(ServerFlags* flags);

// Each is "KEY=VALUE".
absl::Status SplitPairs(const char* flag, const std::vector<std::string>& texts,
                        std::vector<std::pair<std::string, std::string>>* pairs);

struct ServedTarget {
  ServerAddress address;
  std::unique_ptr<LoadBackend> backend;
  ServedModel model;
};

// The server, once it has described its model; an error (exit code 69) if no server answers in
// time.
absl::StatusOr<ServedTarget> OpenTarget(const ServerFlags& flags);

// The description of the server in a run's header and in its result.
RunHeader TargetHeader(const std::string& command, const std::string& what,
                       const ServerFlags& flags, const ServedModel& model);
nlohmann::ordered_json TargetJson(const std::string& command, const ServerFlags& flags,
                                  const ServedModel& model);

// Empties the server's prefix cache; an error (exit code 1) when it cannot.
absl::Status FlushPrefixCache(const ServedTarget& target);

}  // namespace quire::bench
