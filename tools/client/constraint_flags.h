// The flags --json-schema, --regex, --grammar and --choice of `quire generate` and `quire chat`,
// which say what the answer must be. Main thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "quire/v1/inference.pb.h"

namespace CLI {
class App;
}

namespace quire::client {

struct ConstraintFlags {
  std::optional<std::string> schema_file = {}, regex = {}, grammar_file = {};
  std::vector<std::string> choices = {};
};

void AddConstraintFlags(CLI::App& command, ConstraintFlags* flags);

// Fills the constraint of `request`, if a flag gives one; reads files. INVALID_ARGUMENT names two
// flags that contradict each other, or says what is wrong with a file.
absl::Status ApplyConstraintFlags(const ConstraintFlags& flags, v1::GenerateRequest* request);

}  // namespace quire::client
