#include "engine/serving_dtype.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/model/weights/device_format.h"

namespace quire {

absl::StatusOr<ServingDType> ChooseServingDType(std::optional<DType> asked, DType checkpoint,
                                                const DeviceInfo& device) {
  const std::vector<DType>& computed = device.activation_dtypes;
  const auto computes_in = [&](DType dtype) {
    return std::find(computed.begin(), computed.end(), dtype) != computed.end();
  };
  if (asked && !computes_in(*asked)) {
    const std::string names = absl::StrJoin(computed, " or ", [](std::string* out, DType dtype) {
      absl::StrAppend(out, "--dtype ", DTypeName(dtype));
    });
    return absl::OutOfRangeError(absl::StrCat("--dtype: ", device.name, " does not compute in ",
                                              DTypeName(*asked), "; use ", names));
  }
  if (asked) return ServingDType{*asked, "as --dtype says"};
  if (computes_in(checkpoint)) return ServingDType{checkpoint, ""};
  return ServingDType{DType::kBF16, absl::StrCat("because ", device.name, " does not compute in ",
                                                 DTypeName(checkpoint))};
}

DType ChooseKvCacheDType(std::optional<DType> asked, const ModelConfig& model, DType dtype) {
  return asked.value_or(model.quantization.kv_cache().is_float8 ? DType::kF8E4M3 : dtype);
}

absl::StatusOr<LoadQuantization> ChooseLoadQuantization(LoadQuantization asked,
                                                        const ModelConfig& model, DType dtype,
                                                        const DeviceFacts& device) {
  if (asked == LoadQuantization::kNone || model.quantization.method() == "fp8") {
    return LoadQuantization::kNone;
  }
  if (model.quantization.quantized()) {
    return absl::OutOfRangeError(absl::StrCat(
        "--quantization: the checkpoint is quantized already (", model.quantization.method(),
        "), and is served as it is without this flag; or pass the model's bfloat16 checkpoint"));
  }
  if (!device.format_for(DeviceFormatOf(asked), dtype, false).weight.quantized()) {
    return absl::OutOfRangeError(absl::StrCat(
        "--quantization: ", device.info.name, " does not multiply FP8 weights by activations in ",
        DTypeName(dtype), "; leave it out, or use a Hopper GPU with --dtype bfloat16"));
  }
  return asked;
}

}  // namespace quire
