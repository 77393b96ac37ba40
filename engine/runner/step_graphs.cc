#include "engine/runner/step_graphs.h"

#include <algorithm>
#include <utility>

#include "kernels/base/status_macros.h"

namespace quire {

std::vector<UniformSize> UniformSizes(const std::vector<int32_t>& query_lens,
                                      const BatchLimits& limits) {
  constexpr int32_t kFineUntil = 512, kFineStep = 8, kCoarseStep = 64;
  std::vector<UniformSize> sizes;
  for (const int32_t query_len : query_lens) {
    const auto max_num_seqs = static_cast<int32_t>(
        std::min(limits.max_num_seqs, limits.max_num_batched_tokens / query_len));
    for (int32_t num_seqs = 1; num_seqs < max_num_seqs;) {
      sizes.push_back({query_len, num_seqs});
      if (num_seqs < kFineStep) {
        num_seqs *= 2;
      } else {
        num_seqs += num_seqs < kFineUntil ? kFineStep : kCoarseStep;
      }
    }
    if (max_num_seqs > 0) sizes.push_back({query_len, max_num_seqs});
  }
  // Coarser: such steps read little for each sequence.
  constexpr int32_t kSharedStep = 32;
  const bool has_decodes = !query_lens.empty() && query_lens.front() == 1;
  if (limits.min_prefix_tokens > 0 && has_decodes) {
    const auto max_num_seqs = static_cast<int32_t>(limits.max_num_seqs);
    for (int32_t num_seqs = 8; num_seqs < max_num_seqs;) {
      sizes.push_back({1, num_seqs, /*shares_prefixes=*/true});
      num_seqs = num_seqs < kSharedStep  ? 2 * num_seqs
                 : num_seqs < kFineUntil ? num_seqs + kSharedStep
                                         : num_seqs + kCoarseStep;
    }
    sizes.push_back({1, max_num_seqs, /*shares_prefixes=*/true});
  }
  return sizes;
}

absl::Status StepGraphs::Capture(Stream& stream, const std::vector<UniformSize>& sizes,
                                 const std::function<void(UniformSize size)>& enqueue,
                                 Progress* progress) {
  ProgressStage stage(progress, "capturing graphs", static_cast<int64_t>(sizes.size()),
                      ProgressUnit::kItems);
  graphs_.reserve(sizes.size());
  for (const UniformSize size : sizes) {
    stream.BeginCapture();
    enqueue(size);
    ASSIGN_OR_RETURN(std::unique_ptr<ExecGraph> graph, stream.EndCapture());
    graphs_.push_back(std::move(graph));
    stage.Add(1);
  }
  return absl::OkStatus();
}

}  // namespace quire
