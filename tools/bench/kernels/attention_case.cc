#include "tools/bench/kernels/attention_case.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>

#include "engine/runner/phased_plan.h"
#include "kernels/attention_checks.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tools/bench/kernels/op_table.h"
#include "tools/bench/kernels/ragged_kv.h"
#ifdef QUIRE_CUDA
#include "kernels/cuda/attention/classic/classic_attention.h"
#endif

namespace quire::bench {

int32_t AttentionShape::DecodeQueryLen() const {
  constexpr int32_t kMaxDecodeQueryLen = 8;
  const std::vector<int32_t>& lens = lengths.query_lens;
  const bool uniform =
      std::all_of(lens.begin(), lens.end(), [&](int32_t len) { return len == lens.front(); });
  return uniform && lens.front() <= kMaxDecodeQueryLen ? lens.front() : 0;
}

AttentionGeometry AttentionShape::geometry() const {
  return {.num_q_heads = num_q_heads,
          .num_kv_heads = num_kv_heads,
          .k_head_dim = head_dim,
          .v_head_dim = head_dim,
          .block_size = block_size,
          .query_dtype = query_dtype(),
          .kv_dtype = kv_dtype,
          .scale = 1.0f / std::sqrt(static_cast<float>(head_dim))};
}

namespace {

// About the device memory that a case needs: 5 % more than can be counted.
int64_t BytesFor(const GraphTimer& timer, const AttentionShape& shape) {
  const int64_t token_bytes =
      2 * DTypeBytes(shape.kv_dtype) * int64_t{shape.num_kv_heads} * shape.head_dim;
  int64_t cache_bytes = shape.shared_prefix_len * token_bytes, num_tokens = 0;
  for (const int32_t length : shape.lengths.seq_lens) {
    cache_bytes +=
        RoundUp<int64_t>(length - shape.shared_prefix_len, shape.block_size) * token_bytes;
  }
  for (const int32_t length : shape.lengths.query_lens) num_tokens += length;
  int64_t step_bytes = 4 * num_tokens * shape.num_q_heads * shape.head_dim;  // queries and output
  if (shape.has_ragged) step_bytes += num_tokens * token_bytes;              // their own K and V
  const int64_t bytes = timer.NumColdBuffers(cache_bytes) * cache_bytes + step_bytes;
  return bytes + bytes / 20;
}

}  // namespace

absl::StatusOr<std::unique_ptr<AttentionCase>> AttentionCase::Create(
    GraphTimer& timer, const AttentionShape& shape, uint64_t seed, nlohmann::ordered_json* result) {
  ASSIGN_OR_RETURN(const MemoryInfo memory, timer.backend().device().Memory());
  if (const int64_t needed = BytesFor(timer, shape); needed > memory.free_bytes) {
    Skip(shape.name, needed, memory.free_bytes, result);
    return nullptr;
  }
  std::unique_ptr<AttentionCase> attention(new AttentionCase(timer, shape, seed));
  RETURN_IF_ERROR(attention->UploadBatch());
  RETURN_IF_ERROR(attention->MakeCaches());
  RETURN_IF_ERROR(attention->CreatePlans());
  return attention;
}

int64_t AttentionCase::block_elements() const {
  return int64_t{shape_.block_size} * shape_.num_kv_heads * shape_.head_dim;
}

bool AttentionCase::IsServedBy(const AttentionCapabilities& path) const {
  const int sm_version = timer_.backend().device().info().sm_version;
  const bool has_device =
      sm_version >= path.min_sm && (path.max_sm == 0 || sm_version <= path.max_sm);
  return has_device && WhyUnsupported(path, geometry_).empty();
}

const AttentionPlan& AttentionCase::PlanFor(size_t i, size_t cache) const {
  return *plans_[i][cache % plans_[i].size()];
}

absl::Status AttentionCase::CreatePlans() {
  const AttentionLimits limits = {.max_num_seqs = batch_.num_seqs,
                                  .max_num_batched_tokens = batch_.num_tokens,
                                  .max_blocks_per_seq = batch_.block_table_stride};
  if (shape_.shared_prefix_len > 0) return CreateCascadePlans(limits);
  if (shape_.has_ragged) return CreateRaggedPlans(limits);
  for (const AttentionPath path : {AttentionPath::kNative, AttentionPath::kTrtllm}) {
    AttentionBackend* attention = timer_.backend().attention(path);
    if (attention == nullptr || !IsServedBy(attention->capabilities())) continue;
    ASSIGN_OR_RETURN(Plans plans, attention->CreatePlans({&geometry_, 1}, limits));
    names_.push_back(PathName(path));
    plans_.push_back(std::move(plans));
  }
  return CreateClassicPlans(limits);
}

// A plan for each cache, as each keeps a copy of one; none where they cannot compute the shape.
absl::Status AttentionCase::CreateClassicPlans([[maybe_unused]] const AttentionLimits& limits) {
#ifdef QUIRE_CUDA
  Device& device = timer_.backend().device();
  const bool decodes_one = batch_.num_decodes == batch_.num_seqs && batch_.decode_query_len == 1;
  if (timer_.device_kind() != DeviceKind::kCuda || !decodes_one) return absl::OkStatus();
  Plans plans;
  for (size_t i = 0; i < caches_.size(); ++i) {
    auto plan = cuda::CreateClassicPlan(device, geometry_, limits);
    // The copies are as long as the longest sequence, of all sequences.
    const bool has_room = !absl::IsResourceExhausted(plan.status());
    if (!has_room || absl::IsInvalidArgument(plan.status())) return absl::OkStatus();
    RETURN_IF_ERROR(plan.status());
    plans.push_back(*std::move(plan));
  }
  names_.emplace_back(kClassic);
  plans_.push_back(std::move(plans));
#endif
  return absl::OkStatus();
}

absl::Status AttentionCase::CreateCascadePlans(const AttentionLimits& limits) {
  Backend& backend = timer_.backend();
  AttentionBackend* decode = backend.attention(AttentionPath::kTrtllm);
  if (decode == nullptr || !IsServedBy(decode->capabilities())) {
    decode = backend.attention(AttentionPath::kNative);
  }
  for (const int64_t max_prefix_groups : {0, 1}) {
    ASSIGN_OR_RETURN(Plans plans,
                     CreatePhasedPlans(backend.device(),
                                       {.prefill = backend.attention(AttentionPath::kNative),
                                        .decode = decode,
                                        .prefix = backend.attention(AttentionPath::kNative),
                                        .max_prefix_groups = max_prefix_groups},
                                       {geometry_}, limits));
    plans_.push_back(std::move(plans));
  }
  return UploadPrefix();
}

// One group of all sequences.
absl::Status AttentionCase::UploadPrefix() {
  const int32_t prefix_len = shape_.shared_prefix_len;
  std::vector<int32_t> rest_lens = shape_.lengths.seq_lens;
  for (int32_t& length : rest_lens) length -= prefix_len;
  const std::vector<int32_t> first_blocks(rest_lens.size(), prefix_len / shape_.block_size);
  ASSIGN_OR_RETURN(prefix_cu_seqlens_q_, timer_.Upload(std::vector<int32_t>{0, batch_.num_seqs}));
  ASSIGN_OR_RETURN(prefix_lens_, timer_.Upload(std::vector<int32_t>{prefix_len}));
  ASSIGN_OR_RETURN(first_blocks_, timer_.Upload(first_blocks));
  ASSIGN_OR_RETURN(rest_lens_, timer_.Upload(rest_lens));
  batch_.prefixes = {.num_groups = 1,
                     .cu_seqlens_q = prefix_cu_seqlens_q_.as<int32_t>(),
                     .prefix_lens = prefix_lens_.as<int32_t>(),
                     .prefix_rows = rows_.as<int32_t>(),
                     .first_blocks = first_blocks_.as<int32_t>(),
                     .seq_lens = rest_lens_.as<int32_t>()};
  return absl::OkStatus();
}

absl::Status AttentionCase::CreateRaggedPlans(const AttentionLimits& limits) {
  Backend& backend = timer_.backend();
  AttentionBackend& attention = *backend.attention(AttentionPath::kNative);
  ASSIGN_OR_RETURN(Plans paged, attention.CreatePlans({&geometry_, 1}, limits));
  plans_.push_back(std::move(paged));
  ASSIGN_OR_RETURN(RaggedTokens tokens, UploadOwnTokens());
  const int64_t num_rows = batch_.num_tokens + kRaggedRoomRows;
  const int64_t num_elements = num_rows * shape_.num_kv_heads * shape_.head_dim;
  const DType dtype = shape_.query_dtype();
  Plans ragged;
  for (size_t i = 0; i < caches_.size(); ++i) {
    ASSIGN_OR_RETURN(DeviceBuffer kv, timer_.Random(dtype, 2 * num_elements, seed_ + 2000 + i));
    const auto rows = [&](void* data) {
      return Tensor(data, dtype, {num_rows, shape_.num_kv_heads, shape_.head_dim});
    };
    tokens.k = rows(kv.data());
    tokens.v = rows(kv.as<uint8_t>() + num_elements * DTypeBytes(dtype));
    own_kv_.push_back(std::move(kv));
    ASSIGN_OR_RETURN(auto plan,
                     RaggedPlan::Create(backend.device(), attention, geometry_, limits, tokens));
    ragged.push_back(std::move(plan));
  }
  plans_.push_back(std::move(ragged));
  return absl::OkStatus();
}

// All but k and v.
absl::StatusOr<RaggedTokens> AttentionCase::UploadOwnTokens() {
  const BatchLengths& lengths = shape_.lengths;
  const auto num_seqs = static_cast<int32_t>(lengths.seq_lens.size());
  std::vector<int32_t> cu_seqlens_q = {0}, rows(num_seqs), prefix_lens = lengths.seq_lens;
  std::iota(rows.begin(), rows.end(), 0);
  for (int32_t i = 0; i < num_seqs; ++i) {
    cu_seqlens_q.push_back(cu_seqlens_q.back() + lengths.query_lens[i]);
    prefix_lens[i] -= lengths.query_lens[i];
  }
  const int64_t stride = CeilDiv(cu_seqlens_q.back(), kRaggedBlockSize);
  std::vector<BlockId> tables(num_seqs * stride, kNoBlock);
  FillRaggedBlockTables(cu_seqlens_q, rows, stride, absl::MakeSpan(tables));
  ASSIGN_OR_RETURN(own_lens_, timer_.Upload(lengths.query_lens));
  ASSIGN_OR_RETURN(own_prefix_lens_, timer_.Upload(prefix_lens));
  ASSIGN_OR_RETURN(own_tables_, timer_.Upload(tables));
  const bool has_prefixes =
      std::any_of(prefix_lens.begin(), prefix_lens.end(), [](int32_t len) { return len > 0; });
  return RaggedTokens{.k = {},
                      .v = {},
                      .query_lens = own_lens_.as<int32_t>(),
                      .prefix_lens = has_prefixes ? own_prefix_lens_.as<int32_t>() : nullptr,
                      .block_tables = own_tables_.as<BlockId>(),
                      .block_table_stride = stride};
}

absl::Status AttentionCase::UploadBatch() {
  const BatchLengths& lengths = shape_.lengths;
  const auto num_seqs = static_cast<int32_t>(lengths.seq_lens.size());
  std::vector<int32_t> cu_seqlens_q = {0};
  for (const int32_t length : lengths.query_lens) {
    cu_seqlens_q.push_back(cu_seqlens_q.back() + length);
  }
  const int32_t longest = *std::max_element(lengths.seq_lens.begin(), lengths.seq_lens.end());
  const int64_t stride = CeilDiv(longest, shape_.block_size);
  const int32_t prefix_blocks = shape_.shared_prefix_len / shape_.block_size;
  num_blocks_ = prefix_blocks;
  for (const int32_t length : lengths.seq_lens) {
    num_blocks_ += CeilDiv(length, shape_.block_size) - prefix_blocks;
  }
  std::vector<BlockId> shuffled(num_blocks_);
  std::iota(shuffled.begin(), shuffled.end(), 0);
  std::shuffle(shuffled.begin(), shuffled.end(), std::mt19937_64(seed_));
  std::vector<BlockId> tables(num_seqs * stride, kNoBlock);
  auto next = shuffled.begin() + prefix_blocks;
  for (int32_t i = 0; i < num_seqs; ++i) {
    const int64_t count = CeilDiv(lengths.seq_lens[i], shape_.block_size) - prefix_blocks;
    const auto own = std::copy_n(shuffled.begin(), prefix_blocks, tables.begin() + i * stride);
    std::copy_n(next, count, own);
    next += count;
  }
  std::vector<int32_t> rows(num_seqs);
  std::iota(rows.begin(), rows.end(), 0);
  ASSIGN_OR_RETURN(cu_seqlens_q_, timer_.Upload(cu_seqlens_q));
  ASSIGN_OR_RETURN(seq_lens_, timer_.Upload(lengths.seq_lens));
  ASSIGN_OR_RETURN(rows_, timer_.Upload(rows));
  ASSIGN_OR_RETURN(tables_, timer_.Upload(tables));
  const int32_t decode_query_len = shape_.DecodeQueryLen();
  batch_ = {.num_seqs = num_seqs,
            .num_tokens = cu_seqlens_q.back(),
            .num_decodes = decode_query_len > 0 ? num_seqs : 0,
            .decode_query_len = std::max(decode_query_len, 1),
            .cu_seqlens_q = cu_seqlens_q_.as<int32_t>(),
            .seq_lens = seq_lens_.as<int32_t>(),
            .seq_rows = rows_.as<int32_t>(),
            .block_tables = tables_.as<BlockId>(),
            .block_table_stride = stride};
  return absl::OkStatus();
}

absl::Status AttentionCase::MakeCaches() {
  const int64_t cache_elements = 2 * num_blocks_ * block_elements();
  const int num_caches = timer_.NumColdBuffers(DTypeBytes(shape_.kv_dtype) * cache_elements);
  for (int i = 0; i < num_caches; ++i) {
    ASSIGN_OR_RETURN(DeviceBuffer cache, timer_.Random(shape_.kv_dtype, cache_elements, seed_ + i));
    caches_.push_back(std::move(cache));
  }
  const int64_t q_size = int64_t{batch_.num_tokens} * shape_.num_q_heads * shape_.head_dim;
  ASSIGN_OR_RETURN(q_, timer_.Random(shape_.query_dtype(), q_size, seed_ + 1000));
  ASSIGN_OR_RETURN(out_, timer_.backend().device().Allocate(q_size * 2));
  return absl::OkStatus();
}

absl::StatusOr<double> AttentionCase::PlanUs(size_t i) {
  return timer_.MedianUs(20, [&](int) { plans_[i].front()->PlanStep(timer_.stream(), batch_); });
}

absl::StatusOr<std::vector<double>> AttentionCase::RunUs() {
  constexpr int kRounds = 3;
  const auto num_caches = static_cast<int>(caches_.size());
  std::vector<std::vector<double>> rounds(plans_.size());
  for (const Plans& plans : plans_) {
    for (size_t i = 0; i < plans.size(); ++i) {
      plans[i]->PlanStep(timer_.stream(), batch_);
      Run(*plans[i], caches_[i]);  // the classic kernels' plans copy it now, and in no later run
    }
  }
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < plans_.size(); ++i) {
      ASSIGN_OR_RETURN(
          const double us,
          timer_.MedianColdUs(caches_.front().size_bytes(), num_caches,
                              [&](int cache) { Run(PlanFor(i, cache), caches_[cache]); }));
      rounds[i].push_back(us);
    }
  }
  std::vector<double> medians;
  for (std::vector<double>& times_us : rounds) {
    std::sort(times_us.begin(), times_us.end());
    medians.push_back(times_us[kRounds / 2]);
  }
  return medians;
}

