#include "engine/model/weights/quantized_module.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/base/check.h"
#include "kernels/base/status_macros.h"
#include "kernels/base/types.h"
#include "kernels/packed_codes.h"

namespace quire {
namespace {

// The bytes of one read, where a part of the values is read at a time.
constexpr int64_t kReadBytes = 2 << 20;

const Checkpoint::Entry* EntryOf(const ModuleTensors& tensors, Plane plane) {
  return tensors[static_cast<size_t>(plane)];
}

ColumnOrder OrderOf(const WeightGroups& groups) {
  if (groups.order.empty()) return {};
  std::vector<int32_t> columns = ColumnsByGroup(groups);
  for (size_t i = 0; i < columns.size(); ++i) {
    const int64_t group = static_cast<int64_t>(i) / groups.group_columns;
    if (groups.order[columns[i]] != group) return {.even = false, .columns = {}};
  }
  return {.columns = std::move(columns)};
}

// Scales and zero points of some rows at a time, each row with its own.
class GroupRows {
 public:
  GroupRows(const WeightFormat& format, const WeightGroups& groups, int gain)
      : format_(format), groups_(groups), gain_(gain) {}

  QuantizedRows Of(int64_t first_row, int64_t num_rows) {
    const int64_t num_groups = groups_.grid.columns;
    scales_.resize(num_rows * num_groups * BytesOf(format_.scale));
    zero_points_.resize(format_.zero_points ? num_rows * num_groups : 0);
    for (int64_t i = 0; i < num_rows; ++i) {
      const int64_t from = (first_row + i) / groups_.group_rows * num_groups;
      const int64_t to = i * num_groups;
      const void* const scales = format_.scale == ScaleValue::kFloat32
                                     ? static_cast<const void*>(groups_.scales.data() + from)
                                     : groups_.scale_codes.data() + from;
      std::memcpy(scales_.data() + to * BytesOf(format_.scale), scales,
                  num_groups * BytesOf(format_.scale));
      for (int64_t g = 0; g < num_groups && format_.zero_points; ++g) {
        zero_points_[to + g] = static_cast<uint8_t>(groups_.zero_points[from + g] + gain_);
      }
    }
    row_scales_.assign(format_.scale == ScaleValue::kFloat8 ? num_rows : 0, groups_.global_scale);
    return {.num_rows = num_rows,
            .scales = scales_.data(),
            .row_scales = row_scales_.empty() ? nullptr : row_scales_.data(),
            .zero_points = zero_points_.empty() ? nullptr : zero_points_.data()};
  }

