// Follows one Generate stream: prints text as it arrives, keeps everything for the summary or for
// JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "nlohmann/json_fwd.hpp"
#include "quire/v1/inference.pb.h"
#include "tools/client/inference_client.h"

namespace quire::client {

struct Continuation {
  std::string text;
  std::vector<uint32_t> token_ids;
  std::vector<v1::TokenLogprob> logprobs;
  v1::Started started;
  v1::Finished finished;
};

struct StreamResult {
  absl::Status status;
  std::vector<Continuation> continuations;  // by index
  double first_text_ms = -1;                // since the call began; -1: none came
  double total_ms = 0;
};

// Runs the call to its end. With `print`, the text of continuation 0 goes to standard output as it
// comes, the others at the end; with several, each under a heading. A call that fails before any
// text came prints nothing.
StreamResult RunStream(InferenceClient& client, CancellableCall& call,
                       const v1::GenerateRequest& request, bool print);

nlohmann::ordered_json ToJson(const StreamResult& result);

// The logprobs that --logprobs and --prompt-logprobs ask for, as tables; empty without these flags.
std::string LogprobTables(const StreamResult& result);

// "12 prompt tokens (0 cached), 5 generated; ..." for standard error.
std::string Summary(const StreamResult& result);

}  // namespace quire::client
