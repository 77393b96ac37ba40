#include "tools/bench/engine/checkpoint_tensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/json/parse_json.h"
#include "engine/model/model_weights.h"
#include "engine/model/quantization/unpack.h"
#include "engine/model/weights/device_format.h"
#include "engine/model/weights/weight_plan.h"
#include "kernels/base/check.h"
#include "kernels/base/float8.h"
#include "kernels/base/half.h"
#include "kernels/base/random_weight.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace quire::bench {

namespace {

// quantization_config by format, as the packages write it.
constexpr std::array<std::pair<const char*, const char*>, 8> kFormats = {{
    {"fp8-block",
     R"({"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128],
         "modules_to_not_convert": ["lm_head"]})"},
    {"fp8-channel",
     R"({"quant_method": "compressed-tensors", "format": "float-quantized", "ignore": ["lm_head"],
         "quantization_status": "compressed",
         "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8,
         "type": "float", "symmetric": true, "strategy": "channel", "dynamic": false},
         "input_activations": {"num_bits": 8, "type": "float", "symmetric": true,
         "strategy": "token", "dynamic": true}}}})"},
    {"awq", R"({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": true,
                "version": "gemm", "modules_to_not_convert": null})"},
    {"gptq", R"({"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": true,
                 "desc_act": false, "checkpoint_format": "gptq"})"},
    {"pack-quantized",
     R"({"quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": ["lm_head"],
         "quantization_status": "compressed",
         "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4,
         "type": "int", "symmetric": true, "group_size": 128, "strategy": "group",
         "dynamic": false}, "input_activations": null}}})"},
    {"int8",
     R"({"quant_method": "compressed-tensors", "format": "int-quantized", "ignore": ["lm_head"],
         "quantization_status": "compressed",
         "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8,
         "type": "int", "symmetric": true, "strategy": "channel", "dynamic": false},
         "input_activations": {"num_bits": 8, "type": "int", "symmetric": true,
         "strategy": "token", "dynamic": true}}}})"},
    {"mxfp4",
     R"({"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized",
         "quantization_status": "compressed", "ignore": ["lm_head"],
         "config_groups": {"group_0": {"targets": ["Linear"],
         "weights": {"num_bits": 4, "type": "float", "symmetric": true, "strategy": "group",
         "group_size": 32, "scale_dtype": "torch.uint8", "dynamic": false},
         "input_activations": null}}})"},
    {"nvfp4", R"({"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16,
                  "ignore": ["lm_head"]})"},
}};

int64_t ElementBytes(absl::string_view dtype) {
  if (dtype == "I64") return 8;
  if (dtype == "F32" || dtype == "I32") return 4;
  return dtype == "BF16" || dtype == "F16" ? 2 : 1;
}

