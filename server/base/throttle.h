// Throttle: lets one caller through per interval, the first one at once. Any thread; no locks.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

#include "absl/time/time.h"

namespace quire {

class Throttle {
 public:
  explicit Throttle(absl::Duration interval) : interval_ns_(absl::ToInt64Nanoseconds(interval)) {}

  // Whether the caller, whose clock shows `now`, is the one of this interval.
  bool Pass(absl::Time now) {
    const int64_t now_ns = absl::ToUnixNanos(now);
    int64_t last_ns = last_ns_.load(std::memory_order_relaxed);
    // A clock that was set back must not close the gate for that long.
    const bool is_due =
        last_ns == kNever || now_ns - last_ns >= interval_ns_ || now_ns < last_ns - interval_ns_;
    return is_due && last_ns_.compare_exchange_strong(last_ns, now_ns, std::memory_order_relaxed);
  }

 private:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::min();

  const int64_t interval_ns_;
  std::atomic<int64_t> last_ns_{kNever};
};

}  // namespace quire
