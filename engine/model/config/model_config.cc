#include "engine/model/config/model_config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/model_folder.h"
#include "engine/checkpoint/text_part.h"
#include "engine/json/json_reader.h"
#include "engine/json/model_file.h"
#include "engine/model/config/layer_configs.h"
#include "engine/model/config/model_family.h"
#include "engine/model/config/rope_config.h"
#include "kernels/base/status_macros.h"
#include "kernels/sampling.h"

namespace quire {
namespace {

// By the first architecture that is supported, else by model_type; nullptr, with the reason in the
// reader's status, when there is none.
const ModelFamily* ReadFamily(JsonReader& config) {
  const std::vector<std::string> architectures = config.StringList("architectures");
  const std::string model_type = config.String("model_type").value_or("");
  for (const std::string& name : architectures) {
    if (const ModelFamily* family = FindFamilyByArchitecture(name)) return family;
  }
  const ModelFamily* family = architectures.empty() ? FindFamilyByModelType(model_type) : nullptr;
  if (family == nullptr) {
    const absl::string_view other_purpose = OtherPurpose(architectures, model_type);
    config.FailUnsupported(absl::StrCat("architectures ", Shown(nlohmann::json(architectures)),
                                        ", model_type ", Shown(model_type), ": ",
                                        other_purpose.empty() ? "not supported" : other_purpose,
                                        "; supported are ", SupportedArchitectures()));
  }
  return family;
}

// Where config.json has the keys of the text model, and a few that may stand elsewhere.
struct TextReader {
  const ModelFamily* family;
  JsonReader top;
  std::optional<JsonReader> part;  // text_config, of a model of several parts