template <typename T>
std::string BytesOf(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

std::string FloatElement(absl::string_view dtype, float value) {
  if (dtype == "F32") return BytesOf(value);
  return dtype == "BF16" ? BytesOf(BFloat16(value)) : BytesOf(Float16(value));
}

// The root of the mean square of what random codes stand for.
double DeviationOfCodes(const WeightScheme& scheme) {
  const int bits = scheme.code_bits();
  double squares = 0;
  for (int code = 0; code < 1 << bits; ++code) {
    double value = code - (1 << (bits - 1));
    if (scheme.packing == WeightPacking::kFloat4) value = E2M1Value(static_cast<uint8_t>(code));
    if (scheme.packing == WeightPacking::kFloat8) {
      value = E4M3Value(static_cast<uint8_t>((code & 0x7f) == 0x7f ? code - 1 : code));
    }
    squares += value * value;
  }
  return std::sqrt(squares / (1 << bits));
}

// What a tensor of the plane has everywhere, for values with this scale. Zero points are the middle
// of the codes.
std::string PlaneElement(const WeightScheme& scheme, Plane plane, absl::string_view dtype,
                         float scale) {
  const bool has_global = scheme.global_scale != GlobalScale::kNone;
  switch (plane) {
    case Plane::kScales:
      if (scheme.scale_type == ScaleType::kE8M0) {
        return std::string(1, static_cast<char>(std::ilogb(scale) + 127));
      }
      if (scheme.scale_type == ScaleType::kE4M3) return BytesOf(Float8E4M3(1.0f));
      return FloatElement(dtype, has_global ? 1.0f : scale);
    case Plane::kGlobalScale:
      return FloatElement(dtype, scheme.global_scale == GlobalScale::kDivisor ? 1 / scale : scale);
    case Plane::kZeroPoints: {
      if (scheme.packing == WeightPacking::kInt8) return std::string(1, '\0');
      const uint32_t field = (1u << (scheme.bits - 1)) - scheme.zero_offset;
      uint32_t word = 0;
      for (int at = 0; at + scheme.bits <= 32; at += scheme.bits) word |= field << at;
      return BytesOf(word);
    }
    default:  // of the activations
      return FloatElement(dtype, 1.0f);
  }
}

// The type that the format's packages write, among those that the plane may have.
absl::string_view DTypeOf(const WeightScheme& scheme, const StoredTensor& stored) {
  const bool in_float16 =
      scheme.packing == WeightPacking::kGptq || scheme.packing == WeightPacking::kAwq;
  return in_float16 && stored.plane == Plane::kScales ? "F16" : stored.dtypes[0];
}

FileTensor MakeTensor(const WeightScheme& scheme, const ModuleShape& shape,
                      const StoredTensor& stored, const std::string& module, float scale) {
  FileTensor tensor = {.name = absl::StrCat(module, stored.suffixes[0]),
                       .dtype = std::string(DTypeOf(scheme, stored)),
                       // gpt-oss has the bytes of a group as a dimension of their own.
                       .shape = shape.num_experts > 0 ? stored.shapes.back() : stored.shapes[0]};
  if (stored.plane == Plane::kValues) {
    tensor.content = TensorContent::kRandomCodes;
    tensor.is_float8 = scheme.packing == WeightPacking::kFloat8;
  } else if (stored.plane == Plane::kOrder) {
    tensor.content = TensorContent::kGroupIndex;
    tensor.group_columns = scheme.group_columns;
  } else if (stored.plane == Plane::kShape) {
    tensor.element = BytesOf(shape.rows) + BytesOf(shape.columns);
  } else {
    tensor.element = PlaneElement(scheme, stored.plane, tensor.dtype, scale);
  }
  return tensor;
}

// Lists the tensors of a quantized part. Its values are those of the rows from first_row of the
// random tensor.
absl::Status ListModule(const WeightPart& part, int64_t columns, const WeightScheme& scheme,
                        uint64_t tensor_id, int64_t first_row, std::vector<FileTensor>* tensors) {
  const ModuleShape shape = {
      .rows = part.num_rows, .columns = columns, .num_experts = part.num_experts};
  const std::string module = ModuleOf(part);
  RETURN_IF_ERROR(CheckFits(scheme, shape, module));
  const double scale = 1 / (std::sqrt(static_cast<double>(columns)) * DeviationOfCodes(scheme));
  for (const StoredTensor& stored : StoredTensors(scheme, shape)) {
    // Quire can do without some tensors that other readers may expect. Nobody expects the scales of
    // activations. Only GPTQ's readers need a plain order, and zero points in the middle.
    const bool is_of_gptq = stored.plane == Plane::kOrder || stored.plane == Plane::kZeroPoints;
    const bool is_expected = stored.plane != Plane::kInputScale &&
                             (!is_of_gptq || scheme.packing == WeightPacking::kGptq);
    if (stored.optional && !is_expected) continue;
    tensors->push_back(MakeTensor(scheme, shape, stored, module, static_cast<float>(scale)));
    tensors->back().tensor_id = tensor_id;
    tensors->back().first_row = first_row;
  }
  return absl::OkStatus();
}

// Lists the tensors of the parts of one matrix.
absl::Status ListMatrix(const MatrixPlan& matrix, uint64_t index,
                        std::vector<FileTensor>* tensors) {
  const std::vector<int64_t> first_rows = FirstRows(matrix.parts);
  const int64_t columns = matrix.weight->in_features;
  for (size_t i = 0; i < matrix.parts.size(); ++i) {
    const WeightPart& part = matrix.parts[i];
    const uint64_t tensor_id = DummyTensorId(index, part.expert);
    if (matrix.scheme.quantized()) {
      RETURN_IF_ERROR(ListModule(part, columns, matrix.scheme, tensor_id, first_rows[i], tensors));
      continue;
    }
    tensors->push_back({.name = part.name,
                        .dtype = "BF16",
                        .shape = ShapeOf(part, columns),
                        .content = TensorContent::kRandomMatrix,
                        .tensor_id = tensor_id,
                        .first_row = first_rows[i]});
  }
  return absl::OkStatus();
}

// Adds a module to those that are not quantized, in the way of the format's packages.
void LeaveOut(const std::string& module, nlohmann::ordered_json* config) {
  if (config->at("quant_method") == "gptq") {
    const std::string pattern = absl::StrReplaceAll(module, {{".", "\\."}});
    (*config)["dynamic"]["-:" + pattern] = nlohmann::ordered_json::object();
    return;
  }
  const char* const key = config->contains("ignore") ? "ignore" : "modules_to_not_convert";
  nlohmann::ordered_json& names = (*config)[key];
  if (names.is_null()) names = nlohmann::ordered_json::array();
  names.push_back(module);
}

}  // namespace

