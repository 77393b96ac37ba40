// Reads the bytes of a module's tensors: codes in the order of the weight, scales, zero points and
// the order of columns; and the exact float32 values. It works piece by piece, so that a loader
// need not hold a module twice. Pure functions; any thread. Bytes are little-endian.
//
// The arithmetic is the same as in the packages that define the formats, in float32: a global scale
// is applied to a scale first, then the scale to the value. Each of the two steps rounds once.
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

// The bytes of one tensor as the file has them; for an expert in a stack, only its part.
struct PlaneBytes {
  std::string name;                // for errors
  absl::string_view dtype = "";    // as safetensors names it
  absl::Span<const uint8_t> data;  // empty: the module has no such tensor
};
using ModulePlanes = std::array<PlaneBytes, kNumPlanes>;

// Everything of a weight except its values.
struct WeightGroups {
  GroupGrid grid;
  int64_t group_rows = 0;  // all rows of the weight, if the scheme says so
  int64_t group_columns = 0;
  // [grid.rows, grid.columns]: the factor of the group's values, including the global scale.
  std::vector<float> scales;
  // The same before the global scale, as stored, if a scale is a byte (e4m3, E8M0).
  std::vector<uint8_t> scale_codes;
  float global_scale = 1.0f;  // as stored: the scheme says whether it divides
  // [grid.rows, grid.columns], for integers: the number that is subtracted from a code first. If
  // the scheme has no zero points, all are the middle.
  std::vector<uint8_t> zero_points;
  // The group of each column; empty if it is column / group_columns.
  std::vector<int32_t> order;
  float input_scale = 1.0f;  // static scale of the activations; no gemm uses it

  int64_t GroupOfColumn(int64_t column) const {
    return order.empty() ? column / group_columns : order[column];
  }
  size_t GroupOf(int64_t row, int64_t column) const {
    return row / group_rows * grid.columns + GroupOfColumn(column);
  }
};

// Reads all planes except the values, whose data it does not look at. Sizes were checked before:
// the planes come from StoredTensors. INVALID_ARGUMENT, naming the tensor, for these: scales that
// are NaN or infinite, or so large that a value would be; scales below 0 (except for integers,
// where AutoRound has them); scales that are all 0 (a single 0 is allowed: writers round the scale
// of a group of tiny values to 0, and readers then see zeros); E8M0's 255; an entry of an order
// that is no group; another shape; zero points of a symmetric weight that are not the middle.
absl::StatusOr<WeightGroups> ReadGroups(const WeightScheme& scheme, const ModuleShape& shape,
                                        const ModulePlanes& planes);

// Reads only the order, as in WeightGroups, with its errors; `plane` may have no data.
absl::StatusOr<std::vector<int32_t>> ReadOrder(const WeightScheme& scheme, const ModuleShape& shape,
                                               const PlaneBytes& plane);

// The columns sorted by group, so that groups are contiguous; the columns of a group stay in their
// order. For weights with an order.
std::vector<int32_t> ColumnsByGroup(const WeightGroups& groups);

// A rectangle of the weight.
struct WeightRange {
  int64_t first_row = 0;
  int64_t num_rows = 0;
  int64_t first_column = 0;
  int64_t num_columns = 0;
  bool operator==(const WeightRange&) const = default;
};

// A part of the values' tensor: elements of its first dimension (for gpt-oss, of a row's bytes), so
// that they are contiguous in the file.
struct StoredRows {
  int64_t first = 0;
  int64_t count = 0;
};

int64_t NumStoredRows(const WeightScheme& scheme, const ModuleShape& shape);
int64_t StoredRowBytes(const WeightScheme& scheme, const ModuleShape& shape);
// The rows of the weight that they hold; its columns if the packing is transposed.
WeightRange RangeOf(const WeightScheme& scheme, const ModuleShape& shape, StoredRows stored);

// Writes the codes of `range`, a byte each, row by row: unsigned integers, e4m3, or e2m1 in the low
// half. `values` has only the stored rows that hold the range. INVALID_ARGUMENT when an e4m3 code
// is NaN.
absl::Status UnpackCodes(const WeightScheme& scheme, const ModuleShape& shape, StoredRows stored,
                         const PlaneBytes& values, const WeightRange& range, uint8_t* codes);

// The values of the codes of a range.
void Dequantize(const WeightScheme& scheme, const WeightGroups& groups, const WeightRange& range,
                const uint8_t* codes, float* out);

// The value of a code.
float E2M1Value(uint8_t code);
float E4M3Value(uint8_t code);  // NaN for 0x7f and 0xff
float E8M0Value(uint8_t code);  // 2^(code - 127); NaN for 255

}  // namespace quire