 private:
  const WeightFormat format_;
  const WeightGroups& groups_;
  const int gain_;
  std::vector<char> scales_;
  std::vector<float> row_scales_;
  std::vector<uint8_t> zero_points_;
};

}  // namespace

absl::StatusOr<QuantizedModule> QuantizedModule::Find(const WeightScheme& scheme,
                                                      const ModuleShape& shape,
                                                      const std::string& name,
                                                      const Checkpoint& checkpoint,
                                                      int64_t expert) {
  ASSIGN_OR_RETURN(const ModuleTensors tensors, FindModuleTensors(scheme, shape, name, checkpoint));
  return QuantizedModule(scheme, shape, tensors, expert);
}

int64_t QuantizedModule::SizeOf(const Checkpoint::Entry& entry) const {
  return (entry.tensor->end - entry.tensor->begin) / std::max<int64_t>(1, shape_.num_experts);
}

absl::StatusOr<PlaneBytes> QuantizedModule::ReadPlane(const Checkpoint::Entry& entry,
                                                      int64_t offset, int64_t bytes,
                                                      std::vector<uint8_t>* buffer) const {
  buffer->resize(bytes);
  RETURN_IF_ERROR(
      entry.file->Read(*entry.tensor, expert_ * SizeOf(entry) + offset, bytes, buffer->data()));
  return PlaneBytes{.name = entry.tensor->name, .dtype = entry.tensor->dtype_name, .data = *buffer};
}

std::vector<std::string> QuantizedModule::TensorNames() const {
  std::vector<std::string> names;
  for (const Checkpoint::Entry* entry : tensors_) {
    if (entry != nullptr) names.push_back(entry->tensor->name);
  }
  return names;
}

int64_t QuantizedModule::StoredBytes() const {
  int64_t bytes = 0;
  for (const Checkpoint::Entry* entry : tensors_) {
    if (entry != nullptr) bytes += SizeOf(*entry);
  }
  return bytes;
}

absl::StatusOr<WeightGroups> QuantizedModule::ReadGroupPlanes() const {
  ModulePlanes planes;
  std::array<std::vector<uint8_t>, kNumPlanes> buffers;
  for (size_t i = 0; i < kNumPlanes; ++i) {
    const Checkpoint::Entry* entry = tensors_[i];
    if (entry == nullptr || i == static_cast<size_t>(Plane::kValues)) continue;
    ASSIGN_OR_RETURN(planes[i], ReadPlane(*entry, 0, SizeOf(*entry), &buffers[i]));
  }
  return ReadGroups(scheme_, shape_, planes);
}

bool QuantizedModule::HasPackedCodes() const {
  const WeightPacking packing = scheme_.packing;
  const bool is_packed = packing == WeightPacking::kFloat4 || packing == WeightPacking::kPackedRows;
  return is_packed && scheme_.bits == 4 && shape_.columns % 2 == 0 &&
         StoredRowBytes(scheme_, shape_) == shape_.columns / 2;
}

absl::Status QuantizedModule::ForEachPiece(int64_t max_rows, bool unpacks, UseCodes use) const {
  const Checkpoint::Entry& values = *EntryOf(tensors_, Plane::kValues);
  const int64_t num_stored = NumStoredRows(scheme_, shape_);
  const int64_t stored_bytes = StoredRowBytes(scheme_, shape_);
  // A transposed weight has something of all rows in each of its own, so that it is read whole.
  const bool has_rows = RangeOf(scheme_, shape_, {0, 1}).num_columns == shape_.columns;
  const int64_t rows_per_read =
      has_rows ? std::min(max_rows, std::max<int64_t>(1, kReadBytes / stored_bytes)) : num_stored;
  std::vector<uint8_t> stored, codes;
  for (int64_t first = 0; first < num_stored; first += rows_per_read) {
    const StoredRows part = {first, std::min(rows_per_read, num_stored - first)};
    ASSIGN_OR_RETURN(const PlaneBytes plane, ReadPlane(values, part.first * stored_bytes,
                                                       part.count * stored_bytes, &stored));
    const WeightRange held = RangeOf(scheme_, shape_, part);
    for (int64_t row = held.first_row; row < held.first_row + held.num_rows; row += max_rows) {
      const int64_t num_rows = std::min(max_rows, held.first_row + held.num_rows - row);
      const WeightRange range = {row, num_rows, 0, shape_.columns};
      if (!unpacks) {
        RETURN_IF_ERROR(use(range, stored.data() + (row - held.first_row) * stored_bytes));
        continue;
      }
      codes.resize(num_rows * shape_.columns);
      RETURN_IF_ERROR(UnpackCodes(scheme_, shape_, part, plane, range, codes.data()));
      RETURN_IF_ERROR(use(range, codes.data()));
    }
  }
  return absl::OkStatus();
}

absl::Status QuantizedModule::Read(int64_t max_rows, Target target, Take take) const {
  ASSIGN_OR_RETURN(const WeightGroups groups, ReadGroupPlanes());
  return ForEachPiece(max_rows, /*unpacks=*/true,
                      [&](const WeightRange& range, uint8_t* codes) -> absl::Status {
                        ASSIGN_OR_RETURN(float* const out, target());
                        Dequantize(scheme_, groups, range, codes, out);
                        return take(range.first_row, range.num_rows);
                      });
}

bool QuantizedModule::HasOrder() const { return EntryOf(tensors_, Plane::kOrder) != nullptr; }

absl::StatusOr<ColumnOrder> QuantizedModule::ReadOrder() const {
  if (!HasOrder()) return ColumnOrder();
  const Checkpoint::Entry& entry = *EntryOf(tensors_, Plane::kOrder);
  std::vector<uint8_t> bytes;
  ASSIGN_OR_RETURN(const PlaneBytes plane, ReadPlane(entry, 0, SizeOf(entry), &bytes));
  WeightGroups groups;
  groups.group_columns = scheme_.group_columns;  // of a whole row there is one, and so no order
  ASSIGN_OR_RETURN(groups.order, quire::ReadOrder(scheme_, shape_, plane));
  return OrderOf(groups);
}

absl::Status QuantizedModule::ReadCodes(const WeightFormat& format, int64_t max_rows,
                                        TakeCodes take) const {
  ASSIGN_OR_RETURN(const WeightGroups groups, ReadGroupPlanes());
  const ColumnOrder column_order = OrderOf(groups);
  const std::vector<int32_t>& order = column_order.columns;
  if (!column_order.even || format.ordered == order.empty()) {
    CHECK(HasOrder());
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", EntryOf(tensors_, Plane::kOrder)->tensor->name,
                     " is another than it was when the model began to load: start again"));
  }
  // What a code gains when its bits become those of the format, so that the middles agree.
  const int gain = scheme_.IsInteger()
                       ? (1 << (BitsOf(format.value) - 1)) - (1 << (scheme_.code_bits() - 1))
                       : 0;
  GroupRows rows(format, groups, gain);
  const bool as_they_lie = gain == 0 && order.empty() && HasPackedCodes();
  const int64_t row_bytes = CodeRowBytes(format.value, shape_.columns);
  std::vector<uint8_t> sorted(order.size());
  return ForEachPiece(max_rows, !as_they_lie,
                      [&](const WeightRange& range, uint8_t* codes) -> absl::Status {
                        // In place: no row becomes longer.
                        for (int64_t i = 0; i < range.num_rows && !as_they_lie; ++i) {
                          uint8_t* const row = codes + i * shape_.columns;
                          if (gain != 0) {
                            for (int64_t j = 0; j < shape_.columns; ++j) {
                              row[j] = static_cast<uint8_t>(row[j] + gain);
                            }
                          }
                          for (size_t j = 0; j < order.size(); ++j) sorted[j] = row[order[j]];
                          const uint8_t* const from = order.empty() ? row : sorted.data();
                          uint8_t* const to = codes + i * row_bytes;
                          if (from != to || row_bytes < shape_.columns) {
                            PackCodes(format.value, from, shape_.columns, to);
                          }
                        }
                        QuantizedRows piece = rows.Of(range.first_row, range.num_rows);
                        piece.codes = codes;
                        piece.order = order.empty() ? nullptr : order.data();
                        return take(range.first_row, piece);
                      });
}

}  // namespace quire
