// Runs the sampling operation on rows of logits and brings back all that it wrote.
#pragma once

#include <limits>
#include <vector>

#include "kernels/sampling.h"
#include "tests/kernels/kernel_test.h"

namespace quire {

struct SampleResult {
  std::vector<int32_t> ids, ranks, top_ids, counts, last_tokens;
  std::vector<float> logprobs, top_logprobs;
};

class SamplerFixture : public KernelTest {
 protected:
  static constexpr int64_t kMaxRows = 4;  // persistent rows

  // `logits` is one row per SamplingRow. token_counts start as `counts`, or all zero.
  SampleResult Run(const std::vector<float>& logits, const std::vector<SamplingRow>& rows,
                   const std::vector<LogitBias>& bias = {}, std::vector<int32_t> counts = {}) {
    const auto num_rows = static_cast<int64_t>(rows.size());
    const int64_t vocab_size = static_cast<int64_t>(logits.size()) / num_rows;
    counts.resize(kMaxRows * vocab_size);
    const DeviceTensor logits_device = UploadTensor(logits, DType::kF32, {num_rows, vocab_size});
    const DeviceBuffer rows_device = Upload(rows);
    const DeviceBuffer bias_device = Upload(bias);
    const DeviceBuffer counts_device = Upload(counts);
    const DeviceBuffer last_device = Upload(std::vector<int32_t>(kMaxRows, -7));
    const DeviceBuffer ids = Upload(std::vector<int32_t>(num_rows, -7));
    const DeviceBuffer logprobs =
        Upload(std::vector<float>(num_rows, std::numeric_limits<float>::quiet_NaN()));
    const DeviceBuffer ranks = Upload(std::vector<int32_t>(num_rows, -7));
    const DeviceBuffer top_ids = Upload(std::vector<int32_t>(num_rows * kMaxLogprobs, -7));
    const DeviceBuffer top_logprobs = Upload(
        std::vector<float>(num_rows * kMaxLogprobs, std::numeric_limits<float>::quiet_NaN()));
    ops().Sample(stream(), {.logits = logits_device.tensor,
                            .rows = rows_device.as<SamplingRow>(),
                            .bias = bias_device.as<LogitBias>(),
                            .token_counts = counts_device.as<int32_t>(),
                            .row_last_token = last_device.as<int32_t>(),
                            .sampled_ids = ids.as<int32_t>(),
                            .sampled_logprobs = logprobs.as<float>(),
                            .sampled_ranks = ranks.as<int32_t>(),
                            .top_ids = top_ids.as<int32_t>(),
                            .top_logprobs = top_logprobs.as<float>()});
    return {.ids = Download<int32_t>(ids.data(), num_rows),
            .ranks = Download<int32_t>(ranks.data(), num_rows),
            .top_ids = Download<int32_t>(top_ids.data(), num_rows * kMaxLogprobs),
            .counts = Download<int32_t>(counts_device.data(), kMaxRows * vocab_size),
            .last_tokens = Download<int32_t>(last_device.data(), kMaxRows),
            .logprobs = Download<float>(logprobs.data(), num_rows),
            .top_logprobs = Download<float>(top_logprobs.data(), num_rows * kMaxLogprobs)};
  }

  // The ids drawn from one row of logits at positions 0 .. num_draws - 1.
  std::vector<int32_t> Draws(const std::vector<float>& logits, SamplingRow row, int64_t num_draws,
                             const std::vector<LogitBias>& bias = {}) {
    std::vector<float> all;
    std::vector<SamplingRow> rows;
    for (int64_t i = 0; i < num_draws; ++i) {
      row.position = i;
      rows.push_back(row);
      all.insert(all.end(), logits.begin(), logits.end());
    }
    return Run(all, rows, bias).ids;
  }
};

}  // namespace quire
