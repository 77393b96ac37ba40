#include "kernels/cuda/runtime/tensor_map.h"

#include "kernels/base/check.h"
#include "kernels/cuda/runtime/driver_entry.h"

namespace quire::cuda {

namespace {

CUtensorMapDataType TypeOf(DType dtype) {
  if (IsFloat8(dtype)) return CU_TENSOR_MAP_DATA_TYPE_UINT8;
  return dtype == DType::kF16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
}

template <int kRank>
CUtensorMap Encode(const void* data, DType dtype, const TensorMapShape<kRank>& shape,
                   bool swizzled) {
  static const auto encode =
      DriverEntry<decltype(&cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled");
  const auto line_bytes = static_cast<int64_t>(shape.box[0]) * DTypeBytes(dtype);
  const CUtensorMapSwizzle swizzle = !swizzled          ? CU_TENSOR_MAP_SWIZZLE_NONE
                                     : line_bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                                        : CU_TENSOR_MAP_SWIZZLE_128B;
  std::array<cuuint32_t, kRank> element_strides;
  element_strides.fill(1);
  CUtensorMap map;
  const CUresult result =
      encode(&map, TypeOf(dtype), kRank, const_cast<void*>(data), shape.sizes.data(),
             shape.strides_bytes.data(), shape.box.data(), element_strides.data(),
             CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  CHECK_EQ(static_cast<int>(result), static_cast<int>(CUDA_SUCCESS));
  return map;
}

}  // namespace

CUtensorMap EncodeTensorMap(const void* data, DType dtype, const TensorMapShape<4>& shape,
                            bool swizzled) {
  return Encode(data, dtype, shape, swizzled);
}

CUtensorMap EncodeMatrixMap(const void* data, DType dtype, int64_t rows, int64_t columns,
                            int64_t row_stride, int box_rows) {
  constexpr uint32_t kLineElements = 64;
  return Encode<2>(data, dtype,
                   {.sizes = {static_cast<uint64_t>(columns), static_cast<uint64_t>(rows)},
                    .strides_bytes = {static_cast<uint64_t>(row_stride * DTypeBytes(dtype))},
                    .box = {kLineElements, static_cast<uint32_t>(box_rows)}},
                   /*swizzled=*/true);
}

CUtensorMap EncodeFloat8MatrixMap(const void* data, int64_t rows, int64_t row_bytes, int box_rows) {
  constexpr uint32_t kLineBytes = 128;
  return Encode<2>(data, DType::kF8E4M3,
                   {.sizes = {static_cast<uint64_t>(row_bytes), static_cast<uint64_t>(rows)},
                    .strides_bytes = {static_cast<uint64_t>(row_bytes)},
                    .box = {kLineBytes, static_cast<uint32_t>(box_rows)}},
                   /*swizzled=*/true);
}

}  // namespace quire::cuda
