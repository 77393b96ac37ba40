#include "kernels/cuda/attention/plan_memory.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/attention_checks.h"
#include "kernels/base/check.h"
#include "kernels/base/status_macros.h"
#include "kernels/cuda/attention/hopper/hopper_attention.h"

namespace quire::cuda {

namespace {

// Memory for partial results, of each list.
constexpr int64_t kMaxPartialBytes = int64_t{64} << 20;
// The generic kernel takes no items; with tiles of this many rows the lists stay short.
constexpr int32_t kUntiledRows = 1 << 20;
constexpr int64_t kFloatBytes = 4;  // also of an int32_t

// There is a tiled kernel for every head size that the capabilities admit: the smallest kernel that
// holds a head size computes it. A row of 8-bit elements must begin on 16 bytes.
bool HasTiledKernels(const AttentionGeometry& geometry) {
  if (IsFloat8(geometry.kv_dtype)) {
    return geometry.query_dtype != DType::kF32 && geometry.k_head_dim % 16 == 0;
  }
  return geometry.query_dtype == geometry.kv_dtype && geometry.kv_dtype != DType::kF32;
}

absl::Status CudaError(cudaError_t error) {
  return error == cudaSuccess
             ? absl::OkStatus()
             : absl::InternalError(absl::StrCat("native attention: ", cudaGetErrorString(error)));
}

enum class KernelKind : uint8_t { kDecode, kPrefill, kHopperPrefill };

template <typename Element, int kHeadDim>
TiledKernel KernelOf(KernelKind kind) {
  switch (kind) {
    case KernelKind::kDecode:
      return DecodeKernel<Element, kHeadDim>();
    case KernelKind::kPrefill:
      return PrefillKernel<Element, kHeadDim>();
    case KernelKind::kHopperPrefill:
      return HopperPrefillKernel<Element, kHeadDim>();
  }
  return {};
}

// Of more than 256 elements: before Hopper and on it.
template <typename Element>
TiledKernel LargeHeadKernelOf(KernelKind kind) {
  return kind == KernelKind::kDecode ? DecodeKernel<Element, 512>() : PrefillKernel<Element, 512>();
}

TiledKernel Float8LargeHeadKernelOf(KernelKind kind) {
  return kind == KernelKind::kDecode ? Float8DecodeKernel<512>() : Float8PrefillKernel<512>();
}

template <int kHeadDim>
TiledKernel Float8KernelOf(KernelKind kind) {
  return kind == KernelKind::kHopperPrefill ? Float8HopperPrefillKernel<kHeadDim>()
                                            : Float8DecodeKernel<kHeadDim>();
}

TiledKernel Float8KernelOf(KernelKind kind, int32_t head_dim) {
  return head_dim <= 64    ? Float8KernelOf<64>(kind)
         : head_dim <= 128 ? Float8KernelOf<128>(kind)
         : head_dim <= 256 ? Float8KernelOf<256>(kind)
                           : Float8LargeHeadKernelOf(kind);
}

template <typename Element>
TiledKernel KernelOf(KernelKind kind, int32_t head_dim) {
  return head_dim <= 64    ? KernelOf<Element, 64>(kind)
         : head_dim <= 128 ? KernelOf<Element, 128>(kind)
         : head_dim <= 256 ? KernelOf<Element, 256>(kind)
                           : LargeHeadKernelOf<Element>(kind);
}

bool HasFloat8Gemms(const AttentionGeometry& geometry) {
  return geometry.kv_dtype == DType::kF8E4M3 && geometry.k_head_dim > 64 &&
         geometry.k_head_dim <= 128;
}

absl::StatusOr<int> MaxSharedBytes() {
  int device = 0, bytes = 0;
  RETURN_IF_ERROR(CudaError(cudaGetDevice(&device)));
  RETURN_IF_ERROR(
      CudaError(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device)));
  return bytes;
}

absl::StatusOr<DeviceBuffer> AllocateZeros(Device& device, int64_t bytes) {
  const int64_t at_least_bytes = std::max<int64_t>(bytes, kFloatBytes);
  ASSIGN_OR_RETURN(DeviceBuffer buffer, device.Allocate(at_least_bytes));
  RETURN_IF_ERROR(CudaError(cudaMemset(buffer.data(), 0, at_least_bytes)));
  return buffer;
}

}  // namespace

PlanMemory::PlanMemory(const AttentionGeometry& geometry, const AttentionLimits& limits,
                       const PlanOptions& options)
    : geometry_(geometry), limits_(limits), options_(options) {}

