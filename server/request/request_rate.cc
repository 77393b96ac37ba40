#include "server/request/request_rate.h"

#include <algorithm>

namespace quire {

double RequestRates::Savings::At(absl::Time now) const {
  const double minutes = std::max(0.0, absl::FDivDuration(now - as_of, absl::Minutes(1)));
  const auto most = static_cast<double>(per_minute);
  return std::min(most, requests + minutes * most);
}

absl::Duration RequestRates::Take(const std::string& principal, int64_t per_minute,
                                  absl::Time now) {
  ForgetIdle(now);
  const auto most = static_cast<double>(per_minute);
  Savings& savings = savings_.try_emplace(principal, Savings{most, now, per_minute}).first->second;
  savings.per_minute = per_minute;  // the key file may have changed it
  savings.requests = savings.At(now);
  savings.as_of = std::max(savings.as_of, now);
  if (savings.requests < 1) return absl::Minutes((1 - savings.requests) / most);
  savings.requests -= 1;
  return absl::ZeroDuration();
}

void RequestRates::ForgetIdle(absl::Time now) {
  if (now < next_forgetting_) return;
  next_forgetting_ = now + absl::Minutes(1);
  absl::erase_if(savings_, [now](const auto& entry) {
    return entry.second.At(now) >= static_cast<double>(entry.second.per_minute);
  });
}

}  // namespace quire
