// Model shapes known by name, so that speed can be measured without a checkpoint: --shape NAME
// stands for a folder with the model's config.json and random weights.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/bench/interrupt.h"

namespace quire::bench {

struct ModelShape {
  std::string name;
  std::string config_json;  // the text of a config.json
};

std::vector<std::string> ModelShapeNames();
// An error (exit code 64), listing the names, for an unknown one.
absl::StatusOr<ModelShape> FindModelShape(const std::string& name);

// A temporary folder with a shape's config.json; removed with this object, and when
// a signal ends the process.
class ShapeFolder {
 public:
  static absl::StatusOr<ShapeFolder> Make(const std::string& name);
  ~ShapeFolder();
  ShapeFolder(ShapeFolder&& other) noexcept;
  ShapeFolder& operator=(ShapeFolder&&) = delete;

  const std::string& path() const { return path_; }

 private:
  explicit ShapeFolder(std::string path);

  std::string path_;
  std::unique_ptr<ExitCleanup> removal_;
};

}  // namespace quire::bench
