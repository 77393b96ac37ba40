// StepGraphs: whole uniform steps, captured once per padded size and replayed for every step of up
// to that size. Decodes are captured before serving starts, since one costs some milliseconds and
// none may cost a request its latency; those that share prefixes, which few servers ever see, when
// the first step of their size has been enqueued, so that the device has work meanwhile. Engine
// thread.
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
  using Enqueue = std::function<void(UniformSize size)>;

  // Captures enqueue(size) for each of `sizes` but those that share prefixes, which come last.
  // `progress` may be null.
  absl::Status CaptureAtStart(Device& device, Stream& stream, const std::vector<UniformSize>& sizes,
                              const Enqueue& enqueue, Progress* progress);
  // Captures sizes[index], which is `size`. Where there is no memory for it steps go on without,
  // and nothing more is captured: a warning.
  void CaptureLate(Stream& stream, int index, UniformSize size, const Enqueue& enqueue);

  // The step captured for sizes[index], or null when nothing was captured.
  const ExecGraph* Find(int index) const {
    return index >= 0 && index < static_cast<int>(graphs_.size()) ? graphs_[index].get() : nullptr;
  }
  // Device memory that those captured late may take, all of them: each as much as one of the others
  // took on average, with the code that was loaded for it.
  int64_t late_bytes() const { return late_bytes_; }

 private:
  absl::Status Capture(Stream& stream, size_t index, UniformSize size, const Enqueue& enqueue);

  std::vector<std::unique_ptr<ExecGraph>> graphs_;  // [sizes]
  int64_t late_bytes_ = 0;
  bool has_room_ = true;  // for more
};

}  // namespace quire
