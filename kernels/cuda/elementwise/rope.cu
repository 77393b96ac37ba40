#include <type_traits>

#include "kernels/base/types.h"
#include "kernels/cuda/runtime/float_dispatch.cuh"
#include "kernels/cuda/runtime/free_ops.h"
#include "kernels/cuda/runtime/launch.cuh"

namespace quire::cuda {

namespace {

constexpr int kWarps = 8;  // per CTA; each takes one head
constexpr int kMaxHeadDim = 512;

struct RopeParams {
  const void* qkv;
  void* q_out;
  int64_t qkv_stride, q_out_stride;
  FloatVector q_norm, k_norm;
  float norm_eps;
  const float* cos_sin;
  const int64_t* positions;
  const int64_t* slot_mapping;
  int rotary_dim;
  int num_q_heads;
  KvCacheView kv;
};

// Reads a head into shared memory, normalised where there is a weight, and returns when the whole
// warp may read it.
template <typename T>
__device__ void StageHead(const T* in, const FloatVector& norm, float eps, int dim, float* head) {
  const int lane = threadIdx.x % 32;
  float values[kVector], sum = 0.0f;
  for (int i = lane * kVector; i < dim; i += 32 * kVector) {
    Load(in + i, values);
#pragma unroll
    for (int j = 0; j < kVector; ++j) sum = fmaf(values[j], values[j], sum);
    Store(values, head + i);
  }
  if (norm.data != nullptr) {
    const float scale = 1.0f / sqrtf(WarpSum(sum) / static_cast<float>(dim) + eps);
    for (int i = lane * kVector; i < dim; i += 32 * kVector) {  // each lane its own elements again
      float weight[kVector];
      Load(head + i, values);
      norm.LoadAt(i, weight);
#pragma unroll
      for (int j = 0; j < kVector; ++j) values[j] *= scale * weight[j];
      Store(values, head + i);
    }
  }
  __syncwarp();
}

// Element i of the rotated head.
__device__ float Rotated(const float* head, int i, const float* cos_sin, int rotary_dim) {
  const int half = rotary_dim / 2;
  if (i >= rotary_dim) return head[i];
  if (i < half) return head[i] * cos_sin[i] - head[i + half] * cos_sin[half + i];
  return head[i] * cos_sin[i - half] + head[i - half] * cos_sin[i];
}

template <typename Out>
__device__ void WriteRotated(const float* head, const float* cos_sin, int rotary_dim, int dim,
                             Out* out) {
  for (int i = threadIdx.x % 32 * kVector; i < dim; i += 32 * kVector) {
    float values[kVector];
#pragma unroll
    for (int j = 0; j < kVector; ++j) values[j] = Rotated(head, i + j, cos_sin, rotary_dim);
    Store(values, out + i);
  }
}

// Grid: (tokens, heads of q, k and v / kWarps); a warp per head.
// Bytes: qkv read once; q, k and v written once; one row of cos_sin per token, from the cache.
// Accumulation: a head's squares in a lane in order, then shuffles: float32.
// Limit: memory bandwidth from some 1000 tokens; below, latency.
template <typename T, typename Kv>
__global__ void __launch_bounds__(kWarps * 32) RopeKernel(const RopeParams params) {
  extern __shared__ float heads[];
  ReleaseSuccessor();
  WaitForPredecessor();
  const int dim = params.kv.head_dim;
  const int64_t token = blockIdx.x;
  const int warp = threadIdx.x / 32;
  const int head = blockIdx.y * kWarps + warp;
  const int num_kv_heads = params.kv.num_kv_heads;
  if (head >= params.num_q_heads + 2 * num_kv_heads) return;
  const T* in = static_cast<const T*>(params.qkv) + token * params.qkv_stride +
                static_cast<int64_t>(head) * dim;
  const float* cos_sin = params.cos_sin + params.positions[token] * params.rotary_dim;
  float* staged = heads + warp * dim;
  if (head < params.num_q_heads) {
    T* out = static_cast<T*>(params.q_out) + token * params.q_out_stride +
             static_cast<int64_t>(head) * dim;
    StageHead(in, params.q_norm, params.norm_eps, dim, staged);
    WriteRotated(staged, cos_sin, params.rotary_dim, dim, out);
    return;
  }
  const int64_t slot = params.slot_mapping[token];
  if (slot == kNoSlot) return;
  const bool is_k = head < params.num_q_heads + num_kv_heads;
  const int kv_head = (head - params.num_q_heads) % num_kv_heads;
  Kv* out = static_cast<Kv*>(is_k ? params.kv.k : params.kv.v) +
            slot / params.kv.block_size * params.kv.block_stride +
            slot % params.kv.block_size * params.kv.token_stride + kv_head * params.kv.head_stride;
  StageHead(in, is_k ? params.k_norm : FloatVector(), params.norm_eps, dim, staged);
  WriteRotated(staged, cos_sin, is_k ? params.rotary_dim : 0, dim, out);
}

// float16 goes with a float16 cache only, as in attention.
template <typename T, typename Kv>
inline constexpr bool kGoTogether = std::is_same_v<T, __half> == std::is_same_v<Kv, __half>;

void Launch(const RopeParams& params, DType dtype, dim3 grid, cudaStream_t stream) {
  const size_t shared_bytes = sizeof(float) * kWarps * params.kv.head_dim;
  DispatchFloat(dtype, [&]<typename T>() {
    DispatchFloat(params.kv.dtype, [&]<typename Kv>() {
      if constexpr (kGoTogether<T, Kv>) {
        LaunchKernel(RopeKernel<T, Kv>, grid, kWarps * 32, shared_bytes, stream, params);
      }
    });
  });
}

void CheckVectors(const RopeAndStoreKvArgs& args) {
  const KvCacheView& kv = args.kv_cache;
  CHECK((kv.dtype == DType::kF16) == (args.qkv.dtype() == DType::kF16)) << DTypeName(kv.dtype);
  CHECK_LE(kv.head_dim, kMaxHeadDim);
  const Tensor k(kv.k, kv.dtype, {kv.head_dim}), v(kv.v, kv.dtype, {kv.head_dim});
  CHECK(FitsVectors(kv.head_dim,
                    {&args.qkv, &args.q_out, &args.q_norm_weight, &args.k_norm_weight, &k, &v}) &&
        kv.block_stride % kVector == 0 && kv.token_stride % kVector == 0 &&
        kv.head_stride % kVector == 0)
      << "heads must be multiples of " << kVector << " elements, on 16 bytes";
}

}  // namespace

void LaunchRopeAndStoreKv(const RopeAndStoreKvArgs& args, cudaStream_t stream) {
  const int64_t num_tokens = args.qkv.dim(0);
  if (num_tokens == 0) return;
  CheckVectors(args);
  const KvCacheView& kv = args.kv_cache;
  const RopeParams params = {.qkv = args.qkv.data(),
                             .q_out = args.q_out.data(),
                             .qkv_stride = args.qkv.row_stride(),
                             .q_out_stride = args.q_out.row_stride(),
                             .q_norm = FloatVector(args.q_norm_weight),
                             .k_norm = FloatVector(args.k_norm_weight),
                             .norm_eps = args.norm_eps,
                             .cos_sin = args.cos_sin,
                             .positions = args.positions,
                             .slot_mapping = args.slot_mapping,
                             .rotary_dim = args.rotary_dim,
                             .num_q_heads = args.num_q_heads,
                             .kv = kv};
  const dim3 grid(static_cast<unsigned>(num_tokens),
                  static_cast<unsigned>(CeilDiv(args.num_q_heads + 2 * kv.num_kv_heads, kWarps)));
  Launch(params, args.qkv.dtype(), grid, stream);
}

}  // namespace quire::cuda
