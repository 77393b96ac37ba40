#include "engine/stream_bounds.h"

#include "absl/strings/str_cat.h"
#include "kernels/base/check.h"
#include "scheduler/queue_bounds.h"

namespace quire {

StreamBounds::Places& StreamBounds::Places::operator=(Places&& other) noexcept {
  if (this == &other) return *this;
  Release();
  bounds_ = std::exchange(other.bounds_, nullptr);
  flow_ = other.flow_;
  num_ = other.num_;
  return *this;
}

void StreamBounds::Places::Release() {
  const std::shared_ptr<StreamBounds> bounds = std::exchange(bounds_, nullptr);
  if (bounds == nullptr) return;
  absl::MutexLock lock(&bounds->mutex_);
  bounds->num_held_ -= num_;
  const auto held = bounds->held_by_.find(flow_);
  CHECK(held != bounds->held_by_.end());
  held->second -= num_;
  CHECK_GE(held->second, 0);
  if (held->second == 0) bounds->held_by_.erase(held);
}

absl::Status StreamBounds::Check(const RequestFlow& flow, int64_t num) const {
  absl::MutexLock lock(&mutex_);
  const int64_t num_free = most_ - num_held_;
  if (num > num_free) {
    return absl::ResourceExhaustedError(absl::StrCat(
        num_held_, " of ", most_,
        " continuations wait, run or have answers that are not read to their ends; retry later"));
  }
  const auto it = held_by_.find(flow.id);
  const int64_t num_held = it == held_by_.end() ? 0 : it->second;
  const bool is_first = num_held == 0 && num == 1;
  if (flow.id == 0 || is_first || IsWithinShare(num_held + num, num_free - num)) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      num_held, " of your continuations wait, run or have answers that are not read to their ",
      "ends, and the rest of the ", most_, " places is kept for others; read the answers, or retry",
      " later"));
}

StreamBounds::Places StreamBounds::Take(const RequestFlow& flow, int64_t num) {
  absl::MutexLock lock(&mutex_);
  num_held_ += num;
  held_by_[flow.id] += num;
  Places places;
  places.bounds_ = shared_from_this();
  places.flow_ = flow.id;
  places.num_ = num;
  return places;
}

int64_t StreamBounds::num_held() const {
  absl::MutexLock lock(&mutex_);
  return num_held_;
}

}  // namespace quire
