#include "server/base/fuel.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace quire {

bool Fuel::Look() {
  if (state_ != State::kGoing) return false;
  if (cancelled_ != nullptr && cancelled_->load(std::memory_order_relaxed)) {
    state_ = State::kCancelled;
  } else if (num_burned_ > max_steps_) {
    state_ = State::kSpent;
  } else {
    // At the latest with the first step that is too many.
    next_look_ = num_burned_ + std::min(kStepsPerLook, max_steps_ - num_burned_ + 1);
    return true;
  }
  next_look_ = 0;
  return false;
}

absl::Status Fuel::status() const {
  switch (state_) {
    case State::kGoing:
      break;
    case State::kSpent:
      return absl::InvalidArgumentError(absl::StrCat("needs more than ", max_steps_, " steps"));
    case State::kCancelled:
      return absl::CancelledError("cancelled while its prompt was made");
  }
  return absl::OkStatus();
}

}  // namespace quire
