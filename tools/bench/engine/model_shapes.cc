#include "tools/bench/engine/model_shapes.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

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

// The files of shapes/, which become this list when quire-bench is configured.
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

absl::StatusOr<std::string> FindModelShape(const std::string& name) {
  for (const NamedConfig& shape : kShapes) {
    if (name == shape.name) return shape.config;
  }
  return UsageError(absl::StrCat("--shape: there is no \"", name, "\"; there are ",
                                 absl::StrJoin(ModelShapeNames(), ", ")));
}

absl::StatusOr<ShapeFolder> ShapeFolder::Make(const std::string& name) {
  ASSIGN_OR_RETURN(const std::string config, FindModelShape(name));
  std::string path = (std::filesystem::temp_directory_path() / "quire-shape-XXXXXX").string();
  if (mkdtemp(path.data()) == nullptr) {
    return WithExitCode(kUnavailable,
                        absl::UnavailableError(absl::StrCat("cannot make the folder ", path, ": ",
                                                            std::strerror(errno))));
  }
  ShapeFolder folder = {.path = path, .removal = std::make_unique<ExitCleanup>([path] {
                                        std::error_code ignored;
                                        std::filesystem::remove_all(path, ignored);
                                      })};
  std::ofstream file(path + "/config.json");
  file << config;
  if (file.flush()) return folder;
  return WithExitCode(kUnavailable,
                      absl::UnavailableError(absl::StrCat("cannot write ", path, "/config.json")));
}

}  // namespace quire::bench
