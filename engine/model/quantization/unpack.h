// From the bytes of a module's tensors to what they mean: codes in the order of the weight, scales,
// zero points and the order of columns; and the exact float32 values. Piece by piece, so that a
// loader need not hold a module twice. Pure functions; any thread. Bytes are little-endian.
//
// The arithmetic is that of the packages that define the formats, in float32: a global scale is
// applied to a scale first, then the scale to the value, and each rounds once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/model/quantization/weight_scheme.h"

namespace quire {

// The bytes of one tensor as the file has them; of an expert in a stack, its part.
struct PlaneBytes {
  std::string name;                // for errors
  absl::string_view dtype = "";    // as safetensors names it
  absl::Span<const uint8_t> data;  // empty: the module has no such tensor
};
using ModulePlanes = std::array<PlaneBytes, kNumPlanes>;

// Everything of a weight but its values.
struct WeightGroups {
  GroupGrid grid;
  int64_t group_rows = 0;  // of the weight where the scheme says all
  int64_t group_columns = 0;
  // [grid.rows, grid.columns]: what a value of the group is multiplied by, the global scale
  // included.
  std::vector<float> scales;
  // The same before the global scale, as stored, where a scale is a byte (e4m3, E8M0).
  std::vector<uint8_t> scale_codes;
  float global_scale = 1.0f;  // as stored: the scheme says whether it divides
  // [grid.rows, grid.columns], of integers: what is subtracted from a code first. All are the
  // middle where the scheme has no zero points.
  std::vector<uint8_t> zero_points;
  // The group of each column; empty where that is column / group_columns.
  std::vector<int32_t> order;
  float input_scale = 1.0f;  // static scale of the activations; no gemm uses it

  int64_t GroupOfColumn(int64_t column) const {
    return order.empty() ? column / group_columns : order[column];
  }
  size_t GroupOf(int64_t row, int64_t column) const {
    return row / group_rows * grid.columns + GroupOfColumn(column);
  }
};

// Of all planes but the values, whose data is not looked at. INVALID_ARGUMENT, naming the tensor:
// scales that are NaN, infinite or so large that a value would be; that are below 0 (but AutoRound
// has such of integers); that are all 0 (single groups of 0 are: writers round the scale of a group
// of tiny values to it, and readers then see zeros); E8M0's 255; a place in an order that is no
// group; a shape that is another; zero points of a symmetric weight that are not the middle.
// Sizes were checked: the planes are those of StoredTensors.
absl::StatusOr<WeightGroups> ReadGroups(const WeightScheme& scheme, const ModuleShape& shape,
                                        const ModulePlanes& planes);

// The order alone, as in WeightGroups, with its errors; `plane` may have no data.
absl::StatusOr<std::vector<int32_t>> ReadOrder(const WeightScheme& scheme, const ModuleShape& shape,
                                               const PlaneBytes& plane);

// Columns by group, those of a group in their order: sorted so, groups are contiguous. For weights
// with an order.
std::vector<int32_t> ColumnsByGroup(const WeightGroups& groups);

// A rectangle of the weight.
struct WeightRange {
  int64_t first_row = 0;
  int64_t num_rows = 0;
  int64_t first_column = 0;
  int64_t num_columns = 0;
  bool operator==(const WeightRange&) const = default;
};

// A part of the values' tensor: elements of its first dimension (of a row's bytes for gpt-oss), so
// contiguous in the file.
struct StoredRows {
  int64_t first = 0;
  int64_t count = 0;
};

int64_t NumStoredRows(const WeightScheme& scheme, const ModuleShape& shape);
int64_t StoredRowBytes(const WeightScheme& scheme, const ModuleShape& shape);
// What they hold: rows of the weight, or of transposed packings columns.
WeightRange RangeOf(const WeightScheme& scheme, const ModuleShape& shape, StoredRows stored);

// Writes the codes of `range`, a byte each, row by row: unsigned integers, e4m3, or e2m1 in the low
// half. `values` has the stored rows alone, which hold the range. INVALID_ARGUMENT when an e4m3 is
// NaN.
absl::Status UnpackCodes(const WeightScheme& scheme, const ModuleShape& shape, StoredRows stored,
                         const PlaneBytes& values, const WeightRange& range, uint8_t* codes);

// The values of the codes of a range.
void Dequantize(const WeightScheme& scheme, const WeightGroups& groups, const WeightRange& range,
                const uint8_t* codes, float* out);

// What a code stands for.
float E2M1Value(uint8_t code);
float E4M3Value(uint8_t code);  // NaN of 0x7f and 0xff
float E8M0Value(uint8_t code);  // 2^(code - 127); NaN of 255

}  // namespace quire
