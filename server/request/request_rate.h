// RequestRates: how many requests per minute each principal begins. A principal may save up as many
// as it may begin in a minute. One thread at a time.
#pragma once

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"

namespace quire {

class RequestRates {
 public:
  // Counts a request of `principal` that begins at `now`, if at most `per_minute` do. Zero when it
  // is allowed, else the time until one will be.
  absl::Duration Take(const std::string& principal, int64_t per_minute, absl::Time now);

  size_t size() const { return savings_.size(); }

 private:
  struct Savings {
    double requests;  // how many may begin at once
    absl::Time as_of;
    int64_t per_minute;

    double At(absl::Time now) const;
  };

  // A principal that has not begun a request for a minute has saved up all it can, so nothing is
  // lost when it is forgotten.
  void ForgetIdle(absl::Time now);

  absl::flat_hash_map<std::string, Savings> savings_;
  absl::Time next_forgetting_ = absl::InfinitePast();
};

}  // namespace quire
