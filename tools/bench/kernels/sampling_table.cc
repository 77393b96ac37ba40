#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/base/status_macros.h"
#include "kernels/sampling.h"
#include "nlohmann/json.hpp"
#include "tools/bench/interrupt.h"
#include "tools/bench/kernels/op_table.h"

namespace quire::bench {

namespace {

// Normal logits: the flatter, the more tokens top-p lets through. With peaks some tokens are above
// them, as a model has them that is less or more sure.
struct Distribution {
  float deviation;
  float highest_peak = 0;  // 0: none

  bool operator==(const Distribution&) const = default;
};
constexpr Distribution kMiddling = {3}, kFlat = {1}, kUnsure = {2.5f, 18}, kPeaked = {2.5f, 24};

// The masks that rows name: of one token in two, as within a text, and of one in 1,024, as where a
// grammar leaves few choices.
constexpr int64_t kMaskSteps[] = {2, 1024};

struct Kind {
  const char* name;
  Distribution distribution;
  SamplingRow row;
};

// By distribution, so that logits are filled once for each; penalties, which change them, last.
std::vector<Kind> Kinds() {
  const SamplingRow filtered = {.top_k = 50, .top_p = 0.9f};
  const SamplingRow nucleus = {.top_p = 0.9f};
  return {{"greedy", kMiddling, {.temperature = 0}},
          {"greedy, 20 logprobs", kMiddling, {.temperature = 0, .num_logprobs = 20}},
          {"temperature", kMiddling, {}},
          {"k 50, p 0.9, middling", kMiddling, filtered},
          {"p 0.9, middling", kMiddling, nucleus},
          {"min-p 0.05", kMiddling, {.min_p = 0.05f}},
          {"greedy, mask 1 in 2", kMiddling, {.temperature = 0, .mask = 0}},
          {"greedy, mask 1 in 1024", kMiddling, {.temperature = 0, .mask = 1}},
          {"k 50, p 0.9, mask 1 in 2", kMiddling, {.top_k = 50, .top_p = 0.9f, .mask = 0}},
          {"k 50, p 0.9, mask 1 in 1024", kMiddling, {.top_k = 50, .top_p = 0.9f, .mask = 1}},
          {"k 50, p 0.9, penalties",
           kMiddling,
           {.top_k = 50, .top_p = 0.9f, .repetition_penalty = 1.1f}},
          {"k 50, p 0.9, flat", kFlat, filtered},
          {"k 1000, p 0.9, flat", kFlat, {.top_k = 1000, .top_p = 0.9f}},
          {"p 0.9, flat", kFlat, nucleus},
          {"p 0.9, unsure", kUnsure, nucleus},
          {"k 50, p 0.9, peaked", kPeaked, filtered},
          {"k 20, p 0.95, peaked", kPeaked, {.top_k = 20, .top_p = 0.95f}},
          {"p 0.9, peaked", kPeaked, nucleus}};
}

std::vector<int64_t> BatchSizes(DeviceKind device) {
  if (device == DeviceKind::kCpu) return {1, 8};
  return {1, 8, 64, 256};
}

// A kind's sampling of a batch.
struct SamplingCase {
  std::string name;
  Kind kind;
  int64_t num_rows;
};

std::vector<SamplingCase> SamplingCases(DeviceKind device, int64_t vocab_size) {
  std::vector<SamplingCase> cases;
  for (const Kind& kind : Kinds()) {
    for (const int64_t num_rows : BatchSizes(device)) {
      cases.push_back({absl::StrCat(num_rows, " x ", vocab_size, ", ", kind.name), kind, num_rows});
    }
  }
  return cases;
}

// Logits of many batches, and what sampling them needs.
class SampledLogits {
 public:
  static constexpr int64_t kRandomRows = 8;

  static absl::StatusOr<std::unique_ptr<SampledLogits>> Create(GraphTimer& timer,
                                                               int64_t vocab_size,
                                                               int64_t max_rows) {
    std::unique_ptr<SampledLogits> sampled(new SampledLogits(timer, vocab_size));
    Device& device = timer.backend().device();
    const int64_t row_bytes = vocab_size * int64_t{sizeof(float)};
    // With a tiny vocabulary there would be a great many rows.
    constexpr int64_t kEnoughRows = 4096;
    sampled->num_rows_ = RoundUp(std::min(timer.cold_bytes() / row_bytes, kEnoughRows), max_rows);
    ASSIGN_OR_RETURN(sampled->logits_, device.Allocate(sampled->num_rows_ * row_bytes));
    ASSIGN_OR_RETURN(sampled->counts_, device.Allocate(max_rows * row_bytes));
    ASSIGN_OR_RETURN(sampled->results_, device.Allocate(max_rows * (4 + 2 * kMaxLogprobs) * 4));
    timer.stream().FillZero(sampled->counts_.data(), max_rows * row_bytes);
    std::vector<uint32_t> masks;  // [kMaskSteps, MaskWords(vocab_size)]
    for (const int64_t step : kMaskSteps) {
      std::vector<uint32_t> mask(MaskWords(vocab_size));
      for (int64_t t = 0; t < vocab_size; t += step) mask[t / 32] |= uint32_t{1} << (t % 32);
      masks.insert(masks.end(), mask.begin(), mask.end());
    }
    ASSIGN_OR_RETURN(sampled->masks_, timer.Upload(masks));
    return sampled;
  }

