// Values for tests of operations: random ones, as a dtype holds them, as its bytes, and how far its
// rounding goes.
#pragma once

#include <cstring>
#include <random>
#include <vector>

#include "kernels/base/float8.h"
#include "kernels/base/half.h"
#include "kernels/base/types.h"

namespace quire {

inline std::vector<float> RandomNormal(int64_t size, uint32_t seed, float deviation = 1.0f) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> values(size);
  for (float& value : values) value = normal(rng);
  return values;
}

// The values as a tensor of this dtype holds them.
inline std::vector<float> RoundTo(DType dtype, std::vector<float> values) {
  for (float& value : values) {
    if (dtype == DType::kBF16) value = static_cast<float>(BFloat16(value));
    if (dtype == DType::kF16) value = static_cast<float>(Float16(value));
    if (dtype == DType::kF8E4M3) value = static_cast<float>(Float8E4M3(value));
    if (dtype == DType::kF8E5M2) value = static_cast<float>(Float8E5M2(value));
  }
  return values;
}

template <typename T>
std::vector<char> BytesAs(const std::vector<float>& values) {
  std::vector<char> bytes(values.size() * sizeof(T));
  for (size_t i = 0; i < values.size(); ++i) {
    const T value(values[i]);
    std::memcpy(&bytes[i * sizeof(T)], &value, sizeof(T));
  }
  return bytes;
}

// What a tensor of this dtype with these values has in memory.
inline std::vector<char> BytesOf(DType dtype, const std::vector<float>& values) {
  if (dtype == DType::kBF16) return BytesAs<BFloat16>(values);
  if (dtype == DType::kF16) return BytesAs<Float16>(values);
  if (dtype == DType::kF8E4M3) return BytesAs<Float8E4M3>(values);
  if (dtype == DType::kF8E5M2) return BytesAs<Float8E5M2>(values);
  return BytesAs<float>(values);
}

// Half a unit in the last place of an output of this dtype, relative.
inline double OutputRounding(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return 0x1p-8;
    case DType::kF16:
      return 0x1p-11;
    case DType::kF8E4M3:
      return 0x1p-4;
    case DType::kF8E5M2:
      return 0x1p-3;
    default:
      return 0x1p-23;
  }
}

// The same where the output is next to zero: types of few exponents have a smallest distance.
inline double SubnormalRounding(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 0x1p-25;
    case DType::kF8E4M3:
      return 0x1p-10;
    case DType::kF8E5M2:
      return 0x1p-17;
    default:
      return 0;
  }
}

}  // namespace quire
