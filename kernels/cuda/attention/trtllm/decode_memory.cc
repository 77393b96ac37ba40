#include "kernels/cuda/attention/trtllm/decode_memory.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/base/check.h"
#include "kernels/base/status_macros.h"
#include "kernels/cuda/attention/hopper/kv_tensor_map.h"
#include "kernels/cuda/attention/trtllm/trtllm_attention.h"

namespace quire::cuda::trtllm {

namespace {

constexpr int32_t kMaxSharedBytes = 227 * 1024;
constexpr int32_t kMinRingTiles = 2;  // one arrives while the other is computed
constexpr int32_t kMaxRowSplits = 4;
// What a unit takes beside its tiles, in tiles; shares smaller than this are not worth a merge.
constexpr int32_t kUnitCostTiles = 2;
constexpr int32_t kMinShareTiles = kUnitCostTiles + 1;

absl::Status CudaError(cudaError_t error) {
  return error == cudaSuccess
             ? absl::OkStatus()
             : absl::InternalError(absl::StrCat("trtllm attention: ", cudaGetErrorString(error)));
}

template <typename Element, int kWarpRows>
DecodeKernel KernelOf(int32_t head_dim) {
  return head_dim == 64    ? GetDecodeKernel<Element, 64, kWarpRows>()
         : head_dim == 128 ? GetDecodeKernel<Element, 128, kWarpRows>()
                           : GetDecodeKernel<Element, 256, kWarpRows>();
}

template <int kWarpRows>
DecodeKernel KernelOf(DType kv_dtype, int32_t head_dim) {
  switch (kv_dtype) {
    case DType::kBF16:
      return KernelOf<__nv_bfloat16, kWarpRows>(head_dim);
    case DType::kF16:
      return KernelOf<__half, kWarpRows>(head_dim);
    case DType::kF8E4M3:
      return KernelOf<__nv_fp8_e4m3, kWarpRows>(head_dim);
    default:
      return KernelOf<__nv_fp8_e5m2, kWarpRows>(head_dim);
  }
}

// How much shared memory is worth having: no more tiles than hide the memory's latency, which 8-bit
// elements need more of, as they take longer to compute, and sequences of few keys, as between them
// tiles wait for warps to combine results; many sequences may be such. What a multiprocessor does
// not give as shared memory is L1 cache for the kernels that follow and begin while this one ends;
// gemvs, which steps of few tokens have, read through it and take twice as long where this kernel
// leaves them 28 KiB. The sizes are what sm_90 can be set to, less 1 KiB that the system has.
int32_t SharedBytesWorthHaving(const DecodeKernel& kernel, bool is_8_bit, int64_t num_tokens) {
  constexpr int64_t kFewTokens = 8;
  constexpr int64_t kManyTokens = 64;
  if (num_tokens <= kFewTokens) return 131 * 1024;
  return (is_8_bit || kernel.warp_rows > 8 || num_tokens >= kManyTokens ? 163 : 99) * 1024;
}

absl::StatusOr<DeviceBuffer> AllocateZeros(Device& device, int64_t bytes) {
  ASSIGN_OR_RETURN(DeviceBuffer buffer, device.Allocate(bytes));
  RETURN_IF_ERROR(CudaError(cudaMemset(buffer.data(), 0, bytes)));
  return buffer;
}

}  // namespace

DecodeMemory::DecodeMemory(const AttentionGeometry& geometry, const AttentionLimits& limits)
    : geometry_(geometry),
      limits_(limits),
      group_size_(geometry.num_q_heads / geometry.num_kv_heads) {}

absl::StatusOr<std::vector<std::unique_ptr<DecodeMemory>>> DecodeMemory::Create(
    Device& device, absl::Span<const AttentionGeometry> geometries, const AttentionLimits& limits) {
  std::vector<std::unique_ptr<DecodeMemory>> memories;
  int64_t max_rows = 0, max_elements = 0;
  for (const AttentionGeometry& geometry : geometries) {
    std::unique_ptr<DecodeMemory> memory(new DecodeMemory(geometry, limits));
    memory->plan_.num_ctas = device.info().num_sms;
    RETURN_IF_ERROR(memory->LoadKernels());
    RETURN_IF_ERROR(memory->Allocate(device));
    const int64_t rows = int64_t{memory->plan_.num_ctas} * memory->MaxUnitRows();
    max_rows = std::max(max_rows, rows);
    max_elements = std::max(max_elements, rows * geometry.v_head_dim);
    memories.push_back(std::move(memory));
  }
  const auto partials = std::make_shared<PartialBuffers>();
  ASSIGN_OR_RETURN(partials->out, AllocateZeros(device, max_elements * int64_t{sizeof(float)}));
  ASSIGN_OR_RETURN(partials->state, AllocateZeros(device, max_rows * int64_t{sizeof(float2)}));
  ASSIGN_OR_RETURN(partials->arrivals,
                   AllocateZeros(device, device.info().num_sms * int64_t{sizeof(int32_t)}));
  for (const auto& memory : memories) memory->partials_ = partials;
  RETURN_IF_ERROR(CudaError(cudaDeviceSynchronize()));
  return memories;
}

absl::Status DecodeMemory::LoadKernels() {
  kernels_[0] = KernelOf<8>(geometry_.kv_dtype, geometry_.k_head_dim);
  kernels_[1] = KernelOf<16>(geometry_.kv_dtype, geometry_.k_head_dim);
  for (const DecodeKernel& kernel : kernels_) {
    RETURN_IF_ERROR(CudaError(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel.function),
                                                   cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                   kMaxSharedBytes)));
  }
  return absl::OkStatus();
}

