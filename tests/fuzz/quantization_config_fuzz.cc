// The files that say how a checkpoint is quantized: an accepted one gives every module a scheme
// whose tensors have shapes. Input: a byte that picks the file, then its text; for config.json only
// the object under quantization_config.
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/model/quantization/quantization_config.h"
#include "kernels/base/check.h"
#include "tests/fuzz/target.h"

namespace quire::fuzz {
namespace {

QuantizationTexts TextsOf(InputReader input) {
  QuantizationTexts texts;
  switch (input.TakeByte() % 4) {
    case 0:
      texts.hf_quant_config = std::string(input.rest());
      break;
    case 1:
      texts.quantize_config = std::string(input.rest());
      break;
    case 2:
      texts.quant_config = std::string(input.rest());
      break;
    default:
      texts.config = absl::StrCat("{\"quantization_config\":", std::string(input.rest()), "}");
  }
  return texts;
}

void CheckScheme(const WeightScheme& scheme) {
  CHECK(!Describe(scheme).empty());
  CHECK_GE(scheme.group_rows, 0);
  CHECK_GE(scheme.group_columns, 0);
  CHECK(scheme.bits >= 2 && scheme.bits <= 16) << scheme.bits;
  const ModuleShape shape = {256, 1024};
  if (!CheckFits(scheme, shape, "m").ok()) return;
  for (const StoredTensor& tensor : StoredTensors(scheme, shape)) {
    CHECK(!tensor.suffixes.empty() && !tensor.dtypes.empty() && !tensor.shapes.empty());
    for (const auto& dims : tensor.shapes) {
      for (const int64_t extent : dims) CHECK_GT(extent, 0);
    }
  }
}

}  // namespace

std::vector<std::string> Seeds() {
  return {
      R"(x{"quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": ["lm_head",
 "re:.*gate$"], "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4,
 "type": "int", "symmetric": false, "group_size": 128, "strategy": "group", "actorder": "group"},
 "input_activations": null}}, "kv_cache_scheme": {"num_bits": 8, "type": "float"}})",
      R"(x{"quant_method": "compressed-tensors", "config_groups": {"FP8_BLOCK": ["Linear"]}})",
      R"(x{"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128],
 "modules_to_not_convert": ["lm_head", "model.layers.*.gate"]})",
      R"(x{"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": false, "desc_act": true,
 "dynamic": {"+:.*down.*": {"bits": 8}, "-:.*gate": {}}})",
      R"(x{"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": true,
 "version": "gemm", "modules_to_not_convert": ["visual"]})",
      R"(x{"quant_method": "auto-round", "bits": 4, "group_size": 32, "sym": true,
 "packing_format": "auto_round:auto_awq", "extra_config": {"a.b": {"bits": 16}}})",
      R"(x{"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]})",
      std::string(1, '\0') + R"({"quantization": {"quant_algo": "MIXED_PRECISION",
 "quantized_layers": {"a.b": {"quant_algo": "NVFP4", "group_size": 16}}, "exclude_modules": ["*c"],
 "kv_cache_quant_algo": "FP8"}})",
      "\1{\"bits\": 8, \"group_size\": -1, \"sym\": true}",
      "\2{\"w_bit\": 4, \"q_group_size\": 64, \"version\": \"GEMM\"}"};
}

std::vector<std::string> Dictionary() {
  return {"\"quant_method\":",
          "compressed-tensors",
          "modelopt",
          "\"re:.*\"",
          "(?=",
          "{1,100}",
          "\"Linear\"",
          "\"targets\":",
          "null",
          "-1",
          "\"format\":",
          "nvfp4-pack-quantized",
          "\"quant_algo\":\"FP8\"",
          "\"strategy\":\"block\",\"block_structure\":\"128x128\","};
}

}  // namespace quire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;  // NOLINT(build/namespaces)
  const auto config = QuantizationConfig::Parse(fuzz::TextsOf({data, size}));
  if (!config.ok()) {
    CHECK(absl::IsInvalidArgument(config.status()) || absl::IsUnimplemented(config.status()))
        << config.status();
    return 0;
  }
  ++fuzz::num_accepted;
  const std::vector<std::string> modules = {"model.layers.0.self_attn.q_proj",
                                            "model.layers.11.mlp.experts.7.down_proj", "lm_head",
                                            "a.b"};
  for (const std::string& module : modules) {
    const auto scheme = config->Find(module);
    CHECK(scheme.ok() || absl::IsInvalidArgument(scheme.status())) << scheme.status();
    if (scheme.ok()) fuzz::CheckScheme(*scheme);
  }
  const auto shared = config->FindShared(modules);
  CHECK(shared.ok() || absl::IsInvalidArgument(shared.status())) << shared.status();
  return 0;
}
