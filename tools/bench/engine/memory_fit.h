// Which cases of a benchmark fit the memory that is free, decided before anything is allocated.
// Plain functions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace quire::bench {

struct SkippedCase {
  size_t index;
  int64_t needed_bytes;  // together with the cases that were chosen before it
};

struct FittingCases {
  std::vector<size_t> chosen;  // indices, in order
  std::vector<SkippedCase> skipped;
};

// Looks at the cases [0, num_cases) in turn. Chooses a case if `bytes_for` it together with the
// cases chosen before is at most `free_bytes`.
FittingCases ChooseFitting(size_t num_cases, int64_t free_bytes,
                           const std::function<int64_t(const std::vector<size_t>&)>& bytes_for);

// "skipped: decode, batch 256 needs 32.1 GiB, 21.9 GiB are free".
std::string SkippedText(const std::string& name, int64_t needed_bytes, int64_t free_bytes);

}  // namespace quire::bench
