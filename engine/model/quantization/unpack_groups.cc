#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "engine/model/quantization/packed_fields.h"
#include "engine/model/quantization/unpack.h"
#include "kernels/base/check.h"
#include "kernels/base/dtype.h"
#include "kernels/base/half.h"
#include "kernels/base/status_macros.h"

namespace quire {
namespace {

const PlaneBytes& PlaneOf(const ModulePlanes& planes, Plane plane) {
  return planes[static_cast<size_t>(plane)];
}

absl::Status TensorError(const PlaneBytes& plane, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("tensor ", plane.name, " ", what, ": download or quantize the model again"));
}

template <typename T>
T LoadAt(const PlaneBytes& plane, size_t index) {
  T value;
  std::memcpy(&value, plane.data.data() + index * sizeof(T), sizeof(T));
  return value;
}

// The element of a tensor of any of the dtypes of scales.
float ScaleAt(const PlaneBytes& plane, size_t index) {
  if (plane.dtype == "F32") return LoadAt<float>(plane, index);
  if (plane.dtype == "BF16") return static_cast<float>(LoadAt<BFloat16>(plane, index));
  if (plane.dtype == "F16") return HalfToFloat(LoadAt<uint16_t>(plane, index));
  if (plane.dtype == "F8_E4M3") return E4M3Value(plane.data[index]);
  CHECK(plane.dtype == "U8" || plane.dtype == "F8_E8M0") << plane.dtype;
  return E8M0Value(plane.data[index]);
}

int64_t IntegerAt(const PlaneBytes& plane, size_t index) {
  return plane.dtype == "I64" ? LoadAt<int64_t>(plane, index) : LoadAt<int32_t>(plane, index);
}

// Where the element of a group is in a tensor of one element a group.
size_t StoredIndex(const WeightScheme& scheme, const GroupGrid& grid, int64_t row, int64_t column) {
  return IsTransposed(scheme.packing) ? column * grid.rows + row : row * grid.columns + column;
}

float MaxCodeValue(const WeightScheme& scheme) {
  switch (scheme.packing) {
    case WeightPacking::kFloat8:
      return 448.0f;
    case WeightPacking::kFloat4:
      return 6.0f;
    default:
      return static_cast<float>((1 << scheme.code_bits()) - 1);
  }
}

absl::Status ReadGlobalScale(const WeightScheme& scheme, const ModulePlanes& planes,
                             WeightGroups* groups) {
  if (scheme.global_scale == GlobalScale::kNone) return absl::OkStatus();
  const PlaneBytes& plane = PlaneOf(planes, Plane::kGlobalScale);
  groups->global_scale = ScaleAt(plane, 0);
  if (std::isfinite(groups->global_scale) && groups->global_scale > 0) return absl::OkStatus();
  return TensorError(plane, absl::StrCat("is ", groups->global_scale,
                                         "; the scale of a weight is finite and above 0"));
}

absl::Status CheckScale(const WeightScheme& scheme, const PlaneBytes& plane, float stored,
                        float scale) {
  // AutoRound's symmetric integers: -8 stands for the end that is farther from 0.
  const bool may_be_negative = scheme.IsInteger();
  if (std::isfinite(stored) && (stored >= 0 || may_be_negative)) {
    if (std::isfinite(scale * MaxCodeValue(scheme))) return absl::OkStatus();
    return TensorError(
        plane, absl::StrCat("has a scale of ", stored, ", with which weights are not finite"));
  }
  return TensorError(plane, absl::StrCat("has a scale of ", stored, "; scales are finite",
                                         may_be_negative ? "" : " and not below 0"));
}

absl::Status ReadScales(const WeightScheme& scheme, const ModulePlanes& planes,
                        WeightGroups* groups) {
  const PlaneBytes& plane = PlaneOf(planes, Plane::kScales);
  const GroupGrid& grid = groups->grid;
  groups->scales.resize(grid.rows * grid.columns);
  const bool keeps_codes = scheme.scale_type != ScaleType::kFloat;
  if (keeps_codes) groups->scale_codes.resize(groups->scales.size());
  bool all_zero = true;
  for (int64_t row = 0; row < grid.rows; ++row) {
    for (int64_t column = 0; column < grid.columns; ++column) {
      const size_t index = StoredIndex(scheme, grid, row, column);
      const size_t group = row * grid.columns + column;
      const float stored = ScaleAt(plane, index);
      float scale = stored;
      if (scheme.global_scale == GlobalScale::kFactor) scale *= groups->global_scale;
      if (scheme.global_scale == GlobalScale::kDivisor) scale /= groups->global_scale;
      RETURN_IF_ERROR(CheckScale(scheme, plane, stored, scale));
      if (keeps_codes) groups->scale_codes[group] = plane.data[index];
      groups->scales[group] = scale;
      all_zero = all_zero && stored == 0;
    }
  }
  if (!all_zero) return absl::OkStatus();
  return TensorError(plane, "has no scale but 0");
}

uint32_t StoredZeroPoint(const WeightScheme& scheme, const PlaneBytes& plane, const GroupGrid& grid,
                         int64_t row, int64_t column) {
  const uint8_t* data = plane.data.data();
  switch (scheme.packing) {
    case WeightPacking::kPackedRows:
      // Words hold a column of the grid: row i begins at bit i * bits of the column.
      return FieldDown(data, grid.columns, column, row, scheme.bits);
    case WeightPacking::kGptq:
      return FieldAlong(data + column * grid.rows * scheme.bits / 8, row, scheme.bits);
    case WeightPacking::kAwq:
      return FieldAlong(data + column * grid.rows * scheme.bits / 8, AwqField(row), scheme.bits);
    default:
      // Of int8: as far from the middle as the stored one from 0.
      return data[StoredIndex(scheme, grid, row, column)] ^ 0x80u;
  }
}

absl::Status ReadZeroPoints(const WeightScheme& scheme, const ModulePlanes& planes,
                            WeightGroups* groups) {
  if (!scheme.IsInteger()) return absl::OkStatus();
  const GroupGrid& grid = groups->grid;
  const auto middle = static_cast<uint8_t>(1u << (scheme.code_bits() - 1));
  groups->zero_points.assign(grid.rows * grid.columns, middle);
  const PlaneBytes& plane = PlaneOf(planes, Plane::kZeroPoints);
  if (plane.data.empty()) return absl::OkStatus();
  if (!scheme.zero_points && scheme.packing == WeightPacking::kPackedRows) {
    // As packed or as signed integers; 0 is the middle of these, and what is no number of those.
    const bool is_zero =
        std::all_of(plane.data.begin(), plane.data.end(), [](uint8_t byte) { return byte == 0; });
    if (is_zero) return absl::OkStatus();
    if (plane.dtype != "I32") return TensorError(plane, "is not 0, but the weight is symmetric");
  }
  const uint32_t mask = (1u << scheme.code_bits()) - 1;
  for (int64_t row = 0; row < grid.rows; ++row) {
    for (int64_t column = 0; column < grid.columns; ++column) {
      const uint32_t stored = StoredZeroPoint(scheme, plane, grid, row, column);
      const uint32_t zero = (stored + scheme.zero_offset) & mask;
      groups->zero_points[row * grid.columns + column] = static_cast<uint8_t>(zero);
      if (scheme.zero_points || zero == middle) continue;
      return TensorError(
          plane, absl::StrCat("has a zero point of ", zero,
                              ", but that of a "
                              "symmetric weight is ",
                              static_cast<int>(middle), " (see sym, and format: gptq or gptq_v2)"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckShape(const ModuleShape& shape, const ModulePlanes& planes) {
  const PlaneBytes& plane = PlaneOf(planes, Plane::kShape);
  if (plane.data.empty()) return absl::OkStatus();
  const size_t size = plane.data.size() / (plane.dtype == "I64" ? 8 : 4);
  const int64_t rows = IntegerAt(plane, size - 2);
  const int64_t columns = IntegerAt(plane, size - 1);
  if (rows == shape.rows && columns == shape.columns) return absl::OkStatus();
  return TensorError(
      plane, absl::StrCat("says ", rows, " x ", columns, ", but config.json implies ", shape.rows,
                          " x ", shape.columns));
}

absl::Status ReadInputScale(const WeightScheme& scheme, const ModulePlanes& planes,
                            WeightGroups* groups) {
  if (scheme.activations != ActivationScheme::kE4M3PerTensor) return absl::OkStatus();
  const PlaneBytes& plane = PlaneOf(planes, Plane::kInputScale);
  if (plane.data.empty()) return absl::OkStatus();
  groups->input_scale = ScaleAt(plane, 0);
  if (std::isfinite(groups->input_scale) && groups->input_scale > 0) return absl::OkStatus();
  return TensorError(plane, absl::StrCat("is ", groups->input_scale,
                                         "; the scale of activations is finite and above 0"));
}

}  // namespace

float E2M1Value(uint8_t code) {
  constexpr float kValues[] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                               -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
  return kValues[code & 0xf];
}

float E8M0Value(uint8_t code) {
  if (code == 255) return std::numeric_limits<float>::quiet_NaN();
  // 2^-127 is below the least normal number.
  const uint32_t bits = code == 0 ? 1u << 22 : static_cast<uint32_t>(code) << 23;
  return std::bit_cast<float>(bits);
}

absl::StatusOr<std::vector<int32_t>> ReadOrder(const WeightScheme& scheme, const ModuleShape& shape,
                                               const PlaneBytes& plane) {
  std::vector<int32_t> order;
  if (plane.data.empty()) return order;
  const int64_t num_groups = GridOf(scheme, shape).columns;
  const int64_t group_columns = scheme.group_columns == 0 ? shape.columns : scheme.group_columns;
  order.resize(shape.columns);
  bool is_unset = true;  // -1 everywhere: the columns are in order
  bool is_plain = true;
  for (int64_t column = 0; column < shape.columns; ++column) {
    const int64_t group = IntegerAt(plane, column);
    is_unset = is_unset && group == -1;
    if (!is_unset && (group < 0 || group >= num_groups)) {
      return TensorError(plane, absl::StrCat("has group ", group, " for column ", column,
                                             "; the weight has groups 0 to ", num_groups - 1));
    }
    is_plain = is_plain && group == column / group_columns;
    order[column] = static_cast<int32_t>(group);
  }
  if (!is_unset && order[0] == -1) return TensorError(plane, "has group -1 for column 0");
  if (is_unset || is_plain) order.clear();
  return order;
}

absl::StatusOr<WeightGroups> ReadGroups(const WeightScheme& scheme, const ModuleShape& shape,
                                        const ModulePlanes& planes) {
  CHECK(scheme.quantized());
  WeightGroups groups;
  groups.grid = GridOf(scheme, shape);
  groups.group_rows = scheme.group_rows == 0 ? shape.rows : scheme.group_rows;
  groups.group_columns = scheme.group_columns == 0 ? shape.columns : scheme.group_columns;
  RETURN_IF_ERROR(CheckShape(shape, planes));
  RETURN_IF_ERROR(ReadGlobalScale(scheme, planes, &groups));
  RETURN_IF_ERROR(ReadScales(scheme, planes, &groups));
  RETURN_IF_ERROR(ReadZeroPoints(scheme, planes, &groups));
  ASSIGN_OR_RETURN(groups.order, ReadOrder(scheme, shape, PlaneOf(planes, Plane::kOrder)));
  RETURN_IF_ERROR(ReadInputScale(scheme, planes, &groups));
  return groups;
}

std::vector<int32_t> ColumnsByGroup(const WeightGroups& groups) {
  std::vector<int32_t> columns(groups.order.size());
  std::iota(columns.begin(), columns.end(), 0);
  std::stable_sort(columns.begin(), columns.end(),
                   [&](int32_t a, int32_t b) { return groups.order[a] < groups.order[b]; });
  return columns;
}

}  // namespace quire
