// Runs the sampling operation on rows of logits, brings back all that it wrote, and compares draws
// with distributions.
#pragma once

#include <limits>
#include <numeric>
#include <vector>

#include "kernels/base/philox.h"
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

  // `logits` is one row per SamplingRow. token_counts start as `counts`, or all zero. `masks` is
  // [num_masks, MaskWords(vocab_size)].
  SampleResult Run(const std::vector<float>& logits, const std::vector<SamplingRow>& rows,
                   const std::vector<LogitBias>& bias = {}, std::vector<int32_t> counts = {},
                   const std::vector<uint32_t>& masks = {}) {
    const auto num_rows = static_cast<int64_t>(rows.size());
    const int64_t vocab_size = static_cast<int64_t>(logits.size()) / num_rows;
    counts.resize(kMaxRows * vocab_size);
    const DeviceTensor logits_device = UploadTensor(logits, DType::kF32, {num_rows, vocab_size});
    const DeviceBuffer rows_device = Upload(rows);
    const DeviceBuffer bias_device = Upload(bias);
    const DeviceBuffer masks_device = Upload(masks);
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
                            .token_masks = masks.empty() ? nullptr : masks_device.as<uint32_t>(),
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
                             const std::vector<LogitBias>& bias = {},
                             const std::vector<uint32_t>& masks = {}) {
    std::vector<float> all;
    std::vector<SamplingRow> rows;
    for (int64_t i = 0; i < num_draws; ++i) {
      row.position = i;
      rows.push_back(row);
      all.insert(all.end(), logits.begin(), logits.end());
    }
    return Run(all, rows, bias, {}, masks).ids;
  }

  // A draw is the inverse of the cumulative distribution in token order at the row's one uniform
  // number. Both backends being held to it, they draw the same tokens. draws[i] is at position i.
  static void ExpectInverses(std::vector<double> probs, uint64_t seed,
                             const std::vector<int32_t>& draws) {
    constexpr double kRounding = 1e-5;  // of sums of weights
    std::partial_sum(probs.begin(), probs.end(), probs.begin());
    for (size_t position = 0; position < draws.size(); ++position) {
      const double uniform = UniformAt(seed, static_cast<int64_t>(position));
      const int32_t id = draws[position];
      ASSERT_GE(id, 0);
      ASSERT_GE(probs[id], uniform - kRounding) << "token " << id;
      if (id > 0) {
        ASSERT_LE(probs[id - 1], uniform + kRounding) << "token " << id;
      }
    }
  }
};

}  // namespace quire
