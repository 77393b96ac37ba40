#include "kernels/cuda/attention/hopper/kv_tensor_map.h"

#include <algorithm>

#include "kernels/base/check.h"
#include "kernels/cuda/runtime/driver_entry.h"

namespace quire::cuda {

namespace {

CUtensorMapDataType DataType(DType dtype) {
  return dtype == DType::kF16    ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
         : dtype == DType::kBF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                 : CU_TENSOR_MAP_DATA_TYPE_UINT8;
}

}  // namespace

CUtensorMap MakeKvTensorMap(const KvCacheView& view, void* data, int32_t max_tokens) {
  static const auto encode =
      DriverEntry<decltype(&cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled");
  constexpr cuuint32_t kRank = 4;
  constexpr int64_t kLineBytes = 128;
  const int64_t element_bytes = DTypeBytes(view.dtype);
  // 8-bit heads of 64 are half a line; 16-bit ones are filled up with zeros.
  const bool half_line = element_bytes == 1 && view.head_dim <= kLineBytes / 2;
  const int64_t line_bytes = half_line ? kLineBytes / 2 : kLineBytes;
  // How many blocks there are is not known here; block ids are.
  const cuuint64_t sizes[kRank] = {static_cast<cuuint64_t>(view.head_dim),
                                   static_cast<cuuint64_t>(view.block_size),
                                   static_cast<cuuint64_t>(view.num_kv_heads), cuuint64_t{1} << 31};
  const cuuint64_t strides_bytes[kRank - 1] = {
      static_cast<cuuint64_t>(view.token_stride * element_bytes),
      static_cast<cuuint64_t>(view.head_stride * element_bytes),
      static_cast<cuuint64_t>(view.block_stride * element_bytes)};
  const cuuint32_t box[kRank] = {static_cast<cuuint32_t>(line_bytes / element_bytes),
                                 static_cast<cuuint32_t>(std::min(view.block_size, max_tokens)), 1,
                                 1};
  const cuuint32_t element_strides[kRank] = {1, 1, 1, 1};
  CUtensorMap map;
  const CUresult result =
      encode(&map, DataType(view.dtype), kRank, data, sizes, strides_bytes, box, element_strides,
             CU_TENSOR_MAP_INTERLEAVE_NONE,
             half_line ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  CHECK_EQ(static_cast<int>(result), static_cast<int>(CUDA_SUCCESS));
  return map;
}

}  // namespace quire::cuda
