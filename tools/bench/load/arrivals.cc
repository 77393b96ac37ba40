#include "tools/bench/load/arrivals.h"

#include <cmath>
#include <random>

#include "absl/strings/str_cat.h"
#include "tools/bench/failure.h"

namespace quire::bench {

namespace {

// The rate at the request that has this share of the others before it.
double RateAt(const Arrivals& arrivals, double share) {
  if (arrivals.ramp.empty()) return arrivals.rate;
  if (arrivals.ramp == "linear") {
    return arrivals.ramp_start + (arrivals.ramp_end - arrivals.ramp_start) * share;
  }
  return arrivals.ramp_start * std::pow(arrivals.ramp_end / arrivals.ramp_start, share);
}

}  // namespace

absl::Status CheckArrivals(const Arrivals& arrivals) {
  if (arrivals.ramp.empty()) {
    if (arrivals.ramp_start == 0 && arrivals.ramp_end == 0) return absl::OkStatus();
    return UsageError("--ramp-up-start-rps and --ramp-up-end-rps go with --ramp-up-strategy");
  }
  if (arrivals.rate > 0) {
    return UsageError("--request-rate: the ramp has rates of its own; leave one of them out");
  }
  if (arrivals.ramp_start > 0 && arrivals.ramp_end > 0) return absl::OkStatus();
  return UsageError("--ramp-up-strategy wants --ramp-up-start-rps and --ramp-up-end-rps");
}

std::vector<double> DrawArrivals(const Arrivals& arrivals, int64_t num_requests, uint64_t seed) {
  std::vector<double> seconds(num_requests, 0.0);
  if (arrivals.rate <= 0 && arrivals.ramp.empty()) return seconds;
  std::mt19937_64 random(seed);
  // Its mean is 1.
  std::gamma_distribution<double> gap(arrivals.burstiness, 1 / arrivals.burstiness);
  for (int64_t i = 1; i < num_requests; ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(num_requests);
    seconds[i] = seconds[i - 1] + gap(random) / RateAt(arrivals, share);
  }
  return seconds;
}

std::string ArrivalsText(const Arrivals& arrivals) {
  std::string text = "all at once";
  if (!arrivals.ramp.empty()) {
    text = absl::StrCat(arrivals.ramp_start, " to ", arrivals.ramp_end, " a second (",
                        arrivals.ramp, ")");
  } else if (arrivals.rate > 0) {
    text = absl::StrCat(arrivals.rate, " a second (");
    if (arrivals.burstiness == 1) return absl::StrCat(text, "Poisson)");
    return absl::StrCat(text, "burstiness ", arrivals.burstiness, ")");
  }
  return text;
}

}  // namespace quire::bench
