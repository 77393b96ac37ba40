// QuantizationConfig: how each module of a checkpoint is kept. Only this class reads
// quantization_config and compression_config of config.json, hf_quant_config.json (ModelOpt),
// quantize_config.json (old GPTQ) and quant_config.json (old AWQ). Immutable; any thread.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/model/quantization/weight_scheme.h"

namespace quire {

struct QuantizationRules;

// A checkpoint's statements on its KV cache.
struct KvCacheScheme {
  bool is_float8 = false;  // e4m3, value = code * scale; a scale for a layer or each head
  // The format of a cache for which the checkpoint is made, but which is not served ("NVFP4"). A
  // cache in the model's own precision is more exact, and correct.
  std::string not_served = {};
  std::string key = {};  // its key: "config.json: quantization_config: kv_cache_scheme"

  bool operator==(const KvCacheScheme&) const = default;
};

// The texts of the files that may say how a checkpoint is quantized; empty where there is none.
struct QuantizationTexts {
  std::string config = {};           // config.json
  std::string hf_quant_config = {};  // hf_quant_config.json
  std::string quantize_config = {};  // quantize_config.json
  std::string quant_config = {};     // quant_config.json
};

// Reads the texts from a folder. INVALID_ARGUMENT if one is too long or no regular file.
absl::StatusOr<QuantizationTexts> ReadQuantizationTexts(const std::string& folder);

class QuantizationConfig {
 public:
  // The configuration of a checkpoint that is not quantized.
  QuantizationConfig();

  // A folder without any of the files is not quantized. INVALID_ARGUMENT: damaged or contradictory;
  // UNIMPLEMENTED: valid, but not supported. Both name the file and the key, and what is supported.
  static absl::StatusOr<QuantizationConfig> Load(const std::string& folder);
  static absl::StatusOr<QuantizationConfig> Parse(const QuantizationTexts& texts);

  bool quantized() const { return !method().empty(); }
  // "compressed-tensors", "fp8", "modelopt", "gptq", "awq", "auto-round", "mxfp4", or nothing.
  const std::string& method() const;
  const KvCacheScheme& kv_cache() const;

  // The scheme of a linear module, by its name in the checkpoint:
  // "model.layers.0.self_attn.q_proj". Transformers' renamed modules have other names.
  // INVALID_ARGUMENT when a pattern cannot be matched.
  absl::StatusOr<WeightScheme> Find(absl::string_view module) const;

  // The common scheme of modules that become one weight: q_proj, k_proj and v_proj.
  // INVALID_ARGUMENT, naming two of them, when they are not kept alike: then they cannot become one
  // weight.
  absl::StatusOr<WeightScheme> FindShared(absl::Span<const std::string> modules) const;

 private:
  explicit QuantizationConfig(std::shared_ptr<const QuantizationRules> rules);

  std::shared_ptr<const QuantizationRules> rules_;
};

}  // namespace quire
