#include "engine/runner/step_graphs.h"

#include <algorithm>
#include <string>

#include "kernels/base/status_macros.h"
#include "kernels/base/types.h"
#include "spdlog/spdlog.h"

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

absl::Status StepGraphs::CaptureAtStart(Device& device, Stream& stream,
                                        const std::vector<UniformSize>& sizes,
                                        const Enqueue& enqueue, Progress* progress) {
  graphs_.resize(sizes.size());
  const auto first_late = std::find_if(
      sizes.begin(), sizes.end(), [](const UniformSize& size) { return size.shares_prefixes; });
  const auto num_now = static_cast<int64_t>(first_late - sizes.begin());
  ASSIGN_OR_RETURN(const MemoryInfo before, device.Memory());
  ProgressStage stage(progress, "capturing graphs", num_now, ProgressUnit::kItems);
  for (int64_t i = 0; i < num_now; ++i) {
    RETURN_IF_ERROR(Capture(stream, static_cast<size_t>(i), sizes[i], enqueue));
    stage.Add(1);
  }
  ASSIGN_OR_RETURN(const MemoryInfo after, device.Memory());
  const auto num_late = static_cast<int64_t>(sizes.size()) - num_now;
  const int64_t taken_bytes = std::max<int64_t>(0, before.free_bytes - after.free_bytes);
  late_bytes_ = num_late * CeilDiv(taken_bytes, std::max<int64_t>(1, num_now));
  return absl::OkStatus();
}

void StepGraphs::CaptureLate(Stream& stream, int index, UniformSize size, const Enqueue& enqueue) {
  if (!has_room_) return;
  const absl::Status status = Capture(stream, static_cast<size_t>(index), size, enqueue);
  if (status.ok()) return;
  has_room_ = false;
  spdlog::warn("no more graphs are made of steps that share a prefix: {}",
               std::string(status.message()));
}

absl::Status StepGraphs::Capture(Stream& stream, size_t index, UniformSize size,
                                 const Enqueue& enqueue) {
  stream.BeginCapture();
  enqueue(size);
  ASSIGN_OR_RETURN(graphs_[index], stream.EndCapture());
  return absl::OkStatus();
}

}  // namespace quire
