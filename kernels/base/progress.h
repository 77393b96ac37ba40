// Progress: how far a long stage of a start has come. The threads that do the work count (any
// thread, no lock per count); the thread that shows the progress reads snapshots. One stage at a
// time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace quire {

enum class ProgressUnit : uint8_t { kBytes, kItems };

struct ProgressSnapshot {
  std::string stage;  // "loading weights"; empty: nothing is under way
  ProgressUnit unit = ProgressUnit::kBytes;
  int64_t done = 0;
  int64_t total = 0;  // 0: not known
  std::chrono::steady_clock::duration elapsed = {};
};

class Progress {
 public:
  void Begin(std::string stage, int64_t total, ProgressUnit unit);
  void Add(int64_t amount) { done_.fetch_add(amount, std::memory_order_relaxed); }
  void End();

  ProgressSnapshot Read() const;

 private:
  mutable absl::Mutex mutex_;
  ProgressSnapshot snapshot_ ABSL_GUARDED_BY(mutex_);  // except `done` and `elapsed`
  std::chrono::steady_clock::time_point begun_ ABSL_GUARDED_BY(mutex_);
  std::atomic<int64_t> done_{0};
};

// A stage that ends with its scope. `progress` may be null: nobody watches.
class ProgressStage {
 public:
  ProgressStage(Progress* progress, std::string stage, int64_t total, ProgressUnit unit)
      : progress_(progress) {
    if (progress_ != nullptr) progress_->Begin(std::move(stage), total, unit);
  }
  ~ProgressStage() {
    if (progress_ != nullptr) progress_->End();
  }
  ProgressStage(const ProgressStage&) = delete;
  ProgressStage& operator=(const ProgressStage&) = delete;

  // Negative amounts take back what has to be done again.
  void Add(int64_t amount) {
    if (progress_ != nullptr) progress_->Add(amount);
  }

 private:
  Progress* const progress_;
};

}  // namespace quire
