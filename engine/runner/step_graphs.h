// StepGraphs: whole uniform steps, captured once per padded size and replayed for every step of up
// to that size. All are captured before serving starts, since one costs less than a millisecond and
// none may cost a request its latency. Engine thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "engine/runner/batch.h"
#include "kernels/base/progress.h"
#include "kernels/device.h"

namespace quire {

// Sizes worth a graph of their own, ascending, of each of `query_lens` (ascending): the last one
// has as many sequences as the limits allow. Fine steps: a padded row costs as much as a real one
// wherever a kernel is not limited by the weights it reads.
std::vector<UniformSize> UniformSizes(const std::vector<int32_t>& query_lens,
                                      const BatchLimits& limits);

class StepGraphs {
 public:
  // Captures enqueue(size) for each of `sizes`. `progress` may be null.
  absl::Status Capture(Stream& stream, const std::vector<UniformSize>& sizes,
                       const std::function<void(UniformSize size)>& enqueue, Progress* progress);

  // The step captured for sizes[index], or null when nothing was captured.
  const ExecGraph* Find(int index) const {
    return index >= 0 && index < static_cast<int>(graphs_.size()) ? graphs_[index].get() : nullptr;
  }

 private:
  std::vector<std::unique_ptr<ExecGraph>> graphs_;
};

}  // namespace quire
