// StartClock: how long each stage of a start took, one after the other. One thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "kernels/base/clock.h"

namespace quire {

using StartStages = std::vector<std::pair<std::string, absl::Duration>>;  // name, length

class StartClock {
 public:
  explicit StartClock(absl::Time begin = MonotonicNow()) : last_(begin) {}

  // The time since the last stage ended was `name`.
  void End(std::string name) {
    const absl::Time now = MonotonicNow();
    stages_.emplace_back(std::move(name), now - last_);
    last_ = now;
  }
  // The same for several stages, measured elsewhere in the meantime.
  void End(const StartStages& stages) {
    stages_.insert(stages_.end(), stages.begin(), stages.end());
    last_ = MonotonicNow();
  }

  const StartStages& stages() const { return stages_; }

  // "0.85 s: program 0.031, device 0.310, weights 0.450": the sum and each stage, in seconds.
  std::string ToString() const {
    absl::Duration sum;
    std::string list;
    for (const auto& [name, length] : stages_) {
      sum += length;
      absl::StrAppendFormat(&list, "%s%s %.3f", list.empty() ? "" : ", ", name,
                            absl::ToDoubleSeconds(length));
    }
    return absl::StrFormat("%.3f s: %s", absl::ToDoubleSeconds(sum), list);
  }

 private:
  absl::Time last_;
  StartStages stages_;
};

}  // namespace quire
