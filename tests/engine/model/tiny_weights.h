// Weights of tiny models put together in a test: plain tensors, and what a quantized checkpoint has
// in their place. Plain functions; one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/model/config/model_config.h"
#include "engine/model/quantization/weight_scheme.h"
#include "engine/model/weights/weight_plan.h"

namespace quire {

struct FileTensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::string data;
};

// A safetensors file with them.
std::string FileOf(const std::vector<FileTensor>& tensors);

std::string BytesOf(const std::vector<float>& values);

// The one of this name, which must be there.
FileTensor& Find(std::vector<FileTensor>& tensors, absl::string_view name);

// Every tensor that the config implies, in float32, each element from its tensor and place.
std::vector<FileTensor> TensorsOf(const ModelConfig& config);

// Two models that are one: a quantized checkpoint with random codes, and the same in float32.
struct QuantizedTensors {
  std::vector<FileTensor> quantized;
  std::vector<FileTensor> plain;
};

// `groups_of(module, shape)`: the module's g_idx, or nothing for none; of formats that have one.
using GroupsOf = std::function<std::vector<int32_t>(const std::string&, const ModuleShape&)>;
QuantizedTensors QuantizedTensorsOf(const ModelConfig& config, const GroupsOf& groups_of = nullptr);

}  // namespace quire
