#include "kernels/cuda/attention/hopper/kv_tensor_map.h"

#include <algorithm>

#include "kernels/base/check.h"
#include "kernels/cuda/runtime/driver_entry.h"

namespace quire::cuda {

namespace {

CUtensorMapDataType TypeOf(DType dtype) {
  if (IsFloat8(dtype)) return CU_TENSOR_MAP_DATA_TYPE_UINT8;
  return dtype == DType::kF16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
}

}  // namespace

CUtensorMap MakeKvTensorMap(const KvCacheView& view, void* data, int32_t max_tokens,
                            int32_t columns, bool swizzled) {
  static const auto encode =
      DriverEntry<decltype(&cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled");
  constexpr cuuint32_t kRank = 4;
  const auto bytes = static_cast<cuuint64_t>(DTypeBytes(view.dtype));
  // How many blocks there are is not known here; block ids are.
  const cuuint64_t sizes[kRank] = {static_cast<cuuint64_t>(view.head_dim),
                                   static_cast<cuuint64_t>(view.block_size),
                                   static_cast<cuuint64_t>(view.num_kv_heads), cuuint64_t{1} << 31};
  const cuuint64_t strides_bytes[kRank - 1] = {static_cast<cuuint64_t>(view.token_stride) * bytes,
                                               static_cast<cuuint64_t>(view.head_stride) * bytes,
                                               static_cast<cuuint64_t>(view.block_stride) * bytes};
  const cuuint32_t box[kRank] = {static_cast<cuuint32_t>(columns),
                                 static_cast<cuuint32_t>(std::min(view.block_size, max_tokens)), 1,
                                 1};
  const cuuint32_t element_strides[kRank] = {1, 1, 1, 1};
  const CUtensorMapSwizzle swizzle = !swizzled               ? CU_TENSOR_MAP_SWIZZLE_NONE
                                     : columns * bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                                             : CU_TENSOR_MAP_SWIZZLE_128B;
  CUtensorMap map;
  const CUresult result =
      encode(&map, TypeOf(view.dtype), kRank, data, sizes, strides_bytes, box, element_strides,
             CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  CHECK_EQ(static_cast<int>(result), static_cast<int>(CUDA_SUCCESS));
  return map;
}

}  // namespace quire::cuda
