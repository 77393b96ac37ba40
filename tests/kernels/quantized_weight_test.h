// The fixture that brings weights of every format to a device, and what becomes of x there.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/base/float8.h"
#include "tests/kernels/kernel_test.h"
#include "tests/kernels/quantized_weight.h"

namespace quire {

class QuantizedWeightTest : public KernelTest {
 protected:
  struct DeviceWeight {
    DeviceBuffer buffer;
    LinearWeight weight;
  };

  bool Serves(const WeightFormat& format, DType activations, bool has_experts = false) {
    return weight_store().FormatFor({format}, activations, has_experts).weight == format;
  }

  // Memory that is all ones first: padding must be harmless. In pieces that cut panels in two.
  DeviceWeight Load(const QuantizedCase& c, const HostWeight& host, DType dtype) {
    LinearWeight weight{.format = c.format,
                        .activations = c.activations,
                        .dtype = dtype,
                        .out_features = host.rows,
                        .in_features = host.columns};
    DeviceWeight result{.buffer = Upload(std::vector<char>(weight_store().BytesOf(weight), '\xff')),
                        .weight = weight};
    result.weight.data = result.buffer.data();
    const auto loader = weight_store().CreateLoader(0).value();
    constexpr int64_t kRows = 37;
    for (int64_t row = 0; row < host.rows; row += kRows) {
      const QuantizedRows rows = host.Rows(row, std::min(kRows, host.rows - row));
      EXPECT_TRUE(loader->LoadQuantized(result.weight, row, rows).ok());
    }
    EXPECT_TRUE(loader->Finish().ok());
    return result;
  }
};

// x of a token as int8 times its scale.
inline std::vector<float> RoundToInt8(std::vector<float> x, int64_t columns) {
  for (auto row = x.begin(); row != x.end(); row += columns) {
    float most = 0;
    for (int64_t i = 0; i < columns; ++i) most = std::max(most, std::abs(row[i]));
    for (int64_t i = 0; i < columns && most > 0; ++i) {
      row[i] = std::nearbyint(row[i] * (127 / most)) * (most / 127);
    }
  }
  return x;
}

// x of a token's 128 columns as e4m3 times its scale.
inline std::vector<float> RoundToFloat8(std::vector<float> x, int64_t columns) {
  for (size_t row = 0; row < x.size(); row += columns) {
    for (int64_t first = 0; first < columns; first += 128) {
      float most = 0;
      const int64_t end = std::min(first + 128, columns);
      for (int64_t i = first; i < end; ++i) most = std::max(most, std::abs(x[row + i]));
      const float scale = most / 448;
      for (int64_t i = first; i < end && most > 0; ++i) {
        x[row + i] = static_cast<float>(Float8E4M3(x[row + i] / scale)) * scale;
      }
    }
  }
  return x;
}

// Whether a GPU may multiply many rows by values that it has rounded to their dtype, as the
// packages do that write such checkpoints; exact sums are not told from these by the format.
inline bool MayRoundValues(const WeightFormat& format) {
  const bool is_int = format.value == WeightValue::kInt4 || format.value == WeightValue::kInt8;
  return is_int && format.group_columns > 0;
}
// Then: a value in some hundreds is rounded the other way.
inline constexpr double kRoundedPrecision = 5e-5;

// Tensor cores cut sums of e4m3 to some 14 bits at each of the four gemms of 128 columns.
inline constexpr double kFloat8Precision = 6e-4;

}  // namespace quire
