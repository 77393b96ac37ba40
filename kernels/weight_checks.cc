#include "kernels/weight_checks.h"

#include "absl/strings/str_cat.h"
#include "kernels/base/check.h"
#include "kernels/float8_rows.h"

namespace quire {

namespace {

absl::Status CheckRange(const LinearWeight& weight, int64_t first_row, int64_t num_rows) {
  if (first_row >= 0 && num_rows <= weight.out_features - first_row) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("weight rows ", first_row, " to ",
                                                 first_row + num_rows, " are outside the ",
                                                 weight.out_features, " of the weight"));
}

}  // namespace

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
  if (group.float8_x) CHECK(NormedDType(*group.weights[0]) == DType::kF8E4M3);
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
  return CheckRange(weight, first_row, rows.dim(0));
}

absl::Status CheckQuantizedRows(const LinearWeight& weight, int64_t first_row,
                                const QuantizedRows& rows) {
  CheckWeight(weight);
  CHECK(weight.format.quantized());
  CHECK(rows.codes != nullptr && rows.scales != nullptr);
  CHECK_EQ(rows.row_scales != nullptr, weight.format.scale == ScaleValue::kFloat8);
  CHECK_EQ(rows.zero_points != nullptr, weight.format.zero_points);
  CHECK_EQ(rows.order != nullptr, weight.format.ordered);
  return CheckRange(weight, first_row, rows.num_rows);
}

}  // namespace quire
