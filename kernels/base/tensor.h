// DType, BFloat16 and Tensor: a non-owning, trivially copyable view of row-major memory on some
// device. Plain values; any thread. There is no tensor library here: operations live in
// kernels/ops.h.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "kernels/base/check.h"

namespace quire {

enum class DType : uint8_t { kF32, kBF16, kF16, kF8E4M3, kF8E5M2, kI32, kI64, kU8 };

constexpr int64_t DTypeBytes(DType dtype) {
  switch (dtype) {
    case DType::kI64:
      return 8;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBF16:
    case DType::kF16:
      return 2;
    case DType::kF8E4M3:
    case DType::kF8E5M2:
    case DType::kU8:
      return 1;
  }
  return 0;
}

const char* DTypeName(DType dtype);  // "float32", "bfloat16", ...
// Accepts Hugging Face's names ("bfloat16", "float32", "float16"); nothing for others.
std::optional<DType> ParseDType(std::string_view name);

// Storage of a bfloat16; conversion rounds to nearest even and keeps NaN.
struct BFloat16 {
  uint16_t bits = 0;

  BFloat16() = default;
  explicit BFloat16(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value);
    if ((u & 0x7fffffffu) > 0x7f800000u) {
      bits = static_cast<uint16_t>((u >> 16) | 0x40u);
    } else {
      bits = static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
    }
  }
  explicit operator float() const {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
};
static_assert(sizeof(BFloat16) == 2);

template <typename T>
inline constexpr DType kDTypeOf = DType::kU8;
template <>
inline constexpr DType kDTypeOf<float> = DType::kF32;
template <>
inline constexpr DType kDTypeOf<BFloat16> = DType::kBF16;
template <>
inline constexpr DType kDTypeOf<int32_t> = DType::kI32;
template <>
inline constexpr DType kDTypeOf<int64_t> = DType::kI64;

// A view: data, dtype, shape; rows (dimension 0) may be further apart than the shape says.
class Tensor {
 public:
  static constexpr int kMaxRank = 5;

  Tensor() = default;
  Tensor(void* data, DType dtype, std::initializer_list<int64_t> shape)
      : data_(data), dtype_(dtype), rank_(static_cast<int>(shape.size())) {
    CHECK_LE(shape.size(), static_cast<size_t>(kMaxRank));
    int i = 0;
    for (int64_t extent : shape) shape_[i++] = extent;
    row_stride_ = RowElements();
  }

  // The same data with rows `row_stride` elements apart (a column slice of a wider matrix).
  Tensor WithRowStride(int64_t row_stride) const {
    CHECK_GE(row_stride, RowElements());
    Tensor result = *this;
    result.row_stride_ = row_stride;
    return result;
  }

  void* data() const { return data_; }
  DType dtype() const { return dtype_; }
  int rank() const { return rank_; }
  int64_t dim(int i) const { return shape_[i]; }
  int64_t row_stride() const { return row_stride_; }  // in elements
  bool empty() const { return data_ == nullptr; }
  int64_t num_elements() const { return rank_ == 0 ? 1 : shape_[0] * RowElements(); }
  int64_t num_bytes() const { return num_elements() * DTypeBytes(dtype_); }

  // The data as T; the dtype must be T's.
  template <typename T>
  T* as() const {
    CHECK(dtype_ == kDTypeOf<T>) << "tensor is " << DTypeName(dtype_);
    return static_cast<T*>(data_);
  }

 private:
  int64_t RowElements() const {
    int64_t elements = 1;
    for (int i = 1; i < rank_; ++i) elements *= shape_[i];
    return elements;
  }

  void* data_ = nullptr;
  DType dtype_ = DType::kF32;
  int rank_ = 0;
  std::array<int64_t, kMaxRank> shape_ = {};
  int64_t row_stride_ = 0;
};

}  // namespace quire