void AttentionCase::Run(const AttentionPlan& plan, const DeviceBuffer& cache) {
  const DType dtype = shape_.query_dtype();
  const Tensor q(q_.data(), dtype, {batch_.num_tokens, shape_.num_q_heads, shape_.head_dim});
  const Tensor out(out_.data(), dtype, {batch_.num_tokens, shape_.num_q_heads, shape_.head_dim});
  // As KvArena lays it out: [num_blocks, 2, num_kv_heads, block_size, head_dim].
  HeadsView keys = {.data = cache.data(),
                    .block_stride = 2 * block_elements(),
                    .token_stride = shape_.head_dim,
                    .head_stride = int64_t{shape_.block_size} * shape_.head_dim,
                    .head_dim = shape_.head_dim};
  if (shape_.is_token_major) {
    keys.token_stride = int64_t{shape_.num_kv_heads} * shape_.head_dim;
    keys.head_stride = shape_.head_dim;
  }
  KvCacheView view = {.k = keys,
                      .v = keys,
                      .dtype = shape_.kv_dtype,
                      .block_size = shape_.block_size,
                      .num_kv_heads = shape_.num_kv_heads};
  view.v.data = cache.as<uint8_t>() + block_elements() * DTypeBytes(shape_.kv_dtype);
  plan.Run(timer_.stream(), {.q = q, .kv_cache = view, .out = out});
}

}  // namespace quire::bench
