#include "kernels/base/progress.h"

#include <utility>

namespace quire {

void Progress::Begin(std::string stage, int64_t total, ProgressUnit unit) {
  absl::MutexLock lock(&mutex_);
  snapshot_.stage = std::move(stage);
  snapshot_.total = total;
  snapshot_.unit = unit;
  done_ = 0;
  begun_ = std::chrono::steady_clock::now();
}

void Progress::End() {
  absl::MutexLock lock(&mutex_);
  snapshot_.stage.clear();
}

ProgressSnapshot Progress::Read() const {
  absl::MutexLock lock(&mutex_);
  ProgressSnapshot snapshot = snapshot_;
  snapshot.done = done_;
  snapshot.elapsed = std::chrono::steady_clock::now() - begun_;
  return snapshot;
}

}  // namespace quire
