#include "engine/model/config/routed_mlp_config.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/config/layer_configs.h"

namespace quire {
namespace {

constexpr double kLeastScale = 1e-6, kMostScale = 1e6;

// Families have one key each, and other writers another one's beside it.
int64_t ReadNumExperts(JsonReader& config, int64_t absent) {
  std::optional<int64_t> found;
  absl::string_view found_key;
  for (const absl::string_view key : {"num_experts", "num_local_experts", "n_routed_experts"}) {
    const std::optional<int64_t> number = config.Int(key, 0, RouterRule::kMaxExperts);
    if (!number) continue;
    if (found && *found != *number) {
      config.Fail(absl::StrCat(found_key, " (", *found, ") and ", key, " (", *number,
                               ") must be the same number"));
    }
    found = number;
    found_key = key;
  }
  return found.value_or(absent);
}

// What is chosen from groups of experts, by scores with a correction.
void ReadGroups(JsonReader& config, RouterRule* rule) {
  rule->num_groups =
      static_cast<int32_t>(config.Int("n_group", 1, RouterRule::kMaxGroups).value_or(1));
  rule->top_groups =
      static_cast<int32_t>(config.Int("topk_group", 1, RouterRule::kMaxGroups).value_or(1));
  rule->scale = static_cast<float>(
      config.Double("routed_scaling_factor", kLeastScale, kMostScale).value_or(1));
  if (rule->num_experts % rule->num_groups != 0) {
    config.Fail(absl::StrCat("n_routed_experts (", rule->num_experts,
                             ") must be a multiple of n_group (", rule->num_groups, ")"));
    return;
  }
  if (rule->top_groups > rule->num_groups) {
    config.Fail(absl::StrCat("topk_group (", rule->top_groups, ") must be at most n_group (",
                             rule->num_groups, ")"));
  }
  const int32_t group_size = rule->num_experts / rule->num_groups;
  if (rule->num_groups > 1 && group_size < 2) {
    config.Fail(absl::StrCat("n_group (", rule->num_groups,
                             ") leaves groups of one expert; they must have two at least"));
  }
  if (rule->num_groups > 1) rule->group_score = GroupScore::kTwoBestSum;
  if (rule->top_k > rule->top_groups * group_size) {
    config.Fail(absl::StrCat("num_experts_per_tok (", rule->top_k, ") must be at most the ",
                             rule->top_groups * group_size, " experts of topk_group (",
                             rule->top_groups, ") groups"));
  }
}

RouterRule ReadRule(JsonReader& config, const RoutedFamily& family, int64_t num_experts) {
  RouterRule rule;
  rule.num_experts = static_cast<int32_t>(num_experts);
  rule.top_k = static_cast<int32_t>(
      config.Int("num_experts_per_tok", 1, RouterRule::kMaxTopK).value_or(family.top_k));
  rule.renormalise =
      !family.norm_topk_prob || config.Bool("norm_topk_prob").value_or(*family.norm_topk_prob);
  const bool is_glm = family.names == ExpertNames::kGlm;
  if (is_glm) rule.score = RouterScore::kSigmoid;
  const char* const score = is_glm ? "sigmoid" : "softmax";
  if (const auto named = config.String("scoring_func"); named && *named != score) {
    config.FailUnsupported(
        absl::StrCat("scoring_func ", Shown(*named), " is not supported; supported is ", score));
  }
  if (rule.top_k > rule.num_experts) {
    config.Fail(absl::StrCat("num_experts_per_tok (", rule.top_k,
                             ") must be at most the number of experts (", rule.num_experts, ")"));
  } else if (is_glm) {
    ReadGroups(config, &rule);
  }
  return rule;
}

// The width of the expert that all tokens have, or 0.
int64_t ReadSharedSize(JsonReader& config, const RoutedFamily& family, int64_t intermediate_size) {
  if (family.names == ExpertNames::kGlm) {
    return intermediate_size *
           config.Int("n_shared_experts", 0, RouterRule::kMaxExperts).value_or(1);
  }
  if (family.shared_intermediate_size == 0) return 0;
  return config.Int("shared_expert_intermediate_size", 1, kMaxHiddenSize)
      .value_or(family.shared_intermediate_size);
}

// Which layers have a plain MLP: GLM's first ones; Qwen's that the config names, and all of Qwen's
// except every n-th.
std::vector<bool> ReadDenseLayers(JsonReader& config, const RoutedFamily& family,
                                  int64_t num_layers) {
  std::vector<bool> is_dense(num_layers, false);
  if (family.names == ExpertNames::kGlm) {
    const int64_t first = config.Int("first_k_dense_replace", 0, num_layers)
                              .value_or(std::min<int64_t>(1, num_layers));
    std::fill_n(is_dense.begin(), first, true);
  } else if (family.names == ExpertNames::kQwen) {
    const int64_t step = config.Int("decoder_sparse_step", 1, kMaxLayers).value_or(1);
    for (int64_t i = 0; i < num_layers; ++i) is_dense[i] = (i + 1) % step != 0;
    for (const int64_t i : config.IntOrIntList("mlp_only_layers", 0, num_layers - 1)) {
      is_dense[i] = true;
    }
  }
  return is_dense;
}

// That the activation is the one of the family's code.
void CheckClamp(JsonReader& config) {
  constexpr double kLimit = 7;
  const double limit = config.Double("swiglu_limit", 0, kMostScale).value_or(kLimit);
  if (limit != kLimit) {
    config.FailUnsupported(
        absl::StrCat("swiglu_limit ", limit, " is not supported; supported is 7"));
  }
}

}  // namespace

void ReadRoutedMlps(JsonReader& config, const ModelFamily& family, ModelConfig* model) {
  const RoutedFamily& routed = family.routed;
  model->expert_names = routed.names;
  const bool is_gpt_oss = routed.names == ExpertNames::kGptOss;
  if (is_gpt_oss) CheckClamp(config);
  if (routed.names == ExpertNames::kGlm) {
    model->num_draft_layers = config.Int("num_nextn_predict_layers", 0, kMaxLayers).value_or(1);
  }
  const int64_t num_experts = ReadNumExperts(config, routed.num_experts);
  if (num_experts == 0 && routed.names == ExpertNames::kQwen)
    return;  // as the family's code has it
  if (num_experts < kMinExperts) {
    config.Fail(absl::StrCat("the number of experts is ", num_experts, "; it must be at least ",
                             kMinExperts));
    return;
  }
  RoutedMlpConfig mlp;
  mlp.router = ReadRule(config, routed, num_experts);
  mlp.router_bias = mlp.expert_bias = is_gpt_oss;
  mlp.router_correction = routed.names == ExpertNames::kGlm;
  // Where there is no other width, layers have read it.
  mlp.intermediate_size = routed.intermediate_size == 0
                              ? model->layers.front().intermediate_size
                              : config.Int("moe_intermediate_size", 1, kMaxHiddenSize)
                                    .value_or(routed.intermediate_size);
  mlp.shared_intermediate_size = ReadSharedSize(config, routed, mlp.intermediate_size);
  mlp.shared_gate = routed.names == ExpertNames::kQwen && mlp.shared_intermediate_size > 0;
  const auto num_layers = static_cast<int64_t>(model->layers.size());
  const std::vector<bool> is_dense = ReadDenseLayers(config, routed, num_layers);
  for (int64_t i = 0; i < num_layers; ++i) {
    if (is_dense[i]) continue;
    LayerConfig& layer = model->layers[i];
    layer.mlp = MlpKind::kRouted;
    layer.intermediate_size = 0;
    layer.routed = mlp;
  }
}

}  // namespace quire
