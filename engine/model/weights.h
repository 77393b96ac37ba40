// Weights: the tensors of one model on one device, in the backend's layout: q, k, v rows fused into
// one matrix and gate, up into another; norms and biases as float32 vectors. Loaded once before
// serving; then read-only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/model_config.h"
#include "kernels/backend.h"
#include "kernels/base/progress.h"

namespace quire {

struct LayerWeights {
  Tensor input_norm;          // [hidden_size]
  LinearWeight qkv;           // [(num_q_heads + 2 * num_kv_heads) * head_dim, hidden_size]
  Tensor qkv_bias;            // [(num_q_heads + 2 * num_kv_heads) * head_dim] or empty
  Tensor q_norm;              // [head_dim] or empty
  Tensor k_norm;              // [head_dim] or empty
  LinearWeight o;             // [hidden_size, num_q_heads * head_dim]
  Tensor o_bias;              // [hidden_size] or empty
  Tensor attention_out_norm;  // [hidden_size] or empty: of what attention adds
  Tensor mlp_norm;            // [hidden_size]
  Tensor mlp_out_norm;        // [hidden_size] or empty: of what the MLP adds
  LinearWeight gate_up;       // [2 * intermediate_size, hidden_size], gate first
  Tensor gate_up_bias;        // [2 * intermediate_size] or empty
  LinearWeight down;          // [hidden_size, intermediate_size]
  Tensor down_bias;           // [hidden_size] or empty
};

enum class LoadFormat : uint8_t { kAuto, kDummy };

struct WeightsOptions {
  LoadFormat format = LoadFormat::kAuto;
  DType dtype = DType::kBF16;  // on the device: float32 or bfloat16
  uint64_t seed = 0;           // of dummy weights
  int num_threads = 0;         // readers; 0 = one per core
  Progress* progress = nullptr;
};

class Weights {
 public:
  // Reads the folder's safetensors files (or fills random weights for kDummy). INVALID_ARGUMENT or
  // NOT_FOUND name the file and tensor: truncated or overlapping data, missing tensors (all
  // listed), shapes that contradict config.json; RESOURCE_EXHAUSTED when the device has no room.
  static absl::StatusOr<Weights> Load(Backend& backend, const ModelConfig& config,
                                      const std::string& folder, const WeightsOptions& options);

  // Device bytes that Load takes at most, from the configuration alone.
  static int64_t BytesFor(WeightStore& store, const ModelConfig& config, DType dtype);

  const LinearWeight& embedding() const { return embedding_; }  // [vocab_size, hidden_size]
  const LinearWeight& lm_head() const { return lm_head_; }      // the embedding's memory when tied
  const Tensor& final_norm() const { return final_norm_; }      // [hidden_size]
  const LayerWeights& layer(int i) const { return layers_[i]; }
  int64_t size_bytes() const { return memory_.size_bytes(); }
  int64_t num_parameters() const { return num_parameters_; }
  int64_t matrix_bytes() const { return matrix_bytes_; }  // as gemms read them

  // SHA-256 over the model's files' names and sizes and the config: identifies what the KV cache
  // holds.
  const std::string& fingerprint() const { return fingerprint_; }

 private:
  friend class WeightsLoader;

  DeviceBuffer memory_;  // all tensors in one allocation
  LinearWeight embedding_;
  LinearWeight lm_head_;
  Tensor final_norm_;
  std::vector<LayerWeights> layers_;
  int64_t num_parameters_ = 0;
  int64_t matrix_bytes_ = 0;
  std::string fingerprint_;
};

}  // namespace quire
