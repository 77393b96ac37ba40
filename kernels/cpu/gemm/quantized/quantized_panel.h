// The layout of a quantized LinearWeight on the CPU: panels of kPanelFeatures output features, each
// contiguous, so that a matrix-vector gemm reads memory in order. A panel is the scales of its
// rows, if any, and its groups one after the other; a group is its scales, zero points and sums, if
// any, and then its units: kUnitBytes with a 32-bit word of each feature, which holds 32 / bits
// neighbouring columns, the first one in the low bits. A group ends with a whole unit; columns
// beyond are zero, as is x there. The order of columns lies behind the panels.
#pragma once

#include <cstdint>

#include "kernels/cpu/gemm/packing.h"
#include "kernels/linear_weight.h"
#include "kernels/weight_store.h"

namespace quire::cpu {

inline constexpr int64_t kUnitBytes = kPanelFeatures * 4;

struct QuantizedLayout {
  explicit QuantizedLayout(const LinearWeight& weight);

  const WeightFormat format;
  const int64_t in_features;
  const int64_t num_panels;
  const int64_t num_groups;
  const int64_t group_columns;    // of all groups but perhaps the last
  const int64_t unit_columns;     // 4 or 8
  const int64_t group_units;      // of all groups but perhaps the last
  const int64_t row_scale_bytes;  // of a panel: kPanelFeatures float32, or 0
  const int64_t scale_bytes;      // of a group: kPanelFeatures scales
  const int64_t zero_bytes;       // kPanelFeatures bytes, or 0
  const int64_t sum_bytes;        // kPanelFeatures int32 sums of the codes, or 0
  const int64_t group_bytes;      // of all groups but perhaps the last
  const int64_t panel_bytes;

  int64_t header_bytes() const { return scale_bytes + zero_bytes + sum_bytes; }
  const char* GroupOf(const char* panel, int64_t group) const {
    return panel + row_scale_bytes + group * group_bytes;
  }
  const uint32_t* WordsOf(const char* panel, int64_t group) const {  // of its first unit
    return reinterpret_cast<const uint32_t*>(GroupOf(panel, group) + header_bytes());
  }
  int64_t ColumnsOf(int64_t group) const;  // without padding
  int64_t UnitsOf(int64_t group) const;
  int64_t padded_columns() const;                            // of all groups, whole units
  int64_t size_bytes() const;                                // of the weight
  const int32_t* OrderOf(const LinearWeight& weight) const;  // null: columns are in order
};

// Writes rows to features first_row... of the weight. Touches what belongs to these rows only, so
// disjoint ranges may be packed at the same time.
void PackQuantizedRows(const LinearWeight& weight, int64_t first_row, const QuantizedRows& rows);

// Codes of the random weights of kernels/base/random_weight.h, every group with the same scale; the
// columns of an ordered weight in their order.
void FillQuantized(const LinearWeight& weight, const FillWeightArgs& args, ThreadPool& pool);

}  // namespace quire::cpu
