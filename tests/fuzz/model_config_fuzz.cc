// config.json: an accepted configuration is consistent, and rotary frequencies come out of it as
// finite numbers. Input: the file.
#include <cmath>

#include "engine/model/config/model_config.h"
#include "engine/model/config/rope_table.h"
#include "kernels/base/check.h"
#include "tests/engine/checkpoint/test_files.h"
#include "tests/fuzz/target.h"

namespace quire::fuzz {
namespace {

void CheckShapes(const ModelConfig& config) {
  CHECK_GT(config.vocab_size, 0);
  CHECK_GT(config.hidden_size, 0);
  CHECK(!config.layers.empty());
  CHECK_GT(config.max_position_embeddings, 0);
  for (const LayerConfig& layer : config.layers) {
    if (layer.mlp != MlpKind::kGated) {
      const RouterRule& rule = layer.routed.router;
      CHECK_GT(layer.routed.intermediate_size, 0);
      CHECK_EQ(rule.num_experts % rule.num_groups, 0);
      CHECK(rule.top_k > 0 && rule.top_groups <= rule.num_groups);
      CHECK_LE(rule.top_k, rule.num_experts / rule.num_groups * rule.top_groups);
    }
    if (layer.mlp != MlpKind::kRouted) CHECK_GT(layer.intermediate_size, 0);
    if (layer.attention != AttentionKind::kGqa) continue;
    CHECK_GT(layer.gqa.num_kv_heads, 0);
    CHECK_EQ(layer.gqa.num_q_heads % layer.gqa.num_kv_heads, 0);
    CHECK_GT(layer.gqa.head_dim, 0);
    CHECK_GE(layer.gqa.sliding_window, 0);
    CHECK(layer.gqa.rope >= -1 && layer.gqa.rope < static_cast<int32_t>(config.ropes.size()));
  }
  for (const TokenId id : config.eos_token_ids) {
    CHECK(id >= 0 && id < config.vocab_size) << "end token " << id;
  }
}

void CheckRope(const ModelConfig& config, const RopeConfig& rope) {
  const int32_t rotary_dim = rope.rotary_dim;
  CHECK(rotary_dim > 0 && rotary_dim % 2 == 0) << rotary_dim;
  const bool neighbours = rope.pair_distance == 1;
  CHECK(neighbours || rope.pair_distance >= rotary_dim / 2) << rope.pair_distance;
  CHECK_LE((neighbours ? rotary_dim / 2 : rope.pair_distance) + rotary_dim / 2, MaxHeadDim(config));
  const RopeFrequencies frequencies = ComputeRopeFrequencies(rope, MaxSequenceLength(config));
  CHECK_EQ(frequencies.radians_per_token.size(), static_cast<size_t>(rotary_dim / 2));
  CHECK(std::isfinite(frequencies.attention_factor));
  for (const double radians : frequencies.radians_per_token) CHECK(std::isfinite(radians));
}

}  // namespace

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds = {ReadWholeFile("configs/demo/config.json")};
  for (const char* model :
       {"qwen2_window_tied", "qwen3_yarn", "llama3_rope_biases_tied",
        "llama_linear_rope_f16_sharded", "mistral_window_head_dim_v4", "mistral3_text_part",
        "qwen2_5_vl_text_part_v4", "qwen35_conditional", "gemma4_e_kind", "gemma4_31b_kind",
        "gemma4_26b_kind", "ministral3_query_scales", "qwen3_moe_renormalised", "glm4_moe_groups",
        "gpt_oss_mxfp4"}) {
    seeds.push_back(
        ReadWholeFile(std::string("tests/engine/model/golden/") + model + "/config.json"));
  }
  return seeds;
}

std::vector<std::string> Dictionary() {
  return {"\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4.0},",
          "\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8.0},",
          "\"rope_parameters\":{\"rope_type\":\"linear\",\"factor\":2},",
          "\"partial_rotary_factor\":0.5,",
          "\"layer_types\":[\"sliding_attention\"],",
          "\"sliding_window\":null,",
          "\"head_dim\":null,",
          "\"num_key_value_heads\":null,",
          "\"eos_token_id\":[1,2],",
          "\"vocab_size\":1,",
          "\"quantization_config\":{\"quant_method\":\"gptq\"},",
          "\"num_kv_shared_layers\":1,",
          "\"per_layer_config\":{\"0\":{\"head_dim\":32}},",
          "\"text_config\":{\"model_type\":\"gemma3_text\"},",
          "\"num_experts\":8,\"num_experts_per_tok\":2,",
          "\"n_group\":2,\"topk_group\":1,",
          "Glm4MoeForCausalLM",
          "LlamaForCausalLM",
          "Gemma3ForConditionalGeneration",
          "MistralForCausalLM"};
}

}  // namespace quire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;  // NOLINT(build/namespaces)
  const absl::StatusOr<ModelConfig> config =
      ParseModelConfig({reinterpret_cast<const char*>(data), size});
  if (!config.ok()) {
    CHECK(absl::IsInvalidArgument(config.status()) || absl::IsUnimplemented(config.status()))
        << config.status();
    return 0;
  }
  ++fuzz::num_accepted;
  fuzz::CheckShapes(*config);
  for (const RopeConfig& rope : config->ropes) fuzz::CheckRope(*config, rope);
  return 0;
}
