// Weights: the tensors of one model on one device, in the backend's layout: q, k, v rows fused into
// one matrix and gate, up into another; norms and biases as float32 vectors. Loaded once before
// serving; then read-only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/model/model_weights.h"
#include "kernels/backend.h"
#include "kernels/base/progress.h"
#include "kernels/device_facts.h"

namespace quire {

enum class LoadFormat : uint8_t { kAuto, kDummy };

struct WeightsOptions {
  LoadFormat format = LoadFormat::kAuto;
  DType dtype = DType::kBF16;  // on the device: float32 or bfloat16
  uint64_t seed = 0;           // for dummy weights
  double router_skew = 0;      // of dummy weights: EngineConfig::dummy_router_skew
  int num_threads = 0;         // readers; 0 = one per core
  Progress* progress = nullptr;
};

// One linear operation before the head.
struct LayerLinear {
  const LinearWeight* weight;
  Tensor bias;  // or empty
  bool gated;   // GatedLinear; else Linear
  bool normed;  // x comes from RmsNorm
  DType out_dtype;
};

// Weights that are kept alike: "int4, groups of 128", "bfloat16".
struct FormatBytes {
  std::string format;
  int64_t bytes = 0;
};

class Weights {
 public:
  // Reads the folder's safetensors files (or fills random weights for kDummy). INVALID_ARGUMENT or
  // NOT_FOUND name the file and tensor: truncated or overlapping data, missing or
  // surplus tensors (listed), shapes that contradict config.json; RESOURCE_EXHAUSTED when the
  // device has no room.
  static absl::StatusOr<Weights> Load(Backend& backend, const ModelConfig& config,
                                      const std::string& folder, const WeightsOptions& options);

  // The most memory that Load takes of a device.
  struct Sizes {
    int64_t bytes = 0;
    int64_t num_parameters = 0;
    // Together `bytes`, in the order of the model; vectors and padding come last.
    std::vector<FormatBytes> by_format;
    // Weights that are quantized in the checkpoint, but which the device keeps as floats, by the
    // first module of each. Either their columns are in an order that cannot be sorted, or the
    // device has no gemms for their format.
    std::vector<std::string> expanded_for_order;
    std::vector<std::string> expanded_for_gemms;
  };
  // Computed from the configuration, and from the checkpoint's tensors if the configuration does
  // not say enough. `checkpoint` may be null: then columns are ordered as the configuration says.
  // Errors as in Load.
  static absl::StatusOr<Sizes> SizesFor(const DeviceFacts& device, const ModelConfig& config,
                                        DType dtype, const Checkpoint* checkpoint);

  // Checks that the folder has the tensors that the configuration needs; reads only the headers of
  // its files. Returns how many bytes the files have. Errors as in Load.
  static absl::StatusOr<int64_t> CheckFiles(const ModelConfig& config, const std::string& folder);

  const LinearWeight& embedding() const { return model_->embedding; }  // [vocab_size, hidden_size]
  // In the embedding's memory when tied.
  const LinearWeight& lm_head() const { return model_->lm_head; }
  const Tensor& final_norm() const { return model_->final_norm; }  // [hidden_size]
  const PerLayerInputWeights& per_layer_input() const { return model_->per_layer_input; }
  const LayerWeights& layer(int i) const { return model_->layers[i]; }
  // Every linear operation except the head and the experts' operations, in the order of the plan.
  const std::vector<LayerLinear>& linears() const { return linears_; }
  int64_t size_bytes() const { return memory_.size_bytes(); }
  int64_t num_parameters() const { return num_parameters_; }
  // Bytes that gemms read for one token; only the experts that the token has count.
  int64_t matrix_bytes() const { return matrix_bytes_; }

  // SHA-256 over the names and sizes of the model's files, the config and everything else that says
  // how weights are quantized, the formats in which they are kept, and the KV cache's scales. It
  // identifies the contents of the KV cache.
  const std::string& fingerprint() const { return fingerprint_; }

 private:
  friend class WeightsLoader;

  DeviceBuffer memory_;  // all tensors in one allocation
  std::unique_ptr<ModelWeights> model_ =
      std::make_unique<ModelWeights>();  // linears_ point into it
  std::vector<LayerLinear> linears_;
  int64_t num_parameters_ = 0;
  int64_t matrix_bytes_ = 0;
  std::string fingerprint_;
};

}  // namespace quire