int64_t FileTensor::num_rows() const {
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
  return rows;
}

int64_t FileTensor::row_bytes() const { return row_size() * ElementBytes(dtype); }

absl::StatusOr<std::vector<FileTensor>> ListTensors(const ModelConfig& config) {
  ModelWeights weights;
  WeightPlan plan = PlanWeights(config, TextPart(), &weights);
  RETURN_IF_ERROR(SetSchemes(config.quantization, &plan));
  std::vector<FileTensor> tensors;
  for (size_t i = 0; i < plan.matrices.size(); ++i) {
    RETURN_IF_ERROR(ListMatrix(plan.matrices[i], i, &tensors));
  }
  for (const VectorPlan& vector : plan.vectors) {
    for (const WeightPart& part : vector.parts) {
      tensors.push_back(
          {.name = part.name,
           .dtype = "BF16",
           .shape = vector.shape.empty() ? std::vector<int64_t>{part.num_rows} : vector.shape,
           .element = BytesOf(BFloat16(vector.dummy_value))});
    }
  }
  return tensors;
}

void FillRow(const FileTensor& tensor, uint64_t seed, int64_t row, char* out) {
  const int64_t size = tensor.row_size();
  const uint64_t key = RandomRowKey(seed, tensor.tensor_id, tensor.first_row + row);
  switch (tensor.content) {
    case TensorContent::kRandomMatrix: {  // as Weights::Load fills it without a checkpoint
      const float scale = RandomWeightScale(1.0f / std::sqrt(static_cast<float>(size)));
      for (int64_t i = 0; i < size; ++i) {
        const BFloat16 value(static_cast<float>(RandomByteSum(key, i)) * scale);
        std::memcpy(out + 2 * i, &value, 2);
      }
      return;
    }
    case TensorContent::kRandomCodes:
      for (int64_t i = 0; i < tensor.row_bytes(); ++i) {
        const uint64_t word = Mix64(key + static_cast<uint64_t>(i / 8) * kGoldenRatio64);
        auto code = static_cast<uint8_t>(word >> (i % 8 * 8));
        if (tensor.is_float8 && (code & 0x7f) == 0x7f) --code;  // NaN
        out[i] = static_cast<char>(code);
      }
      return;
    case TensorContent::kGroupIndex:
      for (int64_t i = 0; i < size; ++i) {
        const auto group = static_cast<int32_t>(i / tensor.group_columns);
        std::memcpy(out + 4 * i, &group, 4);
      }
      return;
    case TensorContent::kConstant:
      for (size_t at = 0; at < static_cast<size_t>(tensor.row_bytes());
           at += tensor.element.size()) {
        std::copy(tensor.element.begin(), tensor.element.end(), out + at);
      }
  }
}

std::vector<std::string> CheckpointFormatNames() {
  std::vector<std::string> names;
  names.reserve(kFormats.size());
  for (const auto& [name, config] : kFormats) names.emplace_back(name);
  return names;
}

nlohmann::ordered_json QuantizationConfigOf(const std::string& format, const ModelConfig& config) {
  const auto* const found = std::find_if(kFormats.begin(), kFormats.end(),
                                         [&](const auto& one) { return format == one.first; });
  CHECK(found != kFormats.end()) << format;
  auto json = ParseJson<nlohmann::ordered_json>(std::string(found->second));
  ModelWeights weights;
  for (const MatrixPlan& matrix : PlanWeights(config, TextPart(), &weights).matrices) {
    if (matrix.role != MatrixRole::kGates) continue;
    for (const WeightPart& part : matrix.parts) LeaveOut(ModuleOf(part), &json);
  }
  return json;
}

}  // namespace quire::bench
