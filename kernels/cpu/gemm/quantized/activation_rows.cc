#include "kernels/cpu/gemm/quantized/activation_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/gemm/quantized/int8_tile.h"

namespace quire::cpu {

void ReadRow(const Tensor& x, int64_t row, const QuantizedLayout& layout, const int32_t* order,
             float* out) {
  const auto read = [&](const auto* in) {
    int64_t column = 0;
    for (int64_t group = 0; group < layout.num_groups; ++group) {
      const int64_t num_columns = layout.ColumnsOf(group);
      const int64_t padded = layout.UnitsOf(group) * layout.unit_columns;
      for (int64_t i = 0; i < num_columns; ++i, ++column) {
        out[i] = static_cast<float>(in[order == nullptr ? column : order[column]]);
      }
      std::fill(out + num_columns, out + padded, 0.0f);
      out += padded;
    }
  };
  if (x.dtype() == DType::kF32) {
    read(x.as<float>() + row * x.row_stride());
  } else {
    read(x.as<BFloat16>() + row * x.row_stride());
  }
}

float RoundToInt8(const float* row, int64_t columns, int64_t stride, uint8_t* out) {
  float most = 0;
  bool is_finite = true;
  for (int64_t i = 0; i < columns; ++i) {
    most = std::max(most, std::abs(row[i]));
    is_finite = is_finite && std::isfinite(row[i]);
  }
  const bool has_only_zeros = !is_finite || most == 0;
  const float inverse = 127 / most;
  for (int64_t begin = 0; begin < columns; begin += kInt8BlockBytes, out += stride) {
    const int64_t count = std::min(kInt8BlockBytes, columns - begin);
    if (has_only_zeros) {
      std::fill_n(out, count, 128);
      continue;
    }
    for (int64_t i = 0; i < count; ++i) {
      const float code = std::clamp(std::nearbyint(row[begin + i] * inverse), -127.0f, 127.0f);
      out[i] = static_cast<uint8_t>(static_cast<int>(code) + 128);
    }
  }
  return is_finite ? most / 127 : std::numeric_limits<float>::quiet_NaN();  // so is each product
}

}  // namespace quire::cpu
