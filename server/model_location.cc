#include "server/model_location.h"

#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/model/model_folder.h"

namespace quire {

absl::StatusOr<std::string> FindBundledModel() {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<std::string> places;
  if (const fs::path program = fs::read_symlink("/proc/self/exe", error); !error) {
    const fs::path prefix = program.parent_path().parent_path();
    places = {(prefix / "configs/demo").string(), (prefix / "share/quire/demo").string()};
  }
  places.push_back(QUIRE_SOURCE_DIR "/configs/demo");
  for (const std::string& place : places) {
    if (fs::exists(fs::path(place) / "config.json", error)) return place;
  }
  return absl::NotFoundError(absl::StrCat("the bundled model is not in any of ",
                                          absl::StrJoin(places, ", "), "; give --model FOLDER"));
}

absl::StatusOr<std::string> FindModelFolder(const std::string& model) {
  return model.empty() ? FindBundledModel() : ResolveModelFolder(model);
}

}  // namespace quire
