#include "tests/engine/model/quantization/test_planes.h"

#include <algorithm>

#include "kernels/base/status_macros.h"

namespace quire {

ModulePlanes TestModule::Planes() const {
  ModulePlanes planes;
  for (size_t i = 0; i < kNumPlanes; ++i) {
    if (bytes_[i].empty()) continue;
    planes[i] = {"m" + std::string(scheme_.suffixes[i]), dtypes_[i], bytes_[i]};
  }
  return planes;
}

absl::StatusOr<std::vector<uint8_t>> TestModule::Codes() const {
  const StoredRows all = {0, NumStoredRows(scheme_, shape_)};
  std::vector<uint8_t> codes(shape_.rows * shape_.columns);
  RETURN_IF_ERROR(
      UnpackCodes(scheme_, shape_, all, Planes()[0], RangeOf(scheme_, shape_, all), codes.data()));
  return codes;
}

absl::StatusOr<std::vector<float>> TestModule::Values() const {
  return DequantizeInPieces(scheme_, shape_, Planes(), 0);
}

absl::StatusOr<std::vector<float>> DequantizeInPieces(const WeightScheme& scheme,
                                                      const ModuleShape& shape,
                                                      const ModulePlanes& planes,
                                                      int64_t stored_rows) {
  ASSIGN_OR_RETURN(const WeightGroups groups, ReadGroups(scheme, shape, planes));
  const int64_t all_rows = NumStoredRows(scheme, shape);
  const int64_t row_bytes = StoredRowBytes(scheme, shape);
  if (stored_rows == 0) stored_rows = all_rows;
  std::vector<float> values(shape.rows * shape.columns);
  for (int64_t first = 0; first < all_rows; first += stored_rows) {
    const StoredRows stored = {first, std::min(stored_rows, all_rows - first)};
    PlaneBytes piece = planes[0];
    piece.data = piece.data.subspan(first * row_bytes, stored.count * row_bytes);
    const WeightRange range = RangeOf(scheme, shape, stored);
    std::vector<uint8_t> codes(range.num_rows * range.num_columns);
    RETURN_IF_ERROR(UnpackCodes(scheme, shape, stored, piece, range, codes.data()));
    std::vector<float> some(codes.size());
    Dequantize(scheme, groups, range, codes.data(), some.data());
    for (int64_t row = 0; row < range.num_rows; ++row) {
      std::copy_n(some.begin() + row * range.num_columns, range.num_columns,
                  values.begin() + (range.first_row + row) * shape.columns + range.first_column);
    }
  }
  return values;
}

}  // namespace quire
