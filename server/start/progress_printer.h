// ProgressPrinter: shows a Progress on standard error while it lives: a bar that is redrawn on a
// terminal, a line every two seconds elsewhere. A thread of its own, which sleeps in between.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "kernels/base/clock.h"
#include "kernels/base/progress.h"

namespace quire {

// "loading weights: 1.20 of 16.06 GB, 2.4 GB/s, 6 s left", or the part of it that is known.
std::string ProgressText(const ProgressSnapshot& snapshot);
// The same behind a bar, no wider than `num_columns`.
std::string ProgressBar(const ProgressSnapshot& snapshot, int num_columns);

class ProgressPrinter {
 public:
  // `progress` outlives this. Without a terminal, `print_line` gets the lines. On a terminal,
  // `draw` gets the bar, and the text that wipes the bar when its stage ends.
  ProgressPrinter(const Progress& progress, std::function<void(const std::string&)> print_line,
                  std::function<void(const std::string&)> draw);
  ~ProgressPrinter();
  ProgressPrinter(const ProgressPrinter&) = delete;
  ProgressPrinter& operator=(const ProgressPrinter&) = delete;

 private:
  void Run();
  void ShowBar(const ProgressSnapshot& snapshot);
  void WipeBar();

  const Progress& progress_;
  const std::function<void(const std::string&)> print_line_;
  const std::function<void(const std::string&)> draw_;
  const bool on_terminal_;
  bool bar_shown_ = false;
  absl::Mutex mutex_;
  MonotonicCondVar stopped_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace quire
