// MemoryCarver: hands out aligned pieces of one allocation, one after the other. The same sequence
// of calls is made twice: without memory, to learn the size, and then with it. Plain value.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "kernels/base/tensor.h"
#include "kernels/base/types.h"

namespace quire {

class MemoryCarver {
 public:
  static constexpr int64_t kAlignment = 256;  // bytes, as Device::Allocate

  // `base` is nullptr when only the size is wanted; then every piece is nullptr, too.
  explicit MemoryCarver(void* base) : base_(static_cast<char*>(base)) {}

  void* Take(int64_t bytes) {
    char* piece = base_ == nullptr ? nullptr : base_ + size_bytes_;
    size_bytes_ += RoundUp(bytes, kAlignment);
    return piece;
  }

  Tensor TakeTensor(DType dtype, std::initializer_list<int64_t> shape) {
    int64_t bytes = DTypeBytes(dtype);
    for (int64_t extent : shape) bytes *= extent;
    return Tensor(Take(bytes), dtype, shape);
  }

  int64_t size_bytes() const { return size_bytes_; }

 private:
  char* base_;
  int64_t size_bytes_ = 0;
};

}  // namespace quire
