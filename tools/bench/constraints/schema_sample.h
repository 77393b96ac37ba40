// SchemaSample: real JSON schemas with instances, a file of lines. Plain values; one thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace quire::bench {

struct SampledSchema {
  std::string id;
  std::string schema;  // as a client sends it
  // Texts of values, with ", " and ": " between members.
  std::vector<std::string> valid, invalid;
};

// The first `limit` lines of a file of {"id", "schema", "valid": [...], "invalid": [...]}. The
// error (exit code 64) names `flag`, file and line.
absl::StatusOr<std::vector<SampledSchema>> ReadSchemaSample(const std::string& flag,
                                                            const std::string& path, int64_t limit);

}  // namespace quire::bench
