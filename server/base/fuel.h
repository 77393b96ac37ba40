// Fuel: how much work a request may still cause before it has tokens, and whether anybody still
// waits for it. Every parser, template and tokenizer that works on a request burns fuel as it goes.
// Once there is none, it gives up, whatever it has by then. So a request costs in proportion to its
// size, and an abandoned one stops within a few microseconds. One request, one thread; only the
// flag may be set by others.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"

namespace quire {

class Fuel {
 public:
  static constexpr size_t kUnlimited = SIZE_MAX;

  // `num_steps`: each is 10 to 100 ns of a core. Setting `cancelled`, which must live as long as
  // the fuel, ends the work.
  explicit Fuel(size_t num_steps, const std::atomic<bool>* cancelled = nullptr)
      : max_steps_(num_steps), cancelled_(cancelled) {}
  Fuel(const Fuel&) = delete;
  Fuel& operator=(const Fuel&) = delete;

  // Spends steps before they are made. Once false, always false.
  bool Burn(size_t steps) {
    if (__builtin_add_overflow(num_burned_, steps, &num_burned_)) num_burned_ = kUnlimited;
    return num_burned_ < next_look_ || Look();
  }

  bool ok() const { return state_ == State::kGoing; }
  // The reason, once Burn has returned false: CANCELLED, or INVALID_ARGUMENT for too much work,
  // since the same request would fail again.
  absl::Status status() const;

  size_t num_burned() const { return num_burned_; }

 private:
  enum class State : uint8_t { kGoing, kSpent, kCancelled };
  // Between two looks at the flag.
  static constexpr size_t kStepsPerLook = 1024;

  bool Look();

  const size_t max_steps_;
  const std::atomic<bool>* const cancelled_;
  size_t num_burned_ = 0;
  size_t next_look_ = 0;
  State state_ = State::kGoing;
};

}  // namespace quire
