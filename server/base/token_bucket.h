// TokenBucket: a rate that may be exceeded for a moment. Plain value; one thread at a time.
#pragma once

#include <algorithm>

#include "absl/time/time.h"

namespace quire {

class TokenBucket {
 public:
  TokenBucket(double per_second, double burst)
      : per_second_(per_second), burst_(burst), level_(burst) {}

  // Takes tokens, or gives some for a negative number. The debt is at most one burst.
  void Take(double tokens) { level_ = std::clamp(level_ - tokens, -burst_, burst_); }

  void Refill(absl::Time now) {
    if (now > last_refill_) Take(-per_second_ * absl::ToDoubleSeconds(now - last_refill_));
    last_refill_ = now;
  }
  bool is_in_debt() const { return level_ < 0; }
  bool is_full() const { return level_ >= burst_; }
  // When the debt will be paid, except for `allowed` of it.
  absl::Time debt_end(double allowed = 0) const {
    return last_refill_ + absl::Seconds(std::max(0.0, -level_ - allowed) / per_second_);
  }

 private:
  double per_second_;
  double burst_;
  double level_;
  absl::Time last_refill_ = absl::InfiniteFuture();  // before the first Refill
};

}  // namespace quire
