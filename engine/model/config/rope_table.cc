#include "engine/model/config/rope_table.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/host_limits.h"

namespace quire {
namespace {

// Divides slow frequencies by the factor, keeps fast ones, and blends between.
double Llama3Frequency(const RopeConfig& rope, double frequency) {
  const double turns = rope.original_max_position_embeddings * frequency / (2 * std::numbers::pi);
  if (turns > rope.high_freq_factor) return frequency;
  if (turns < rope.low_freq_factor) return frequency / rope.factor;
  const double keep =
      (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  return (1 - keep) * frequency / rope.factor + keep * frequency;
}

// Between dimensions `low` and `high` YaRN goes from the original to the divided frequency.
struct YarnRamp {
  double low;
  double high;
};

YarnRamp ComputeYarnRamp(const RopeConfig& rope) {
  // The (fractional) dimension that turns `rotations` times over the original context.
  const auto dimension = [&](double rotations) {
    return rope.rotary_dim *
           std::log(rope.original_max_position_embeddings / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(rope.theta));
  };
  YarnRamp ramp = {dimension(rope.beta_fast), dimension(rope.beta_slow)};
  if (rope.truncate) ramp = {std::floor(ramp.low), std::ceil(ramp.high)};
  ramp.low = std::max(ramp.low, 0.0);
  ramp.high = std::min(ramp.high, rope.rotary_dim - 1.0);
  if (ramp.low == ramp.high) ramp.high += 0.001;
  return ramp;
}

double YarnFrequency(const RopeConfig& rope, const YarnRamp& ramp, int32_t dimension,
                     double frequency) {
  const double divided = std::clamp((dimension - ramp.low) / (ramp.high - ramp.low), 0.0, 1.0);
  return frequency * (1 - divided) + frequency / rope.factor * divided;
}

double YarnAttentionFactor(const RopeConfig& rope) {
  const auto mscale = [&](double weight) {
    return rope.factor <= 1 ? 1.0 : 0.1 * weight * std::log(rope.factor) + 1.0;
  };
  if (rope.attention_factor) return *rope.attention_factor;
  if (rope.mscale != 0 && rope.mscale_all_dim != 0) {
    return mscale(rope.mscale) / mscale(rope.mscale_all_dim);
  }
  return mscale(1);
}

// NTK-aware scaling (as transformers' dynamic type): the base grows with the length beyond what the
// model was trained for.
double DynamicTheta(const RopeConfig& rope, int64_t max_model_len) {
  const double trained = rope.original_max_position_embeddings;
  const double length = std::max(trained, static_cast<double>(max_model_len));
  const double stretch = rope.factor * length / trained - (rope.factor - 1);
  return rope.theta * std::pow(stretch, rope.rotary_dim / (rope.rotary_dim - 2.0));
}

double LongRopeAttentionFactor(const RopeConfig& rope) {
  if (rope.attention_factor) return *rope.attention_factor;
  if (rope.factor <= 1) return 1;
  return std::sqrt(1 + std::log(rope.factor) / std::log(rope.original_max_position_embeddings));
}

}  // namespace

RopeFrequencies ComputeRopeFrequencies(const RopeConfig& rope, int64_t max_model_len) {
  const int32_t rotary_dim = rope.rotary_dim;
  RopeFrequencies result;
  result.radians_per_token.resize(rotary_dim / 2);
  const bool yarn = rope.type == RopeType::kYarn;
  const bool is_long = static_cast<double>(max_model_len) > rope.original_max_position_embeddings;
  const double theta = rope.type == RopeType::kDynamic && rotary_dim > 2
                           ? DynamicTheta(rope, max_model_len)
                           : rope.theta;
  const YarnRamp ramp = yarn ? ComputeYarnRamp(rope) : YarnRamp{};
  for (int32_t i = 0; i < rotary_dim / 2; ++i) {
    const double frequency = std::pow(theta, -2.0 * i / rotary_dim);
    double& scaled = result.radians_per_token[i];
    switch (rope.type) {
      case RopeType::kDefault:
      case RopeType::kDynamic:
        scaled = frequency;
        break;
      case RopeType::kLinear:
        scaled = frequency / rope.factor;
        break;
      case RopeType::kLlama3:
        scaled = Llama3Frequency(rope, frequency);
        break;
      case RopeType::kYarn:
        scaled = YarnFrequency(rope, ramp, i, frequency);
        break;
      case RopeType::kLongRope:
        scaled = frequency / (is_long ? rope.long_factor : rope.short_factor)[i];
        break;
      case RopeType::kProportional:
        scaled = std::pow(theta, -static_cast<double>(i) / rope.pair_distance) / rope.factor;
        break;
    }
  }
  if (yarn) result.attention_factor = YarnAttentionFactor(rope);
  if (rope.type == RopeType::kLongRope) result.attention_factor = LongRopeAttentionFactor(rope);
  return result;
}

std::string RopeStretchNote(const RopeConfig& rope, int64_t max_model_len) {
  const bool depends_on_length =
      rope.type == RopeType::kLongRope || rope.type == RopeType::kDynamic;
  const auto original = static_cast<int64_t>(rope.original_max_position_embeddings);
  if (!depends_on_length || max_model_len <= original) return "";
  const absl::string_view how = rope.type == RopeType::kLongRope ? "longrope's long factors hold"
                                                                 : "dynamic rope scaling holds";
  return absl::StrCat("the context of ", max_model_len, " tokens goes beyond the ", original,
                      " that the model was first trained for: ", how,
                      " at every position, so that short texts come out otherwise than with "
                      "--max-model-len ",
                      original);
}

void FillRopeTable(const RopeFrequencies& frequencies, int64_t num_positions, float* cos_sin) {
  const int64_t half = static_cast<int64_t>(frequencies.radians_per_token.size());
  const auto fill = [&](int64_t begin, int64_t end) {
    for (int64_t position = begin; position < end; ++position) {
      float* row = cos_sin + position * 2 * half;
      for (int64_t i = 0; i < half; ++i) {
        const double angle = position * frequencies.radians_per_token[i];
        row[i] = static_cast<float>(frequencies.attention_factor * std::cos(angle));
        row[half + i] = static_cast<float>(frequencies.attention_factor * std::sin(angle));
      }
    }
  };
  // Tables of long contexts would hold up a start: 40960 positions take one core 90 ms.
  constexpr int64_t kPositionsPerThread = 2048;
  const int64_t num_threads =
      std::clamp<int64_t>(num_positions / kPositionsPerThread, 1, NumUsableCpus());
  std::vector<std::thread> threads;
  for (int64_t t = 1; t < num_threads; ++t) {
    threads.emplace_back(fill, t * num_positions / num_threads,
                         (t + 1) * num_positions / num_threads);
  }
  fill(0, num_positions / num_threads);
  for (std::thread& thread : threads) thread.join();
}

void FillQueryScales(const RopeConfig& rope, int64_t num_positions, float* scales) {
  for (int64_t position = 0; position < num_positions; ++position) {
    const double turns = std::floor(position / rope.original_max_position_embeddings);
    scales[position] = static_cast<float>(1 + rope.query_scale_beta * std::log(1 + turns));
  }
}

}  // namespace quire
