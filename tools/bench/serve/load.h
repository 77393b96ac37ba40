// Load: sends Generate calls to a server at a given rate or concurrency and records when each
// answer's tokens came. One call per request, gRPC's callback API; no thread per request.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "kernels/base/progress.h"
#include "quire/v1/inference.grpc.pb.h"
#include "tools/bench/sampling_flags.h"
#include "tools/bench/workload.h"

namespace quire::bench {

using Clock = std::chrono::steady_clock;

struct LoadOptions {
  double request_rate = 0;      // requests per second, Poisson arrivals; 0 = all at once
  int64_t max_concurrency = 0;  // 0 = unbounded
  uint64_t seed = 0;            // of the arrivals and of drawing tokens
  SamplingFlags sampling;
};

struct RequestRecord {
  bool sent = false;       // false only in an interrupted run
  bool cancelled = false;  // by us, in an interrupted run
  Clock::time_point started;
  std::vector<Clock::time_point> token_times;  // one per generated token
  Clock::time_point ended;
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t completion_tokens = 0;
  grpc::Status status;
};

// Runs the workload to its end; or, once Interrupted(), sends nothing more and cancels what runs.
// `progress`, if any, counts the requests that have ended.
std::vector<RequestRecord> RunLoad(v1::Inference::Stub& stub, const std::vector<WorkItem>& items,
                                   const LoadOptions& options, Progress* progress);

}  // namespace quire::bench
