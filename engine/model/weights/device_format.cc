#include "engine/model/weights/device_format.h"

#include <string>
#include <vector>

#include "kernels/base/status_macros.h"

namespace quire {
namespace {

constexpr int32_t kFloat8GroupColumns = 128;

WeightValue ValueOf(const WeightScheme& scheme) {
  if (scheme.packing == WeightPacking::kFloat8) return WeightValue::kFloat8;
  if (scheme.packing == WeightPacking::kFloat4) return WeightValue::kFloat4;
  return scheme.bits <= 4 ? WeightValue::kInt4 : WeightValue::kInt8;
}

ScaleValue ScaleOf(const WeightScheme& scheme) {
  if (scheme.scale_type == ScaleType::kE8M0 && scheme.global_scale == GlobalScale::kNone) {
    return ScaleValue::kPowerOfTwo;
  }
  // Division by a number does not give the same result as multiplication by its inverse.
  const bool is_factor = scheme.global_scale == GlobalScale::kFactor;
  return scheme.scale_type == ScaleType::kE4M3 && is_factor ? ScaleValue::kFloat8
                                                            : ScaleValue::kFloat32;
}

bool IsFloat8(ActivationScheme activations) {
  return activations == ActivationScheme::kE4M3PerToken ||
         activations == ActivationScheme::kE4M3PerGroup ||
         activations == ActivationScheme::kE4M3PerTensor;
}

}  // namespace

LinearFormat DeviceFormatOf(const WeightScheme& scheme) {
  if (!scheme.quantized()) return {};
  LinearFormat result;
  result.weight = {.value = ValueOf(scheme),
                   .scale = ScaleOf(scheme),
                   .group_columns = static_cast<int32_t>(scheme.group_columns),
                   .zero_points = scheme.zero_points,
                   .ordered = scheme.ordered};
  if (scheme.activations == ActivationScheme::kInt8PerToken && scheme.group_columns == 0 &&
      !scheme.zero_points && result.weight.value == WeightValue::kInt8) {
    result.activations.value = ActivationValue::kInt8;
  } else if (result.weight.value == WeightValue::kFloat8 && IsFloat8(scheme.activations)) {
    result.activations.value = ActivationValue::kFloat8;
  }
  return result;
}

LinearFormat DeviceFormatOf(LoadQuantization quantization) {
  switch (quantization) {
    case LoadQuantization::kNone:
      return {};
    case LoadQuantization::kFloat8:
      return {.weight = {.value = WeightValue::kFloat8, .group_columns = kFloat8GroupColumns},
              .activations = {ActivationValue::kFloat8}};
  }
  return {};
}

LinearFormat DeviceFormatOf(const MatrixPlan& matrix, LoadQuantization quantization) {
  if (matrix.scheme.quantized()) return DeviceFormatOf(matrix.scheme);
  return matrix.role == MatrixRole::kLinear ? DeviceFormatOf(quantization) : LinearFormat();
}

absl::Status SetSchemes(const QuantizationConfig& quantization, WeightPlan* plan) {
  if (!quantization.quantized()) return absl::OkStatus();
  for (MatrixPlan& matrix : plan->matrices) {
    if (matrix.role == MatrixRole::kEmbedding) continue;
    std::vector<std::string> modules;
    modules.reserve(matrix.parts.size());
    for (const WeightPart& part : matrix.parts) modules.push_back(ModuleOf(part));
    ASSIGN_OR_RETURN(matrix.scheme, quantization.FindShared(modules));
  }
  return absl::OkStatus();
}

}  // namespace quire
