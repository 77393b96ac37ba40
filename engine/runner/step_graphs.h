// StepGraphs: whole uniform steps, captured once per padded size and replayed for every step of up
// to that size. Decodes are captured before serving starts, because a capture takes some
// milliseconds and must not delay a request. Decodes that share prefixes are rare on most servers.
// They are captured when the first step of their size has been enqueued, so that the device has
// work meanwhile. Engine thread.
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

// Sizes that are worth their own graph, ascending, for each of `query_lens` (ascending). The last
// one has as many sequences as the limits allow. The sizes lie close together: a padded row costs
// as much as a real one, unless the weights that a kernel reads limit it.
std::vector<UniformSize> UniformSizes(const std::vector<int32_t>& query_lens,
                                      const BatchLimits& limits);

class StepGraphs {
 public:
  using Enqueue = std::function<void(UniformSize size)>;

  // Captures enqueue(size) for each of `sizes`, except the sizes that share prefixes, which come
  // last. `progress` may be null.
  absl::Status CaptureAtStart(Device& device, Stream& stream, const std::vector<UniformSize>& sizes,
                              const Enqueue& enqueue, Progress* progress);
  // Captures sizes[index], which is `size`. If there is no memory for it, it warns, steps go on
  // without the graph, and nothing more is captured.
  void CaptureLate(Stream& stream, int index, UniformSize size, const Enqueue& enqueue);

  // The step captured for sizes[index], or null when nothing was captured.
  const ExecGraph* Find(int index) const {
    return index >= 0 && index < static_cast<int>(graphs_.size()) ? graphs_[index].get() : nullptr;
  }
  // Device memory that all graphs captured late may take. Each counts with the average memory of
  // the other graphs, including the code that was loaded for them.
  int64_t late_bytes() const { return late_bytes_; }

 private:
  absl::Status Capture(Stream& stream, size_t index, UniformSize size, const Enqueue& enqueue);

  std::vector<std::unique_ptr<ExecGraph>> graphs_;  // [sizes]
  int64_t late_bytes_ = 0;
  bool has_room_ = true;  // for more graphs
};

}  // namespace quire
