#include "engine/metrics/engine_metrics.h"

#include <utility>

namespace quire {

namespace {

// vLLM's bounds, so that its rules and boards fit; those that it lacks below 10 ms are added.
const std::vector<double>& FirstTokenBuckets() {
  static const auto* buckets =
      new std::vector<double>{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
                              1,     2.5,   5,    7.5,  10,   20,   40,   80,  160,  640, 2560};
  return *buckets;
}

const std::vector<double>& TokenBuckets() {
  static const auto* buckets = new std::vector<double>{
      0.001, 0.0025, 0.005, 0.0075, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3,
      0.4,   0.5,    0.75,  1,      2.5,  5,     7.5,  10,    20,  40,   80};
  return *buckets;
}

const std::vector<double>& RequestBuckets() {
  static const auto* buckets = new std::vector<double>{
      0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
  return *buckets;
}

const std::vector<double>& StepBuckets() {
  static const auto* buckets =
      new std::vector<double>{0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02,
                              0.03,   0.05,  0.075, 0.1,   0.2,   0.5,    1,    5};
  return *buckets;
}

}  // namespace

std::vector<double> TokenCountBuckets(int64_t most) {
  std::vector<double> buckets;
  for (int64_t decade = 1; decade <= most; decade *= 10) {
    for (const int64_t bound : {decade, 2 * decade, 5 * decade}) {
      if (bound <= most) buckets.push_back(static_cast<double>(bound));
    }
  }
  return buckets;
}

EngineMetrics::EngineMetrics(int64_t max_model_len, std::vector<int32_t> num_experts)
    : time_to_first_token(FirstTokenBuckets()),
      inter_token_latency(TokenBuckets()),
      e2e_latency(RequestBuckets()),
      queue_time(RequestBuckets()),
      prefill_time(RequestBuckets()),
      decode_time(RequestBuckets()),
      inference_time(RequestBuckets()),
      time_per_output_token(TokenBuckets()),
      request_prompt_tokens(TokenCountBuckets(max_model_len)),
      request_generated_tokens(TokenCountBuckets(max_model_len)),
      request_max_tokens(TokenCountBuckets(max_model_len)),
      request_n({1, 2, 5, 10, 20}),
      request_longest(TokenCountBuckets(max_model_len)),
      step_tokens({1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}),
      step_sequences({1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}),
      step_seconds{Histogram(StepBuckets()), Histogram(StepBuckets()), Histogram(StepBuckets())},
      expert_tokens(std::move(num_experts)) {}

}  // namespace quire