  JsonReader& keys() { return part ? *part : top; }
  // What has a value for the key: the text part's own object, else the top.
  JsonReader& Of(absl::string_view key) {
    return keys().Find(key) == nullptr && top.Find(key) != nullptr ? top : keys();
  }
};

// With the reason in the status where there is no text part, or one of another kind. `family` is
// the first of its architecture; what it becomes is that of the text part's type.
TextReader FindText(const JsonReader& top, const ModelFamily& family) {
  TextReader text = {.family = &family, .top = top, .part = std::nullopt};
  if (family.text_model_type.empty()) return text;
  if (text.top.Find("text_config") == nullptr) {
    if (!family.text_keys_at_top) {
      text.top.Fail(absl::StrCat("text_config is missing, which has the keys of ",
                                 family.architecture, "'s text part: download the file again"));
    }
    return text;
  }
  text.part = text.top.Object("text_config");
  if (!text.part) return text;
  const std::string type =
      text.part->String("model_type").value_or(std::string(family.text_model_type));
  const ModelFamily* found = FindFamilyByTextType(family.architecture, type);
  if (found == nullptr) {
    text.part->FailUnsupported(
        absl::StrCat("model_type ", Shown(type), " is not supported in ", family.architecture,
                     "; supported: ", SupportedTextTypes(family.architecture)));
    return text;
  }
  text.family = found;
  return text;
}

// Whether the head is the embedding. The top's key counts in models of several parts, too. Where
// the text part's contradicts it, as in files that transformers wrote of models whose class has
// another default, the weights tell: `folder` may be null.
bool ReadTie(TextReader& text, const ModelFamily& family, const std::string* folder) {
  constexpr absl::string_view kKey = "tie_word_embeddings";
  const std::optional<bool> top = text.top.Bool(kKey);
  const std::optional<bool> part = text.part ? text.part->Bool(kKey) : std::nullopt;
  if (top && part && *top != *part && folder != nullptr) return !HasHead(*folder);
  if (top) return *top;
  return part.value_or(family.tie_word_embeddings);
}

// A model of several parts may say of which: "vision" are not text, "all" are.
bool AttendsBothWays(JsonReader& config) {
  constexpr absl::string_view kKey = "use_bidirectional_attention";
  const nlohmann::json* value = config.Find(kKey);
  if (value != nullptr && value->is_string() && *value == "vision") return false;
  if (value != nullptr && value->is_string() && *value == "all") return true;
  return config.Bool(kKey).value_or(false);
}

// Refuses models that read text in both directions, or another text beside it: they do not write
// text.
void RefuseOtherAttention(JsonReader& config) {
  if (AttendsBothWays(config) || !config.Bool("is_causal").value_or(true)) {
    config.FailUnsupported(
        "attention in both directions (use_bidirectional_attention, is_causal): this is an "
        "embedding model, and /v1/embeddings is not there yet; name a model that generates text");
  }
  for (const absl::string_view key : {"is_encoder_decoder", "add_cross_attention"}) {
    if (!config.Bool(key).value_or(false)) continue;
    config.FailUnsupported(absl::StrCat(key, " is true, which is not supported"));
  }
}

void ReadShapes(JsonReader& config, const ModelFamily& family, ModelConfig* model) {
  model->vocab_size = config.Int("vocab_size", 1, kMaxVocabSize).value_or(family.vocab_size);
  model->hidden_size = config.Int("hidden_size", 1, kMaxHiddenSize).value_or(family.hidden_size);
  model->max_position_embeddings = config.Int("max_position_embeddings", 1, kMaxPositions)
                                       .value_or(family.max_position_embeddings);
}

void ReadBlock(JsonReader& config, const ModelFamily& family, ModelConfig* model) {
  const bool is_layer_norm = family.norm == NormKind::kLayer;
  model->norm_eps = config.Double(is_layer_norm ? "layer_norm_eps" : "rms_norm_eps", 0, 1)
                        .value_or(family.norm_eps);
  model->qkv_bias = family.attention_bias;
  if (family.has_attention_bias) {
    model->qkv_bias = config.Bool("attention_bias").value_or(family.attention_bias);
  }
  if (family.has_qkv_bias) model->qkv_bias = config.Bool("qkv_bias").value_or(true);
  model->o_bias = family.out_bias == OutBias::kAsOthers && model->qkv_bias;
  if (family.out_bias == OutBias::kOwnKey) {
    model->o_bias = config.Bool("attention_out_bias").value_or(false);
  }
  model->mlp_bias = family.has_mlp_bias && config.Bool("mlp_bias").value_or(false);
  model->qk_norm = family.qk_norm;
  if (family.has_use_qk_norm && !config.Bool("use_qk_norm").value_or(false)) {
    model->qk_norm = HeadNorm::kNone;
  }
  model->attention_sinks = family.attention_sinks;
  model->v_norm = family.v_norm;
  model->block_order = family.block_order;
  model->sandwich_names = family.sandwich_names;
  model->norm = family.norm;
  model->layer_scalars = family.layer_scalars;
  model->fused_checkpoint = family.fused_checkpoint;
  model->shared_mlp = family.shared_mlp;
  model->positions_are_stretched = family.positions_are_stretched;
  const bool usually_gelu = family.activation == Activation::kGeluTanh;
  const absl::string_view key = usually_gelu ? "hidden_activation" : "hidden_act";
  const std::string activation =
      config.String(key).value_or(usually_gelu ? "gelu_pytorch_tanh" : "silu");
  model->activation =
      family.activation == Activation::kClampedSwish ? family.activation : Activation::kSilu;
  if (activation == "gelu_pytorch_tanh") {
    model->activation = Activation::kGeluTanh;
  } else if (activation != "silu" && activation != "swish") {
    config.FailUnsupported(absl::StrCat(key, " ", Shown(activation),
                                        " is not supported; supported are silu and "
                                        "gelu_pytorch_tanh"));
  }
}

// A soft cap that is present as null is off, whatever the family's default.
float ReadSoftCap(JsonReader& config, absl::string_view key, std::optional<double> family_default) {
  constexpr double kLeastCap = 1e-3, kMaxCap = 1e6;
  const double absent = config.Has(key) ? 0 : family_default.value_or(0);
  return static_cast<float>(config.Double(key, kLeastCap, kMaxCap).value_or(absent));
}

float ReadAttentionScale(JsonReader& config, const ModelFamily& family, const ModelConfig& model) {
  constexpr double kMaxScalar = 1e6;
  if (family.attention_scale) return static_cast<float>(*family.attention_scale);
  double query_scalar = MaxHeadDim(model);
  if (family.query_pre_attn_scalar) {
    query_scalar = config.Double("query_pre_attn_scalar", 1e-3, kMaxScalar)
                       .value_or(*family.query_pre_attn_scalar);
  }
  return static_cast<float>(1 / std::sqrt(query_scalar));
}

constexpr double kLeastMultiplier = 1e-6, kMostMultiplier = 1e6;

void ReadMultipliers(JsonReader& config, ModelConfig* model) {
  const auto factor = [](const std::optional<double>& value) {
    return static_cast<float>(value.value_or(1));
  };
  model->embedding_scale =
      factor(config.Double("embedding_multiplier", kLeastMultiplier, kMostMultiplier));
  model->attention_scale =
      factor(config.Double("attention_multiplier", kLeastMultiplier, kMostMultiplier));
  model->residual_scale =
      factor(config.Double("residual_multiplier", kLeastMultiplier, kMostMultiplier));
  model->logit_scale =
      1 / factor(config.Double("logits_scaling", kLeastMultiplier, kMostMultiplier));
}

void ReadScales(JsonReader& config, const ModelFamily& family, ModelConfig* model) {
  model->attention_scale = ReadAttentionScale(config, family, *model);
  if (family.has_multipliers) ReadMultipliers(config, model);
  if (family.logit_scale) {
    model->logit_scale =
        static_cast<float>(config.Double("logit_scale", kLeastMultiplier, kMostMultiplier)
                               .value_or(*family.logit_scale));
  }
  if (family.has_soft_caps) {
    model->attention_soft_cap =
        ReadSoftCap(config, "attn_logit_softcapping", family.attention_soft_cap);
    model->logit_soft_cap = ReadSoftCap(config, "final_logit_softcapping", family.logit_soft_cap);
  }
  if (family.scales_embedding) {
    model->embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(model->hidden_size)));
  }
}

