// A layer's K or V as TMA of sm_90 takes it. The host makes it from addresses and strides only,
// without a call to the device.
#pragma once

#include <cuda.h>

#include "kernels/op_args.h"

namespace quire::cuda {

// `heads` are the view's k or v. The tensor is [blocks, num_kv_heads, block_size, head_dim],
// whatever the order of its strides; a box is `columns` columns of up to `max_tokens` tokens of a
// block's head, zeros beyond the head. It arrives row by row, or, if `swizzled`, as gemms and
// ldmatrix want rows of 128 or 64 bytes, which the columns then are.
CUtensorMap MakeKvTensorMap(const KvCacheView& view, const HeadsView& heads, int32_t max_tokens,
                            int32_t columns, bool swizzled);

}  // namespace quire::cuda
