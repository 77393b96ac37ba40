// Model shapes known by name, so that speed can be measured without a checkpoint: --shape NAME
// stands for a folder with the model's config.json and random weights.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/bench/interrupt.h"

namespace quire::bench {

std::vector<std::string> ModelShapeNames();
// The text of the shape's config.json. An error (exit code 64) that lists the names, if the name is
// unknown.
absl::StatusOr<std::string> FindModelShape(const std::string& name);

// A temporary folder with a shape's config.json.
struct ShapeFolder {
  static absl::StatusOr<ShapeFolder> Make(const std::string& name);

  std::string path;
  std::unique_ptr<ExitCleanup> removal;
};

}  // namespace quire::bench