void ReadTokens(TextReader& text, const ModelFamily& family, ModelConfig* model) {
  const int64_t max_id = model->vocab_size - 1;
  JsonReader& eos = text.Of("eos_token_id");
  for (int64_t id : eos.IntOrIntList("eos_token_id", 0, max_id)) {
    model->eos_token_ids.push_back(static_cast<TokenId>(id));
  }
  // The family's own tokens belong to a vocabulary that may be larger than this one.
  const auto is_there = [max_id](std::optional<TokenId> id) { return id && *id <= max_id; };
  for (const std::optional<TokenId> id : family.eos_token_ids) {
    if (!eos.Has("eos_token_id") && is_there(id)) model->eos_token_ids.push_back(*id);
  }
  JsonReader& bos = text.Of("bos_token_id");
  model->bos_token_id = bos.Int("bos_token_id", 0, max_id);
  if (!bos.Has("bos_token_id") && is_there(family.bos_token_id)) {
    model->bos_token_id = family.bos_token_id;
  }
}

// Nothing where the file does not say it.
std::optional<DType> ReadDType(TextReader& text) {
  const bool part_has_one =
      text.keys().Find("dtype") != nullptr || text.keys().Find("torch_dtype") != nullptr;
  JsonReader& config = part_has_one ? text.keys() : text.top;
  const absl::string_view key = config.Find("dtype") != nullptr ? "dtype" : "torch_dtype";
  const std::optional<std::string> name = config.String(key);
  if (!name) return std::nullopt;
  const std::optional<DType> dtype = ParseDType(*name);
  if (!dtype) {
    config.FailUnsupported(absl::StrCat(
        key, " ", Shown(*name), " is not supported; supported are bfloat16, float16, float32"));
  }
  return dtype;
}

