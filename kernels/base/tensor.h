// Tensor: a non-owning, trivially copyable view of row-major memory on some device. Plain values;
// any thread. There is no tensor library here: operations live in kernels/ops.h.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>

#include "kernels/base/check.h"
#include "kernels/base/dtype.h"

namespace quire {

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

  // Some of its rows.
  Tensor Rows(int64_t first, int64_t count) const {
    CHECK(first >= 0 && count >= 0 && count <= shape_[0] - first);
    Tensor result = *this;
    result.data_ = static_cast<char*>(data_) + first * row_stride_ * DTypeBytes(dtype_);
    result.shape_[0] = count;
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
