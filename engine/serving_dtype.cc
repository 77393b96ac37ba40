#include "engine/serving_dtype.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

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

}  // namespace quire
