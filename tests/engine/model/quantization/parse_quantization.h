// A quantization_config as a test has it, parsed; what is wrong with it fails the test.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/model/quantization/quantization_config.h"

namespace quire {

inline constexpr char kQ[] = "model.layers.0.self_attn.q_proj";

inline absl::StatusOr<QuantizationConfig> TryParse(const nlohmann::json& quantization) {
  return QuantizationConfig::Parse(
      {.config = nlohmann::json{{"quantization_config", quantization}}.dump()});
}

inline QuantizationConfig Checked(const absl::StatusOr<QuantizationConfig>& config) {
  EXPECT_TRUE(config.ok()) << config.status();
  return config.value_or(QuantizationConfig());
}

inline QuantizationConfig Parse(const nlohmann::json& quantization) {
  return Checked(TryParse(quantization));
}

inline WeightScheme Find(const QuantizationConfig& config, absl::string_view module = kQ) {
  const auto scheme = config.Find(module);
  EXPECT_TRUE(scheme.ok()) << scheme.status();
  return scheme.value_or(WeightScheme());
}

}  // namespace quire
