#include "kernels/weight_format.h"

#include "absl/strings/str_cat.h"

namespace quire {

std::string Describe(const WeightFormat& format) {
  static constexpr const char* kNames[] = {"16 or 32 bits", "fp8", "int8", "int4", "fp4"};
  std::string text = kNames[static_cast<size_t>(format.value)];
  if (!format.quantized()) return text;
  absl::StrAppend(&text, format.group_columns == 0
                             ? ", a scale for each row"
                             : absl::StrCat(", groups of ", format.group_columns));
  if (format.zero_points) absl::StrAppend(&text, ", zero points");
  if (format.ordered) absl::StrAppend(&text, ", ordered columns");
  return text;
}

}  // namespace quire
