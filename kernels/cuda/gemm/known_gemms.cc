#include "kernels/cuda/gemm/known_gemms.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "kernels/base/check.h"
#include "kernels/cuda/gemm/tuning_cache.h"

namespace quire::cuda {

namespace {

constexpr absl::string_view kH200 =
#include "kernels/cuda/gemm/known/nvidia_h200.inc"
    ;

}  // namespace

std::vector<absl::string_view> KnownGemmFiles() { return {kH200}; }

GemmChoices KnownGemms(absl::string_view device, size_t cublaslt_version) {
  for (const absl::string_view file : KnownGemmFiles()) {
    const std::vector<absl::string_view> lines = absl::StrSplit(file, absl::MaxSplits('\n', 2));
    const std::string machine(lines[1]);
    if (!absl::StartsWith(machine, absl::StrCat(device, ", driver ")) ||
        !absl::EndsWith(machine, absl::StrCat(", cuBLASLt ", cublaslt_version))) {
      continue;
    }
    absl::StatusOr<GemmChoices> choices = ParseChoices(file, machine);
    CHECK(choices.ok()) << choices.status();
    return *std::move(choices);
  }
  return {};
}

}  // namespace quire::cuda
