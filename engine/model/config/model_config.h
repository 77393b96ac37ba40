// ModelConfig: the description of a decoder from a Hugging Face config.json, in our terms and with
// the family's defaults filled in. Parsed once at start; plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/model/config/layer_config.h"
#include "engine/model/quantization/quantization_config.h"
#include "kernels/base/dtype.h"
#include "kernels/base/types.h"
#include "kernels/op_args.h"

namespace quire {

enum class RopeType : uint8_t {
  kDefault,
  kLinear,
  kDynamic,
  kLlama3,
  kYarn,
  kLongRope,
  kProportional,  // some of a head's pairs are turned, each as if all were turned
};

struct RopeConfig {
  RopeType type = RopeType::kDefault;
  double theta = 10000.0;
  double partial_rotary_factor = 1.0;
  double factor = 1.0;
  double original_max_position_embeddings = 0;  // 0 = the model's max_position_embeddings
  double low_freq_factor = 1.0;                 // llama3
  double high_freq_factor = 4.0;
  double beta_fast = 32.0;  // yarn
  double beta_slow = 1.0;
  double mscale = 0.0;  // 0 = not set
  double mscale_all_dim = 0.0;
  std::optional<double> attention_factor;
  bool truncate = true;
  std::vector<double> short_factor;  // longrope: [rotary_dim / 2]
  std::vector<double> long_factor;
  // The number of elements of a head that are rotated, in pairs as in StoreHeadsArgs.
  int32_t rotary_dim = 0;
  int32_t pair_distance = 0;
  // Rotated queries at position p are multiplied by 1 + beta ln(1 + floor(p / original)), where
  // `original` is original_max_position_embeddings.
  double query_scale_beta = 0;

  bool operator==(const RopeConfig&) const = default;
};

// The places of a layer's norms.
enum class BlockOrder : uint8_t {
  kPreNorm,   // before attention and before the MLP
  kSandwich,  // also behind each, before its output is added
  kPostNorm,  // only behind each: attention and the MLP read the hidden state as it is
  kParallel,  // before both; both read the same, and their outputs are added
};

// The names in a checkpoint for the norms of BlockOrder::kSandwich, and for the modules of
// MlpKind::kRouted.
enum class SandwichNames : uint8_t { kGemma, kGlm };
enum class ExpertNames : uint8_t { kQwen, kMixtral, kGlm, kGptOss, kGemma };

// How q and k are normed before they are rotated.
enum class HeadNorm : uint8_t {
  kNone,
  kHead,  // each head
  kRow,   // all heads of a token as one vector
};

// The kind of the norms between blocks.
enum class NormKind : uint8_t {
  kRms,
  kRmsPlusOne,  // times the checkpoint's weight plus one
  kLayer,       // LayerNorm: the mean is subtracted first; without a bias
};

// A layer's input for a token beside the hidden state: from the layer's own embedding, and from a
// projection of the model's embedding.
struct PerLayerInputConfig {
  int64_t vocab_size = 0;
  int64_t size = 0;  // elements of a token in each layer; 0: there are none
};

// The form that the weights of linear modules get while they are loaded, if the checkpoint has them
// as floats. The head stays as it is.
enum class LoadQuantization : uint8_t {
  kNone,
  kFloat8,  // e4m3, a scale for each row's 128 columns; activations in e4m3, too, if possible
};

struct ModelConfig {
  std::string architecture;  // "Qwen3ForCausalLM"
  std::string model_type;    // "qwen3"
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  float norm_eps = 1e-6f;
  Activation activation = Activation::kSilu;
  bool qkv_bias = false;
  bool o_bias = false;
  bool mlp_bias = false;
  HeadNorm qk_norm = HeadNorm::kNone;
  bool v_norm = false;  // norm of each head's values, without a weight
  BlockOrder block_order = BlockOrder::kPreNorm;
  SandwichNames sandwich_names = SandwichNames::kGemma;
  ExpertNames expert_names = ExpertNames::kQwen;
  NormKind norm = NormKind::kRms;
  bool layer_scalars = false;  // a layer's result is multiplied by a number of the checkpoint
  PerLayerInputConfig per_layer_input;
  // The family's checkpoints have q, k and v in one tensor, gate and up in another. Checkpoints of
  // the other form are loaded, too.
  bool fused_checkpoint = false;
  bool shared_mlp = false;               // MLPs are named shared_mlp, as they are beside experts
  bool positions_are_stretched = false;  // max_position_embeddings is after rope scaling
  float embedding_scale = 1;             // rounded to the activations' dtype before it is used
  float attention_scale = 0;             // multiplies q.k
  float residual_scale = 1;              // multiplies the outputs of attention and the MLP
  float logit_scale = 1;
  float attention_soft_cap = 0;  // 0 = off
  bool attention_sinks = false;  // a learned logit of each query head that has no value
  float logit_soft_cap = 0;      // 0 = off
  bool tie_word_embeddings = false;
  int64_t max_position_embeddings = 0;
  std::vector<LayerConfig> layers;
  int64_t num_draft_layers = 0;  // layers behind these in the checkpoint, which are not read
  // Layers name one of these by its index. The first one belongs to the layers without a window,
  // and also says how long sequences may be.
  std::vector<RopeConfig> ropes;
  DType dtype = DType::kBF16;          // of the checkpoint: config.json's, else its weights' dtype
  std::vector<TokenId> eos_token_ids;  // config.json's; may be empty
  std::optional<TokenId> bos_token_id;
  QuantizationConfig quantization;  // of the checkpoint's linear modules
  DType state_dtype = DType::kF32;  // of recurrent states, if layers keep some
  LoadQuantization load_quantization = LoadQuantization::kNone;  // never config.json's
};

// Whether some layer keeps a state of each sequence.
bool HasState(const ModelConfig& config);

// How many experts each layer has, 0 if it has none; and the largest of these numbers.
std::vector<int32_t> NumExperts(const ModelConfig& config);
int32_t MostExperts(const ModelConfig& config);

// Elements of the largest attention head of all layers.
int32_t MaxHeadDim(const ModelConfig& config);

// Reads <folder>/config.json, transformers v4 and v5 forms. NOT_FOUND when there is no such folder
// or file. INVALID_ARGUMENT, naming the key, for values out of range. UNIMPLEMENTED, naming the
// architecture and the supported ones.
absl::StatusOr<ModelConfig> LoadModelConfig(const std::string& folder);
// The same only from the text of a config.json; if the text names no dtype, the dtype is float32.
absl::StatusOr<ModelConfig> ParseModelConfig(absl::string_view json);

// The longest sequence for which the model is made: max_position_embeddings, stretched by the
// factor of linear, dynamic and yarn rope (for yarn from original_max_position_embeddings), as vLLM
// derives it.
int64_t MaxSequenceLength(const ModelConfig& config);

}  // namespace quire
