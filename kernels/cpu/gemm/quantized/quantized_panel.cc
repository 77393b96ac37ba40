#include "kernels/cpu/gemm/quantized/quantized_panel.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "kernels/base/check.h"
#include "kernels/base/float8.h"
#include "kernels/base/random_weight.h"
#include "kernels/base/types.h"
#include "kernels/packed_codes.h"
#include "kernels/random_codes.h"

namespace quire::cpu {

namespace {

bool HasSums(const LinearWeight& weight) {
  return weight.activations.value == ActivationValue::kInt8;
}

// Where a feature's parts of a group are.
struct GroupOfFeature {
  char* scale;
  uint8_t* zero_point;
  int32_t* sum;
  uint32_t* words;  // of its first unit; those of the next one are kPanelFeatures later
};

GroupOfFeature Locate(const QuantizedLayout& layout, void* data, int64_t row, int64_t group) {
  char* const begin = static_cast<char*>(data) + row / kPanelFeatures * layout.panel_bytes +
                      layout.row_scale_bytes + group * layout.group_bytes;
  const int64_t feature = row % kPanelFeatures;
  char* const zeros = begin + layout.scale_bytes;
  char* const sums = zeros + layout.zero_bytes;
  return {.scale = begin + feature * BytesOf(layout.format.scale),
          .zero_point = reinterpret_cast<uint8_t*>(zeros) + feature,
          .sum = reinterpret_cast<int32_t*>(sums) + feature,
          .words = reinterpret_cast<uint32_t*>(begin + layout.header_bytes()) + feature};
}

// Integers are kept in two's complement, less their middle.
uint32_t StoredCode(WeightValue value, uint8_t code) {
  switch (value) {
    case WeightValue::kInt4:
      return (code ^ 8u) & 15u;
    case WeightValue::kInt8:
      return code ^ 128u;
    default:
      return code;
  }
}

}  // namespace

QuantizedLayout::QuantizedLayout(const LinearWeight& weight)
    : format(weight.format),
      in_features(weight.in_features),
      num_panels(NumPanels(weight)),
      num_groups(NumGroups(format, in_features)),
      group_columns(format.group_columns == 0 ? in_features : format.group_columns),
      unit_columns(32 / BitsOf(format.value)),
      group_units(CeilDiv(group_columns, unit_columns)),
      row_scale_bytes(format.scale == ScaleValue::kFloat8 ? kPanelFeatures * 4 : 0),
      scale_bytes(kPanelFeatures * BytesOf(format.scale)),
      zero_bytes(format.zero_points ? kPanelFeatures : 0),
      sum_bytes(HasSums(weight) ? kPanelFeatures * 4 : 0),
      group_bytes(scale_bytes + zero_bytes + sum_bytes + group_units * kUnitBytes),
      panel_bytes(row_scale_bytes + (num_groups - 1) * group_bytes + header_bytes() +
                  UnitsOf(num_groups - 1) * kUnitBytes) {
  CHECK(format.quantized());
}

int64_t QuantizedLayout::ColumnsOf(int64_t group) const {
  return std::min(group_columns, in_features - group * group_columns);
}

int64_t QuantizedLayout::UnitsOf(int64_t group) const {
  return CeilDiv(ColumnsOf(group), unit_columns);
}

int64_t QuantizedLayout::padded_columns() const {
  return ((num_groups - 1) * group_units + UnitsOf(num_groups - 1)) * unit_columns;
}

int64_t QuantizedLayout::size_bytes() const {
  return num_panels * panel_bytes + (format.ordered ? RoundUp<int64_t>(in_features * 4, 64) : 0);
}

const int32_t* QuantizedLayout::OrderOf(const LinearWeight& weight) const {
  if (!format.ordered) return nullptr;
  return reinterpret_cast<const int32_t*>(static_cast<const char*>(weight.data) +
                                          num_panels * panel_bytes);
}

void PackQuantizedRows(const LinearWeight& weight, int64_t first_row, const QuantizedRows& rows) {
  const QuantizedLayout layout(weight);
  const int bits = BitsOf(weight.format.value);
  const int64_t scale_bytes = BytesOf(weight.format.scale);
  for (int64_t i = 0; i < rows.num_rows; ++i) {
    const WeightValue value = weight.format.value;
    const uint8_t* const codes = rows.codes + i * CodeRowBytes(value, weight.in_features);
    int64_t group_begin = 0;
    if (layout.row_scale_bytes > 0) {
      char* const panel =
          static_cast<char*>(weight.data) + (first_row + i) / kPanelFeatures * layout.panel_bytes;
      std::memcpy(panel + (first_row + i) % kPanelFeatures * 4, rows.row_scales + i, 4);
    }
    for (int64_t group = 0; group < layout.num_groups; ++group) {
      const GroupOfFeature to = Locate(layout, weight.data, first_row + i, group);
      const int64_t index = i * layout.num_groups + group;
      std::memcpy(to.scale, static_cast<const char*>(rows.scales) + index * scale_bytes,
                  scale_bytes);
      if (layout.zero_bytes > 0) *to.zero_point = rows.zero_points[index];
      int32_t sum = 0;
      const int64_t num_columns = layout.ColumnsOf(group);
      for (int64_t unit = 0; unit < layout.UnitsOf(group); ++unit) {
        uint32_t word = 0;
        const int64_t first = unit * layout.unit_columns;
        const int64_t count = std::min(layout.unit_columns, num_columns - first);
        for (int64_t c = 0; c < count; ++c) {
          const uint32_t code = StoredCode(value, CodeAt(value, codes, group_begin + first + c));
          word |= code << (bits * c);
          sum += static_cast<int8_t>(code);
        }
        to.words[unit * kPanelFeatures] = word;
      }
      if (layout.sum_bytes > 0) *to.sum = sum;
      group_begin += num_columns;
    }
  }
  if (rows.order != nullptr && first_row == 0) {  // all rows have the same
    std::memcpy(const_cast<int32_t*>(layout.OrderOf(weight)), rows.order, weight.in_features * 4);
  }
}

void FillQuantized(const LinearWeight& weight, const FillWeightArgs& args, ThreadPool& pool) {
  const QuantizedLayout layout(weight);
  const WeightValue value = weight.format.value;
  const RandomScale scale = RandomScaleOf(weight.format, args.stddev);
  const float per_code = RandomWeightScale(args.stddev) / scale.value;
  const std::vector<uint32_t> words(layout.num_groups, scale.code);
  const std::vector<uint8_t> bytes(layout.num_groups, static_cast<uint8_t>(scale.code));
  const std::vector<uint8_t> zero_points(layout.num_groups, MiddleCode(value));
  std::vector<int32_t> order(weight.format.ordered ? weight.in_features : 0);
  std::iota(order.begin(), order.end(), 0);
  const bool in_words = weight.format.scale == ScaleValue::kFloat32;
  pool.ParallelFor(weight.out_features, kPanelFeatures, [&](int64_t begin, int64_t end, int) {
    std::vector<uint8_t> codes(weight.in_features), row_codes(weight.in_features);
    for (int64_t row = begin; row < end; ++row) {
      const uint64_t key = RandomRowKey(args.seed, args.tensor_id, row);
      for (int64_t i = 0; i < weight.in_features; ++i) {
        const float scaled = static_cast<float>(RandomByteSum(key, i)) * per_code;
        codes[i] =
            value == WeightValue::kFloat8 ? Float8E4M3(scaled).bits : RandomCode(value, scaled);
      }
      PackCodes(value, codes.data(), weight.in_features, row_codes.data());
      PackQuantizedRows(weight, row,
                        {.num_rows = 1,
                         .codes = row_codes.data(),
                         .scales = in_words ? static_cast<const void*>(words.data()) : bytes.data(),
                         .row_scales = &scale.row_scale,
                         .zero_points = zero_points.data(),
                         .order = order.empty() ? nullptr : order.data()});
    }
  });
}

}  // namespace quire::cpu
