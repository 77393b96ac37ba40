// The file that keeps measured choices from one start to the next. Text, one gemm a line, with
// the machine it was measured on first and a checksum last: a file that is cut off, damaged or of
// another machine is refused as a whole. Host only; any thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/gemm/gemm_choice.h"

namespace quire::cuda {

// Everything a measured choice depends on, in one line.
std::string MachineName(absl::string_view device, int driver_version, size_t cublaslt_version);

// $QUIRE_CACHE_DIR, $XDG_CACHE_HOME/quire or $HOME/.cache/quire; empty, which keeps nothing, where
// the first is set and empty or none is set.
std::string DefaultCacheFolder();
// A file per machine, so that machines may share a folder.
std::string TuningCachePath(const std::string& folder, const std::string& machine);

std::string FormatChoices(const std::string& machine, const GemmChoices& choices);
// DATA_LOSS, FAILED_PRECONDITION for another machine's; says what is wrong.
absl::StatusOr<GemmChoices> ParseChoices(absl::string_view text, const std::string& machine);

// NOT_FOUND where there is no file.
absl::StatusOr<GemmChoices> ReadChoices(const std::string& path, const std::string& machine);
// Makes the folder; a reader sees the old contents or the new ones.
absl::Status WriteChoices(const std::string& path, const std::string& machine,
                          const GemmChoices& choices);

}  // namespace quire::cuda