  // Fills all rows with some rows of logits, again and again: caches know rows by their addresses.
  absl::Status Fill(Distribution distribution, uint64_t seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal(0.0f, distribution.deviation);
    const int64_t row_bytes = vocab_size_ * int64_t{sizeof(float)};
    ASSIGN_OR_RETURN(const DeviceBuffer pinned,
                     timer_.backend().device().AllocatePinned(kRandomRows * row_bytes));
    auto* logits = pinned.as<float>();
    for (int64_t i = 0; i < kRandomRows * vocab_size_; ++i) logits[i] = normal(random);
    if (distribution.highest_peak > 0) AddPeaks(logits, distribution.highest_peak);
    for (int64_t row = 0; row < num_rows_; row += kRandomRows) {
      timer_.stream().CopyToDevice(logits_.as<float>() + row * vocab_size_, logits,
                                   kRandomRows * row_bytes);
    }
    return timer_.stream().Synchronize();
  }

  absl::StatusOr<double> Us(const SamplingRow& setting, int64_t num_rows) {
    std::vector<SamplingRow> rows(num_rows, setting);
    for (int64_t i = 0; i < num_rows; ++i) {
      rows[i].row = static_cast<int32_t>(i);
      rows[i].seed = i;
    }
    ASSIGN_OR_RETURN(const DeviceBuffer device_rows, timer_.Upload(rows));
    auto* ints = results_.as<int32_t>();
    const auto num_batches = static_cast<int>(num_rows_ / num_rows);
    return timer_.MedianColdUs(
        num_rows * vocab_size_ * int64_t{sizeof(float)}, num_batches, [&](int batch) {
          timer_.backend().ops().Sample(
              timer_.stream(),
              {.logits = Tensor(logits_.as<float>() + batch * num_rows * vocab_size_, DType::kF32,
                                {num_rows, vocab_size_}),
               .rows = device_rows.as<SamplingRow>(),
               .bias = nullptr,
               .token_masks = masks_.as<uint32_t>(),
               .token_counts = counts_.as<int32_t>(),
               .row_last_token = ints,
               .sampled_ids = ints + num_rows,
               .sampled_logprobs = reinterpret_cast<float*>(ints + 2 * num_rows),
               .sampled_ranks = ints + 3 * num_rows,
               .top_ids = ints + 4 * num_rows,
               .top_logprobs = reinterpret_cast<float*>(ints + (4 + kMaxLogprobs) * num_rows)});
        });
  }

 private:
  SampledLogits(GraphTimer& timer, int64_t vocab_size) : timer_(timer), vocab_size_(vocab_size) {}

  void AddPeaks(float* logits, float highest) const {
    constexpr int kPeaks = 20;
    for (int64_t row = 0; row < kRandomRows; ++row) {
      float* peaks = logits + row * vocab_size_ + vocab_size_ / 25;
      for (int i = 0; i < kPeaks; ++i) peaks[i] = highest - static_cast<float>(i * 7 % 19);
    }
  }

  GraphTimer& timer_;
  const int64_t vocab_size_;
  int64_t num_rows_ = 0;  // of logits_
  DeviceBuffer logits_, counts_, results_, masks_;
};

absl::Status MeasureSampling(GraphTimer& timer, const TableRequest& request,
                             nlohmann::ordered_json* result) {
  const int64_t vocab_size = request.model->vocab_size;
  const DeviceKind device = timer.device_kind();
  ASSIGN_OR_RETURN(const auto sampling,
                   SampledLogits::Create(timer, vocab_size, BatchSizes(device).back()));
  PrintOpHeader("sampling, cold logits (bytes: the logits once)");
  std::optional<Distribution> filled;
  for (const SamplingCase& one : SamplingCases(device, vocab_size)) {
    if (Interrupted()) return absl::OkStatus();
    if (!absl::StrContains(one.name, request.cases)) continue;
    const Distribution& distribution = one.kind.distribution;
    if (filled != distribution) RETURN_IF_ERROR(sampling->Fill(distribution, request.seed));
    filled = distribution;
    ASSIGN_OR_RETURN(const double us, sampling->Us(one.kind.row, one.num_rows));
    const double bytes = static_cast<double>(one.num_rows * vocab_size) * sizeof(float);
    (*result)[kSamplingTable.list].push_back(
        OpRow("sample", one.name, 1, us, bytes, 0, request.limits));
    PrintOpRow((*result)[kSamplingTable.list].back());
  }
  std::printf("\n");
  return absl::OkStatus();
}

std::vector<std::string> SamplingNames(DeviceKind device, const EngineConfig&,
                                       const ModelConfig& model) {
  return NamesOf(SamplingCases(device, model.vocab_size));
}

}  // namespace

constinit const KernelTable kSamplingTable = {.name = "sampling",
                                              .about = "sampling of the model's vocabulary",
                                              .list = "sampling_table",
                                              .case_names = SamplingNames,
                                              .measure = MeasureSampling};

}  // namespace quire::bench