// `folder` has the weights, which say what the file does not; it may be null.
absl::StatusOr<ModelConfig> Parse(absl::string_view json, const std::string* folder) {
  constexpr char kName[] = "config.json";
  ASSIGN_OR_RETURN(const nlohmann::json root, ParseModelJson(json, kName));
  absl::Status status;
  JsonReader top(root, kName, &status);
  const ModelFamily* first = ReadFamily(top);
  if (!status.ok()) return status;
  TextReader text = FindText(top, *first);
  if (!status.ok()) return status;
  const ModelFamily* family = text.family;
  JsonReader& config = text.keys();

  ModelConfig model;
  model.architecture = std::string(family->architecture);
  model.model_type = std::string(family->model_type);
  RefuseOtherAttention(config);
  ReadShapes(config, *family, &model);
  ReadLayerConfigs(config, *family, &model);
  ReadBlock(config, *family, &model);
  model.tie_word_embeddings = ReadTie(text, *family, folder);
  ReadScales(config, *family, &model);
  ReadRopeConfigs(config, *family, &model);
  ReadTokens(text, *family, &model);
  std::optional<DType> dtype = ReadDType(text);
  if (!status.ok()) return status;

  if (!dtype && folder != nullptr) dtype = DTypeOfWeights(*folder);
  model.dtype = dtype.value_or(DType::kF32);
  return model;
}

}  // namespace

absl::StatusOr<ModelConfig> ParseModelConfig(absl::string_view json) {
  ASSIGN_OR_RETURN(ModelConfig model, Parse(json, nullptr));
  ASSIGN_OR_RETURN(model.quantization, QuantizationConfig::Parse({.config = std::string(json)}));
  return model;
}

absl::StatusOr<ModelConfig> LoadModelConfig(const std::string& folder) {
  absl::StatusOr<std::string> text = ReadModelFile(folder, "config.json", kMaxConfigBytes);
  if (absl::IsNotFound(text.status())) {
    return absl::NotFoundError(absl::StrCat(
        folder,
        "/config.json not found; pass a Hugging Face model folder (config.json, model.safetensors, "
        "tokenizer.json)"));
  }
  RETURN_IF_ERROR(text.status());
  if (const auto embedding = ExplainEmbeddingModel(FileNames(folder))) {
    return absl::UnimplementedError(absl::StrCat(folder, " ", *embedding));
  }
  ASSIGN_OR_RETURN(ModelConfig model, Parse(*text, &folder));
  ASSIGN_OR_RETURN(model.quantization, QuantizationConfig::Load(folder));
  return model;
}

bool HasState(const ModelConfig& config) {
  return std::any_of(config.layers.begin(), config.layers.end(), [](const LayerConfig& layer) {
    return layer.attention == AttentionKind::kGatedDelta;
  });
}

std::vector<int32_t> NumExperts(const ModelConfig& config) {
  std::vector<int32_t> result;
  result.reserve(config.layers.size());
  for (const LayerConfig& layer : config.layers) result.push_back(layer.routed.router.num_experts);
  return result;
}

int32_t MostExperts(const ModelConfig& config) {
  int32_t most = 0;
  for (const int32_t num_experts : NumExperts(config)) most = std::max(most, num_experts);
  return most;
}

int32_t MaxHeadDim(const ModelConfig& config) {
  int32_t most = 0;
  for (const LayerConfig& layer : config.layers) most = std::max(most, layer.gqa.head_dim);
  return most;
}

int64_t MaxSequenceLength(const ModelConfig& config) {
  const RopeConfig& rope = config.ropes.front();
  auto length = static_cast<double>(config.max_position_embeddings);
  if (rope.type == RopeType::kYarn && rope.original_max_position_embeddings > 0) {
    length = rope.original_max_position_embeddings;
  }
  const bool stretched = !config.positions_are_stretched &&
                         (rope.type == RopeType::kYarn || rope.type == RopeType::kLinear ||
                          rope.type == RopeType::kDynamic);
  return static_cast<int64_t>(stretched ? length * rope.factor : length);
}

}  // namespace quire