absl::StatusOr<std::vector<std::unique_ptr<PlanMemory>>> PlanMemory::Create(
    Device& device, absl::Span<const AttentionGeometry> geometries, const AttentionLimits& limits,
    const PlanOptions& options) {
  CHECK(!options.padded_pages || limits.only_phase == AttentionPhase::kPrefill);
  std::vector<std::unique_ptr<PlanMemory>> plans;
  for (const AttentionGeometry& geometry : geometries) {
    CheckMerges(geometry, limits);
    std::unique_ptr<PlanMemory> plan(new PlanMemory(geometry, limits, options));
    plan->params_.block_size = geometry.block_size;
    plan->params_.group_size = geometry.num_q_heads / geometry.num_kv_heads;
    plan->params_.num_kv_heads = geometry.num_kv_heads;
    plan->params_.merges = limits.merges;
    plan->params_.variant = AttentionVariant::Of(geometry);
    if (HasTiledKernels(geometry)) RETURN_IF_ERROR(plan->LoadKernels(device.info()));
    for (int list = 0; list < kNumWorkLists; ++list) plan->SizeList(list);
    RETURN_IF_ERROR(plan->Allocate(device));
    plans.push_back(std::move(plan));
  }
  const auto partials = std::make_shared<std::vector<PartialBuffers>>(kNumWorkLists);
  for (int list = 0; list < kNumWorkLists; ++list) {
    int64_t max_rows = 0, max_elements = 0, max_arrivals = 0;
    for (const auto& plan : plans) {
      const int64_t rows = plan->NumPartialRows(list);
      const WorkList& work = plan->params_.lists[list];
      max_rows = std::max(max_rows, rows);
      max_elements = std::max(max_elements, rows * plan->kernels_[list].kernel.head_dim);
      max_arrivals = std::max<int64_t>(max_arrivals,
                                       int64_t{work.max_partials} * plan->geometry_.num_kv_heads);
    }
    PartialBuffers& buffers = (*partials)[list];
    ASSIGN_OR_RETURN(buffers.out, AllocateZeros(device, max_elements * kFloatBytes));
    ASSIGN_OR_RETURN(buffers.state, AllocateZeros(device, max_rows * 2 * kFloatBytes));
    ASSIGN_OR_RETURN(buffers.arrivals, AllocateZeros(device, max_arrivals * kFloatBytes));
    for (const auto& plan : plans) plan->UsePartials(list, buffers);
  }
  for (const auto& plan : plans) plan->partials_ = partials;
  RETURN_IF_ERROR(CudaError(cudaDeviceSynchronize()));
  return plans;
}

absl::Status PlanMemory::LoadKernels(const DeviceInfo& device) {
  const bool on_hopper = device.sm_version == 90 && options_.prefill == PrefillKernels::kBest;
  const KernelKind kinds[kNumWorkLists] = {
      KernelKind::kDecode, on_hopper ? KernelKind::kHopperPrefill : KernelKind::kPrefill};
  ASSIGN_OR_RETURN(const int max_shared_bytes, MaxSharedBytes());
  PersistentKernel kernels[kNumWorkLists];
  for (int list = 0; list < kNumWorkLists; ++list) {
    if (!has_list(list)) continue;
    const int32_t head_dim = geometry_.k_head_dim;
    const bool has_float8_gemms = kinds[list] == KernelKind::kHopperPrefill &&
                                  options_.float8_gemms && HasFloat8Gemms(geometry_);
    const TiledKernel kernel =
        has_float8_gemms                    ? Float8GemmsPrefillKernel()
        : IsFloat8(geometry_.kv_dtype)      ? Float8KernelOf(kinds[list], head_dim)
        : geometry_.kv_dtype == DType::kF16 ? KernelOf<__half>(kinds[list], head_dim)
                                            : KernelOf<__nv_bfloat16>(kinds[list], head_dim);
    if (kernel.shared_bytes > max_shared_bytes) return absl::OkStatus();
    const auto* function = reinterpret_cast<const void*>(kernel.function);
    RETURN_IF_ERROR(CudaError(cudaFuncSetAttribute(
        function, cudaFuncAttributeMaxDynamicSharedMemorySize, kernel.shared_bytes)));
    int ctas_per_sm = 0;
    RETURN_IF_ERROR(CudaError(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &ctas_per_sm, function, kernel.num_threads, kernel.shared_bytes)));
    if (ctas_per_sm == 0) return absl::OkStatus();
    kernels[list] = {kernel, ctas_per_sm * device.num_sms};
  }
  std::copy(std::begin(kernels), std::end(kernels), kernels_);
  return absl::OkStatus();
}

