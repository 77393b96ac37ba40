#include "server/start/model_location.h"

#include <sys/auxv.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/checkpoint/model_folder.h"
#include "kernels/base/progress.h"
#include "kernels/base/status_macros.h"
#include "server/start/hub/hub.h"
#include "server/start/hub/hub_name.h"
#include "server/start/hub/hub_options.h"

namespace quire {
namespace {

// Whether a name can only be a path on this machine: it begins like one, or has more parts than a
// name.
bool LooksLikePath(const std::string& model) {
  return absl::StartsWith(model, "/") || absl::StartsWith(model, ".") ||
         absl::StartsWith(model, "~") || absl::EndsWith(model, ".gguf") ||
         (std::count(model.begin(), model.end(), '/') > 1 && !IsHubAddress(model));
}

absl::Status CheckRevisionHasUse(const Settings& settings, const std::string& model) {
  if (settings.revision.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--revision is for models by name (org/name), and ", model, " is not one: leave it out"));
}

}  // namespace

absl::StatusOr<std::string> FindBundledModel() {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<std::string> places;
  // Not /proc/self/exe, which a container may do without.
  const auto* name = reinterpret_cast<const char*>(getauxval(AT_EXECFN));  // NOLINT(*-int-to-ptr)
  if (const fs::path program = fs::canonical(name, error); !error) {
    const fs::path prefix = program.parent_path().parent_path();
    places = {(prefix / "configs/demo").string(), (prefix / "share/quire/demo").string(),
              (prefix / "../../configs/demo").lexically_normal().string()};
  }
  for (const std::string& place : places) {
    if (fs::exists(fs::path(place) / "config.json", error)) return place;
  }
  return absl::NotFoundError(absl::StrCat("the bundled model is not in any of ",
                                          absl::StrJoin(places, ", "), "; give --model FOLDER"));
}

ModelNeeds ServingNeeds(const Settings& settings) {
  return {.weights = settings.load_format != "dummy", .tokenizer = !settings.skip_tokenizer_init};
}

absl::StatusOr<std::string> FindModelFolder(const Settings& settings, const ModelNeeds& needs,
                                            Progress* progress) {
  const std::string& model = settings.model;
  if (model.empty()) {
    RETURN_IF_ERROR(CheckRevisionHasUse(settings, "the bundled model"));
    return FindBundledModel();
  }
  std::error_code error;
  const bool exists = std::filesystem::exists(model, error);
  if (exists || error || LooksLikePath(model)) {
    RETURN_IF_ERROR(CheckRevisionHasUse(settings, model));
    return ResolveModelFolder(model);
  }
  RETURN_IF_ERROR(CheckHubName(model));
  const HubSubject subject = {model, settings.revision.empty() ? "main" : settings.revision};
  RETURN_IF_ERROR(CheckRevision(subject.revision));
  ASSIGN_OR_RETURN(const HubOptions options, ReadHubOptions(settings.download_dir));
  return FetchHubModel(subject, needs, options, progress);
}

ExitCode ModelLocationFailureCode(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return ExitCode::kUsage;
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kDataLoss:
      return ExitCode::kModelFiles;
    default:
      return ExitCode::kUnavailable;
  }
}

}  // namespace quire