const DecodeKernel& DecodeMemory::KernelFor(int32_t query_len) const {
  return kernels_[query_len * group_size_ > kernels_[0].warp_rows ? 1 : 0];
}

DecodeLayout DecodeMemory::LayoutFor(int64_t num_seqs, int32_t query_len) const {
  const DecodeKernel& kernel = KernelFor(query_len);
  const int32_t rows = query_len * group_size_;
  DecodeLayout layout = {};
  layout.group_size = group_size_;
  layout.query_len = query_len;
  layout.row_splits = 1;
  while (layout.row_splits < kMaxRowSplits && layout.row_splits * kernel.warp_rows < rows) {
    layout.row_splits *= 2;
  }
  layout.row_tiles = CeilDiv(rows, layout.row_splits * kernel.warp_rows);
  layout.partial_rows = std::min(rows, layout.row_splits * kernel.warp_rows);
  layout.pass_rows = std::min(rows, 8);
  const int32_t worth_having =
      SharedBytesWorthHaving(kernel, IsFloat8(geometry_.kv_dtype), num_seqs * query_len);
  for (DecodeLayout larger = layout;; layout = larger) {
    ++larger.ring_tiles;
    larger.num_arrivals = RoundUp(larger.ring_tiles, kernel.num_warps / layout.row_splits);
    larger.shared_bytes = larger.ring_tiles * kernel.tile_bytes + kernel.other_bytes(larger);
    if (larger.shared_bytes > worth_having && layout.ring_tiles >= kMinRingTiles) break;
    if (larger.shared_bytes > kMaxSharedBytes) break;
  }
  CHECK_GE(layout.ring_tiles, 1);
  return layout;
}

int32_t DecodeMemory::MaxUnitRows() const {
  return std::min(group_size_ * TrtllmAttention::kMaxQueryLen,
                  kMaxRowSplits * kernels_[1].warp_rows);
}

template <typename T>
absl::Status DecodeMemory::AllocateArray(Device& device, int64_t count, T*& array) {
  ASSIGN_OR_RETURN(DeviceBuffer buffer,
                   AllocateZeros(device, count * static_cast<int64_t>(sizeof(T))));
  array = buffer.as<T>();
  buffers_.push_back(std::move(buffer));
  return absl::OkStatus();
}

absl::Status DecodeMemory::Allocate(Device& device) {
  const int64_t max_units = int64_t{geometry_.num_kv_heads} *
                            LayoutFor(1, TrtllmAttention::kMaxQueryLen).row_tiles *
                            limits_.max_num_seqs;
  plan_.min_share = kMinShareTiles;
  plan_.unit_cost = kUnitCostTiles;
  plan_.variant = AttentionVariant::Of(geometry_);
  plan_.blocks.block_shift = std::countr_zero(static_cast<uint32_t>(geometry_.block_size));
  RETURN_IF_ERROR(AllocateArray(device, max_units + plan_.num_ctas, plan_.items));
  return AllocateArray(device, plan_.num_ctas, plan_.shares);
}

void DecodeMemory::SetBatch(const AttentionBatch& batch) {
  CHECK_EQ(batch.num_decodes, batch.num_seqs) << "this path computes decodes only";
  CHECK(batch.decode_query_len >= 1 && batch.decode_query_len <= TrtllmAttention::kMaxQueryLen)
      << batch.decode_query_len;
  CHECK_LE(batch.num_seqs, limits_.max_num_seqs);
  CHECK(batch.causal || batch.decode_query_len == 1);
  batch_ = batch;
  kernel_ = &KernelFor(batch.decode_query_len);
  layout_ = LayoutFor(batch.num_seqs, batch.decode_query_len);
  plan_.num_seqs = batch.num_seqs;
  plan_.query_len = batch.decode_query_len;
  plan_.cu_seqlens_q = batch.cu_seqlens_q;
  plan_.seq_lens = batch.seq_lens;
  plan_.seq_rows = batch.seq_rows;
  plan_.first_blocks = batch.first_blocks;
  plan_.blocks.tables = batch.block_tables;
  plan_.block_table_stride = batch.block_table_stride;
  plan_.units_per_seq = geometry_.num_kv_heads * layout_.row_tiles;
}

DecodeParams DecodeMemory::MakeParams(const AttentionRunArgs& args) const {
  const KvCacheView& kv = args.kv_cache;
  const auto element_bytes = static_cast<int32_t>(DTypeBytes(kv.dtype));
  const int32_t columns = LineBytes(kv.k.head_dim * element_bytes) / element_bytes;
  return {.k_map = MakeKvTensorMap(kv, kv.k, kTileKeys, columns, /*swizzled=*/true),
          .v_map = MakeKvTensorMap(kv, kv.v, kTileKeys, columns, /*swizzled=*/true),
          .q = args.q.data(),
          .out = args.out.data(),
          .lse = args.lse,
          .sinks = args.sinks,
          .k_scales = kv.k.scales,
          .v_scales = kv.v.scales,
          .q_row_stride = args.q.row_stride(),
          .out_row_stride = args.out.row_stride(),
          .num_q_heads = geometry_.num_q_heads,
          .query_dtype = geometry_.query_dtype,
          .variant = plan_.variant,
          .blocks = plan_.blocks,
          .layout = layout_,
          .items = plan_.items,
          .shares = plan_.shares,
          .partial_out = partials_->out.as<float>(),
          .partial_state = partials_->state.as<float2>(),
          .arrivals = partials_->arrivals.as<int32_t>()};
}

}  // namespace quire::cuda::trtllm
