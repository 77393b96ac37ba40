// The times at which requests come: a renewal process whose gaps are gamma-distributed, as in
// vLLM's benchmark. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace quire::bench {

struct Arrivals {
  double rate = 0;        // requests per second; 0 = all at once
  double burstiness = 1;  // the gaps' shape: 1 = Poisson, less = bursts, more = even
  // "linear" or "exponential": the rate goes from ramp_start to ramp_end, from the first request to
  // the last; empty: it is `rate`.
  std::string ramp = {};
  double ramp_start = 0, ramp_end = 0;
};

// An error (exit code 64) for values that contradict each other.
absl::Status CheckArrivals(const Arrivals& arrivals);

// Seconds from the beginning, ascending: [num_requests]. The same for the same seed.
std::vector<double> DrawArrivals(const Arrivals& arrivals, int64_t num_requests, uint64_t seed);

// "8 a second (Poisson)"; "all at once".
std::string ArrivalsText(const Arrivals& arrivals);

}  // namespace quire::bench