void PlanMemory::SizeList(int index) {
  WorkList& list = params_.lists[index];
  const bool is_decode = index == 0;
  list.num_ctas = std::max(kernels_[index].num_ctas, 1);
  const bool is_tiled = kernels_[index].num_ctas > 0;
  list.tile_rows = is_tiled ? kernels_[index].kernel.tile_rows : kUntiledRows;
  list.partial_rows = is_decode ? params_.group_size : list.tile_rows;

  const int64_t max_splits = limits_.max_blocks_per_seq * geometry_.block_size /
                                 (is_decode ? kMinDecodeSplit : kMinPromptSplit) +
                             2;
  const int64_t partial_bytes = int64_t{geometry_.num_kv_heads} * list.partial_rows *
                                kernels_[index].kernel.head_dim * kFloatBytes;
  int64_t num_partials =
      is_tiled ? std::min(MaxTiles(index) * max_splits, kMaxPartialBytes / partial_bytes) : 0;
  if (limits_.merges && is_tiled) num_partials = std::max(num_partials, MaxTiles(index));
  list.max_partials = static_cast<int32_t>(num_partials);
}

int64_t PlanMemory::MaxTiles(int index) const {
  if (!has_list(index)) return 0;
  const int64_t max_rows = limits_.max_num_batched_tokens * params_.group_size;
  return limits_.max_num_seqs + (index == 0 ? 0 : max_rows / params_.lists[index].tile_rows);
}

int64_t PlanMemory::NumPartialRows(int index) const {
  const WorkList& list = params_.lists[index];
  return int64_t{list.max_partials} * geometry_.num_kv_heads * list.partial_rows;
}

void PlanMemory::UsePartials(int index, const PartialBuffers& buffers) {
  WorkList& list = params_.lists[index];
  list.partial_out = buffers.out.as<float>();
  list.partial_state = buffers.state.as<float2>();
  list.arrivals = buffers.arrivals.as<int32_t>();
}

template <typename T>
absl::Status PlanMemory::AllocateArray(Device& device, int64_t count, T*& array) {
  ASSIGN_OR_RETURN(DeviceBuffer buffer,
                   AllocateZeros(device, count * static_cast<int64_t>(sizeof(T))));
  array = buffer.as<T>();
  buffers_.push_back(std::move(buffer));
  return absl::OkStatus();
}

absl::Status PlanMemory::Allocate(Device& device) {
  const int64_t max_seqs = limits_.max_num_seqs;
  PageTable& pages = params_.pages;
  RETURN_IF_ERROR(AllocateArray(device, max_seqs + 1, pages.kv_indptr));
  if (!options_.padded_pages) {
    RETURN_IF_ERROR(
        AllocateArray(device, max_seqs * limits_.max_blocks_per_seq, params_.csr_indices));
    pages.kv_indices = params_.csr_indices;
  }
  RETURN_IF_ERROR(AllocateArray(device, max_seqs, params_.seq_plans));
  for (int index = 0; index < kNumWorkLists; ++index) {
    WorkList& list = params_.lists[index];
    RETURN_IF_ERROR(AllocateArray(device, 1, list.state));
    RETURN_IF_ERROR(
        AllocateArray(device, MaxTiles(index) + list.max_partials + list.num_ctas, list.items));
  }
  return absl::OkStatus();
}

void PlanMemory::SetBatch(const AttentionBatch& batch) {
  if (!has_list(0)) CHECK_EQ(batch.num_decodes, 0);
  if (options_.padded_pages) params_.pages.kv_indices = batch.block_tables;
  batch_ = batch;
  params_.num_seqs = batch.num_seqs;
  params_.num_decode_tiled =
      batch.decode_query_len == 1 && params_.group_size <= params_.lists[0].tile_rows
          ? batch.num_decodes
          : 0;
  params_.cu_seqlens_q = batch.cu_seqlens_q;
  params_.seq_lens = batch.seq_lens;
  params_.seq_rows = batch.seq_rows;
  params_.first_blocks = batch.first_blocks;
  params_.variant.causal = batch.causal;
  params_.block_tables = batch.block_tables;
  params_.block_table_stride = batch.block_table_stride;
}

}  // namespace quire::cuda
