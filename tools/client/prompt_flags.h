// The prompt of `quire generate`, a text to continue or a message to answer: from one of several
// flags, or from standard input. Main thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "quire/v1/inference.pb.h"

namespace CLI {
class App;
}

namespace quire::client {

struct PromptFlags {
  std::optional<std::string> argument = {};  // `quire generate TEXT` is `--prompt TEXT`
  std::optional<std::string> prompt = {}, message = {}, system = {}, messages_file = {};
  std::optional<std::string> template_kwargs = {};
  std::vector<uint32_t> token_ids = {};
};

void AddPromptFlags(CLI::App& command, PromptFlags* flags);

// INVALID_ARGUMENT names two flags that contradict each other, or a flag and the one that it needs.
absl::Status CheckPromptFlags(const PromptFlags& flags);

// Fills the prompt of `request` after CheckPromptFlags. If no flag gives a prompt, it reads
// standard input, and says so on standard error if the input is a terminal. INVALID_ARGUMENT says
// what is wrong.
absl::Status ApplyPromptFlags(const PromptFlags& flags, v1::GenerateRequest* request);

// All of standard input. On a terminal it says first that it waits for `what` and how to end it,
// and a last line break does not count.
std::string ReadStandardInput(const std::string& what);

}  // namespace quire::client
