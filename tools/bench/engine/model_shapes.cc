#include "tools/bench/engine/model_shapes.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/base/status_macros.h"
#include "tools/bench/failure.h"

namespace quire::bench {

namespace {

struct NamedConfig {
  const char* name;
  const char* config;
};

// Of the files of shapes/, made when quire-bench is configured.
constexpr NamedConfig kShapes[] = {
#include "model_shapes.inc"
};

}  // namespace

std::vector<std::string> ModelShapeNames() {
  std::vector<std::string> names;
  names.reserve(std::size(kShapes));
  for (const NamedConfig& shape : kShapes) names.emplace_back(shape.name);
  return names;
}

absl::StatusOr<ModelShape> FindModelShape(const std::string& name) {
  for (const NamedConfig& shape : kShapes) {
    if (name == shape.name) return ModelShape{shape.name, shape.config};
  }
  return UsageError(absl::StrCat("--shape: there is no \"", name, "\"; there are ",
                                 absl::StrJoin(ModelShapeNames(), ", ")));
}

absl::StatusOr<ShapeFolder> ShapeFolder::Make(const std::string& name) {
  ASSIGN_OR_RETURN(const ModelShape shape, FindModelShape(name));
  std::string path = (std::filesystem::temp_directory_path() / "quire-shape-XXXXXX").string();
  if (mkdtemp(path.data()) == nullptr) {
    return WithExitCode(kUnavailable,
                        absl::UnavailableError(absl::StrCat("cannot make the folder ", path, ": ",
                                                            std::strerror(errno))));
  }
  ShapeFolder folder(std::move(path));
  std::ofstream file(folder.path_ + "/config.json");
  file << shape.config_json;
  if (file.flush()) return folder;
  return WithExitCode(kUnavailable, absl::UnavailableError(absl::StrCat(
                                        "cannot write ", folder.path_, "/config.json")));
}

ShapeFolder::ShapeFolder(std::string path)
    : path_(std::move(path)), removal_(std::make_unique<ExitCleanup>([path = path_] {
        std::error_code ignored;
        std::filesystem::remove_all(path, ignored);
      })) {}

ShapeFolder::~ShapeFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

ShapeFolder::ShapeFolder(ShapeFolder&& other) noexcept
    : path_(std::exchange(other.path_, "")), removal_(std::move(other.removal_)) {}

}  // namespace quire::bench
