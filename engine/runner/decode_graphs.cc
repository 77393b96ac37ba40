#include "engine/runner/decode_graphs.h"

#include <utility>

#include "kernels/base/status_macros.h"

namespace quire {

std::vector<int32_t> DecodeBatchSizes(int64_t max_num_seqs) {
  constexpr int64_t kFineUntil = 512, kFineStep = 8, kCoarseStep = 64;
  std::vector<int32_t> sizes;
  for (int64_t size = 1; size < max_num_seqs;) {
    sizes.push_back(static_cast<int32_t>(size));
    if (size < kFineStep) {
      size *= 2;
    } else {
      size += size < kFineUntil ? kFineStep : kCoarseStep;
    }
  }
  sizes.push_back(static_cast<int32_t>(max_num_seqs));
  return sizes;
}

absl::Status DecodeGraphs::Capture(Stream& stream, const std::vector<int32_t>& sizes,
                                   const std::function<void(int32_t size)>& enqueue,
                                   Progress* progress) {
  ProgressStage stage(progress, "capturing graphs", static_cast<int64_t>(sizes.size()),
                      ProgressUnit::kItems);
  graphs_.reserve(sizes.size());
  for (const int32_t size : sizes) {
    stream.BeginCapture();
    enqueue(size);
    ASSIGN_OR_RETURN(std::unique_ptr<ExecGraph> graph, stream.EndCapture());
    graphs_.push_back(std::move(graph));
    stage.Add(1);
  }
  return absl::OkStatus();
}

}  // namespace quire
