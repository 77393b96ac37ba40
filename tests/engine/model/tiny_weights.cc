#include "tests/engine/model/tiny_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/model/model_weights.h"
#include "engine/model/weights/device_format.h"
#include "kernels/base/check.h"
#include "tests/engine/checkpoint/test_files.h"
#include "tests/engine/model/quantization/test_planes.h"

namespace quire {
namespace {

FileTensor PlainTensor(const WeightPart& part, std::vector<int64_t> shape, size_t index) {
  int64_t size = 1;
  for (const int64_t extent : shape) size *= extent;
  std::vector<float> values(size);
  for (int64_t i = 0; i < size; ++i) {
    values[i] = static_cast<float>((i * 7 + index * 13) % 251) / 64;
  }
  return {part.name, "F32", std::move(shape), BytesOf(values)};
}

// Makes a plane whose values do not matter, except that they must be sane.
std::vector<uint8_t> RandomBytes(const StoredTensor& stored, int64_t size, std::mt19937& random) {
  std::vector<uint8_t> bytes;
  const absl::string_view dtype = stored.dtypes[0];
  if (dtype == "F32") {
    for (int64_t i = 0; i < size; ++i) {
      const float scale = 0.01f + 0.002f * static_cast<float>(random() % 8);
      bytes.resize(bytes.size() + sizeof(scale));
      std::memcpy(bytes.data() + bytes.size() - sizeof(scale), &scale, sizeof(scale));
    }
    return bytes;
  }
  const bool is_scale = stored.plane == Plane::kScales;
  for (int64_t i = 0; i < size * (dtype == "I32" ? 4 : 1); ++i) {
    uint8_t byte = random() & 0xff;
    if (dtype == "F8_E4M3") byte = is_scale ? 0x10 + byte % 8 : byte & 0xbf;
    if (dtype == "U8" && is_scale) byte = 118 + byte % 4;
    bytes.push_back(byte);
  }
  return bytes;
}

struct ModuleOfWeight {
  std::string name;
  WeightScheme scheme;
  ModuleShape shape;
};

// Appends a module's tensors to `quantized`, and the weight that they make to `plain`.
void AddModule(const ModuleOfWeight& module, const GroupsOf& groups_of, std::mt19937& random,
               QuantizedTensors* tensors) {
  TestModule planes(module.scheme, module.shape);
  for (const StoredTensor& stored : StoredTensors(module.scheme, module.shape)) {
    std::vector<int32_t> groups;
    if (stored.plane == Plane::kOrder && groups_of) groups = groups_of(module.name, module.shape);
    if (stored.optional && groups.empty()) continue;
    int64_t size = 1;
    for (const int64_t extent : stored.shapes[0]) size *= extent;
    std::string data;
    if (stored.plane == Plane::kOrder) {
      groups.resize(size);
      planes.Set(stored.plane, "I32", groups);
      data.assign(reinterpret_cast<const char*>(groups.data()), size * sizeof(int32_t));
    } else {
      const std::vector<uint8_t> bytes = RandomBytes(stored, size, random);
      planes.Set(stored.plane, stored.dtypes[0], bytes);
      data.assign(bytes.begin(), bytes.end());
    }
    tensors->quantized.push_back({absl::StrCat(module.name, stored.suffixes[0]),
                                  std::string(stored.dtypes[0]), stored.shapes[0],
                                  std::move(data)});
  }
  const auto values = planes.Values();
  CHECK(values.ok()) << values.status();
  tensors->plain.push_back({absl::StrCat(module.name, ".weight"),
                            "F32",
                            {module.shape.rows, module.shape.columns},
                            BytesOf(*values)});
}

}  // namespace

std::string FileOf(const std::vector<FileTensor>& tensors) {
  std::vector<std::string> entries;
  std::string data;
  for (const FileTensor& tensor : tensors) {
    const size_t begin = data.size();
    data += tensor.data;
    entries.push_back(absl::StrCat("\"", tensor.name, "\":{\"dtype\":\"", tensor.dtype,
                                   "\",\"shape\":[", absl::StrJoin(tensor.shape, ","),
                                   "],\"data_offsets\":[", begin, ",", data.size(), "]}"));
  }
  return SafetensorsBytes(absl::StrCat("{", absl::StrJoin(entries, ","), "}"), data);
}

std::string BytesOf(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

FileTensor& Find(std::vector<FileTensor>& tensors, absl::string_view name) {
  for (FileTensor& tensor : tensors) {
    if (tensor.name == name) return tensor;
  }
  ADD_FAILURE() << name;
  return tensors[0];
}

std::vector<FileTensor> TensorsOf(const ModelConfig& config) {
  ModelWeights weights;
  const WeightPlan plan = PlanWeights(config, TextPart(), &weights);
  std::vector<FileTensor> tensors;
  for (const MatrixPlan& matrix : plan.matrices) {
    for (const WeightPart& part : matrix.parts) {
      tensors.push_back(
          PlainTensor(part, ShapeOf(part, matrix.weight->in_features), tensors.size()));
    }
  }
  for (const VectorPlan& vector : plan.vectors) {
    for (const WeightPart& part : vector.parts) {
      const auto shape = vector.shape.empty() ? std::vector<int64_t>{part.num_rows} : vector.shape;
      tensors.push_back(PlainTensor(part, shape, tensors.size()));
    }
  }
  return tensors;
}

QuantizedTensors QuantizedTensorsOf(const ModelConfig& config, const GroupsOf& groups_of) {
  ModelWeights weights;
  WeightPlan plan = PlanWeights(config, TextPart(), &weights);
  const absl::Status status = SetSchemes(config.quantization, &plan);
  CHECK(status.ok()) << status;
  QuantizedTensors tensors;
  std::mt19937 random(7);  // NOLINT(bugprone-random-generator-seed): the same each time
  for (const FileTensor& tensor : TensorsOf(config)) tensors.plain.push_back(tensor);
  tensors.quantized = tensors.plain;
  for (const MatrixPlan& matrix : plan.matrices) {
    if (!matrix.scheme.quantized()) continue;
    for (const WeightPart& part : matrix.parts) {
      const auto is_part = [&](const FileTensor& tensor) { return tensor.name == part.name; };
      std::erase_if(tensors.plain, is_part);
      std::erase_if(tensors.quantized, is_part);
      AddModule({ModuleOf(part),
                 matrix.scheme,
                 {.rows = part.num_rows, .columns = matrix.weight->in_features}},
                groups_of, random, &tensors);
    }
  }
  return tensors;
}

}  // namespace quire
