#include "kernels/weight_checks.h"

#include "absl/strings/str_cat.h"
#include "kernels/base/check.h"

namespace quire {

bool IsActivation(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
}

void CheckVector(const Tensor& tensor, int64_t size) {
  CHECK_EQ(tensor.rank(), 1);
  CHECK(IsActivation(tensor.dtype())) << DTypeName(tensor.dtype());
  CHECK_EQ(tensor.dim(0), size);
}

void CheckWeight(const LinearWeight& weight) {
  CHECK(weight.data != nullptr);
  CHECK(IsActivation(weight.dtype)) << DTypeName(weight.dtype);
  CHECK_GE(weight.out_features, 1);
  CHECK_GE(weight.in_features, 1);
}

void CheckLinearGroup(const LinearGroup& group) {
  CHECK(!group.weights.empty());
  CHECK_GE(group.max_num_rows, 1);
  CHECK(group.out_dtype == group.weights[0]->dtype || group.out_dtype == DType::kF32)
      << DTypeName(group.out_dtype);
  for (const LinearWeight* weight : group.weights) {
    CheckWeight(*weight);
    CHECK(weight->dtype == group.weights[0]->dtype) << DTypeName(weight->dtype);
    CHECK_EQ(weight->out_features, group.weights[0]->out_features);
    CHECK_EQ(weight->in_features, group.weights[0]->in_features);
  }
  if (!group.bias.empty()) CheckVector(group.bias, group.weights[0]->out_features);
}

absl::Status CheckWeightRows(const LinearWeight& weight, int64_t first_row, const Tensor& rows) {
  CheckWeight(weight);
  if (!IsActivation(rows.dtype()) || rows.rank() != 2 || rows.dim(1) != weight.in_features) {
    return absl::InvalidArgumentError(
        absl::StrCat("weight rows must be float32, bfloat16 or float16 [n, ", weight.in_features,
                     "]; these are ", DTypeName(rows.dtype()), " of rank ", rows.rank(), " with ",
                     rows.rank() == 2 ? rows.dim(1) : 0, " columns"));
  }
  if (first_row < 0 || rows.dim(0) > weight.out_features - first_row) {
    return absl::InvalidArgumentError(absl::StrCat("weight rows ", first_row, " to ",
                                                   first_row + rows.dim(0), " are outside the ",
                                                   weight.out_features, " of the weight"));
  }
  return absl::OkStatus();
}

}  // namespace quire
