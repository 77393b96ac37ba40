// Choices that were measured once and for all for gemms of well-known models, so that a server of
// one of them need not measure when it first starts on a machine. Host only; any thread.
#pragma once

#include <vector>

#include "absl/strings/string_view.h"
#include "kernels/cuda/gemm/gemm_choice.h"

namespace quire::cuda {

// Files of tuning_cache.h, each of a machine: those in known/.
std::vector<absl::string_view> KnownGemmFiles();

// For a device of that name and that cuBLASLt, whose algorithms another release may not know; the
// driver makes no difference to what is right. Empty where nothing is known.
GemmChoices KnownGemms(absl::string_view device, size_t cublaslt_version);

}  // namespace quire::cuda
