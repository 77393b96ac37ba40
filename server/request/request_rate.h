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
  // Counts a request of `principal` that begins at `now`, of at most `per_minute`. Zero when it is
  // allowed, else how long until one will be.
  absl::Duration Take(const std::string& principal, int64_t per_minute, absl::Time now);

  size_t size() const { return savings_.size(); }

 private:
  struct Savings {
    double requests;  // what may begin at once
    absl::Time as_of;
    int64_t per_minute;

    double At(absl::Time now) const;
  };

  // Those who have not begun a request for a minute have saved up all they can: nothing is lost
  // when they are forgotten.
  void ForgetIdle(absl::Time now);

  absl::flat_hash_map<std::string, Savings> savings_;
  absl::Time next_forgetting_ = absl::InfinitePast();
};

}  // namespace quire
