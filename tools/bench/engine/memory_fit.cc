#include "tools/bench/engine/memory_fit.h"

#include <utility>

#include "absl/strings/str_format.h"

namespace quire::bench {

FittingCases ChooseFitting(size_t num_cases, int64_t free_bytes,
                           const std::function<int64_t(const std::vector<size_t>&)>& bytes_for) {
  FittingCases result;
  for (size_t i = 0; i < num_cases; ++i) {
    std::vector<size_t> with_this = result.chosen;
    with_this.push_back(i);
    const int64_t needed_bytes = bytes_for(with_this);
    if (needed_bytes <= free_bytes) {
      result.chosen = std::move(with_this);
    } else {
      result.skipped.push_back({i, needed_bytes});
    }
  }
  return result;
}

std::string SkippedText(const std::string& name, int64_t needed_bytes, int64_t free_bytes) {
  constexpr double kGiB = 1 << 30;
  return absl::StrFormat("skipped: %s needs %.1f GiB, %.1f GiB are free", name,
                         static_cast<double>(needed_bytes) / kGiB,
                         static_cast<double>(free_bytes) / kGiB);
}

}  // namespace quire::bench
