#include "kernels/cuda/attention/hopper/kv_tensor_map.h"

#include <algorithm>

#include "kernels/cuda/runtime/tensor_map.h"

namespace quire::cuda {

CUtensorMap MakeKvTensorMap(const KvCacheView& view, const HeadsView& heads, int32_t max_tokens,
                            int32_t columns, bool swizzled) {
  const auto bytes = static_cast<uint64_t>(DTypeBytes(view.dtype));
  // How many blocks there are is not known here; block ids are.
  constexpr uint64_t kAnyNumber = uint64_t{1} << 31;
  const TensorMapShape<4> shape = {
      .sizes = {static_cast<uint64_t>(heads.head_dim), static_cast<uint64_t>(view.block_size),
                static_cast<uint64_t>(view.num_kv_heads), kAnyNumber},
      .strides_bytes = {static_cast<uint64_t>(heads.token_stride) * bytes,
                        static_cast<uint64_t>(heads.head_stride) * bytes,
                        static_cast<uint64_t>(heads.block_stride) * bytes},
      .box = {static_cast<uint32_t>(columns),
              static_cast<uint32_t>(std::min(view.block_size, max_tokens)), 1, 1}};
  return EncodeTensorMap(heads.data, view.dtype, shape, swizzled);
}

}  // namespace quire::cuda
