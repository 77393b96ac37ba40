// AttentionTest: runs a PagedBatch through an attention path of the backend under test
// (attention_targets.h).
#pragma once

#include <cmath>
#include <memory>
#include <vector>

#include "kernels/attention_checks.h"
#include "tests/kernels/attention_targets.h"
#include "tests/kernels/kernel_test.h"
#include "tests/kernels/paged_batch.h"

namespace quire {

inline AttentionGeometry Geometry(int32_t num_q_heads, int32_t num_kv_heads, int32_t head_dim,
                                  DType dtype = DType::kF32) {
  return {.num_q_heads = num_q_heads,
          .num_kv_heads = num_kv_heads,
          .k_head_dim = head_dim,
          .v_head_dim = head_dim,
          .block_size = 16,
          .query_dtype = dtype,
          .kv_dtype = dtype,
          .scale = 1.0f / std::sqrt(static_cast<float>(head_dim))};
}

struct AttentionOutput {
  std::vector<float> out;
  std::vector<float> lse;

  // The elements of one query token.
  std::vector<float> Token(int64_t token, int64_t num_tokens) const {
    const int64_t size = static_cast<int64_t>(out.size()) / num_tokens;
    const int64_t heads = static_cast<int64_t>(lse.size()) / num_tokens;
    std::vector<float> values(out.begin() + token * size, out.begin() + (token + 1) * size);
    values.insert(values.end(), lse.begin() + token * heads, lse.begin() + (token + 1) * heads);
    return values;
  }
};

class AttentionTest : public KernelTest {
 protected:
  static bool WithAmx() {
    return GetParam().name == kEmulatedAmx ||
           GetParam().cpu_isa == cpu::IsaName(cpu::Isa::kAmxBf16);
  }

  std::unique_ptr<Backend> MakeBackend(int num_threads) override {
#ifdef QUIRE_PORTABLE_PREFILL
    if (GetParam().name == kPortablePrefill) return std::make_unique<PortablePrefillBackend>();
#endif
    if (GetParam().name != kEmulatedAmx) return KernelTest::MakeBackend(num_threads);
    return std::make_unique<EmulatedAmxBackend>(num_threads);
  }

  static bool IsTrtllm() { return GetParam().path == AttentionPath::kTrtllm; }
  // Prompts whose queries and probs have 4 bits, too: a prob may be wrong by a sixteenth, a logit
  // by as much of its largest parts.
  static constexpr double kFloat8Tolerance = 0.15;
  static bool RoundsToFloat8(const AttentionGeometry& geometry) {
    return IsTrtllm() && geometry.kv_dtype == DType::kF8E4M3 && geometry.k_head_dim > 64 &&
           geometry.k_head_dim <= 128;
  }
  bool Serves(const AttentionGeometry& geometry) {
    return WhyUnsupported(attention().capabilities(), geometry).empty();
  }

  // As the device has them.
  static std::vector<float> Queries(const PagedBatch& batch) {
    return RoundTo(batch.geometry.query_dtype, batch.q);
  }

  static AttentionLimits LimitsOf(const PagedBatch& batch) {
    const AttentionBatch host = batch.HostBatch();
    return {.max_num_seqs = host.num_seqs,
            .max_num_batched_tokens = host.num_tokens,
            .max_blocks_per_seq = batch.max_blocks_per_seq};
  }

  AttentionOutput Run(const PagedBatch& batch) {
    const auto plan = attention().CreatePlan(batch.geometry, LimitsOf(batch));
    EXPECT_TRUE(plan.ok()) << plan.status();
    return Run(batch, **plan);
  }

  // `before`: what `out` and `lse` hold then; without, what no attention gives.
  AttentionOutput Run(const PagedBatch& batch, AttentionPlan& plan,
                      const AttentionOutput& before = {}) {
    const AttentionGeometry& geometry = batch.geometry;
    const AttentionBatch host = batch.HostBatch();
    const DeviceBuffer cu_seqlens_q = Upload(batch.cu_seqlens_q);
    const DeviceBuffer seq_lens = Upload(batch.seq_lens);
    const DeviceBuffer seq_rows = Upload(batch.seq_rows);
    const DeviceBuffer block_tables = Upload(batch.block_tables);
    AttentionBatch device = host;
    device.cu_seqlens_q = cu_seqlens_q.as<int32_t>();
    device.seq_lens = seq_lens.as<int32_t>();
    device.seq_rows = seq_rows.as<int32_t>();
    device.block_tables = block_tables.as<BlockId>();
    const DeviceBuffer first_blocks = Upload(batch.first_blocks);
    if (!batch.first_blocks.empty()) device.first_blocks = first_blocks.as<int32_t>();
    const DeviceBuffer prefix_cu_seqlens_q = Upload(batch.prefix_cu_seqlens_q);
    const DeviceBuffer prefix_lens = Upload(batch.prefix_lens);
    const DeviceBuffer prefix_rows = Upload(batch.prefix_rows);
    const DeviceBuffer prefix_blocks = Upload(batch.prefix_blocks);
    const DeviceBuffer rest_lens = Upload(batch.rest_lens);
    if (!batch.prefix_lens.empty()) {
      device.prefixes = {.num_groups = static_cast<int32_t>(batch.prefix_lens.size()),
                         .cu_seqlens_q = prefix_cu_seqlens_q.as<int32_t>(),
                         .prefix_lens = prefix_lens.as<int32_t>(),
                         .prefix_rows = prefix_rows.as<int32_t>(),
                         .first_blocks = prefix_blocks.as<int32_t>(),
                         .seq_lens = rest_lens.as<int32_t>()};
    }

    const int64_t num_tokens = host.num_tokens;
    const int64_t cache_size = static_cast<int64_t>(batch.k.size());
    const DeviceTensor q = UploadTensor(batch.q, geometry.query_dtype,
                                        {num_tokens, geometry.num_q_heads, geometry.k_head_dim});
    const DeviceTensor k = UploadTensor(batch.k, geometry.kv_dtype, {cache_size});
    const DeviceTensor v = UploadTensor(batch.v, geometry.kv_dtype, {cache_size});
    const auto or_77 = [](const std::vector<float>& values, int64_t size) {
      return values.empty() ? std::vector<float>(size, 77.0f) : values;
    };
    const int64_t num_rows = num_tokens * geometry.num_q_heads;
    const DeviceTensor out =
        UploadTensor(or_77(before.out, num_rows * geometry.v_head_dim), geometry.query_dtype,
                     {num_tokens, geometry.num_q_heads, geometry.v_head_dim});
    const DeviceBuffer lse = Upload(or_77(before.lse, num_rows));
    const DeviceBuffer k_scales = Upload(batch.k_scales), v_scales = Upload(batch.v_scales);
    const DeviceBuffer sinks = Upload(batch.sinks);
    KvCacheView view = batch.view;
    view.k.data = k.buffer.data();
    view.v.data = v.buffer.data();
    if (!batch.k_scales.empty()) view.k.scales = k_scales.as<float>();
    if (!batch.v_scales.empty()) view.v.scales = v_scales.as<float>();

    plan.PlanStep(stream(), device);
    plan.Run(stream(), {.q = q.tensor,
                        .kv_cache = view,
                        .out = out.tensor,
                        .lse = lse.as<float>(),
                        .sinks = batch.sinks.empty() ? nullptr : sinks.as<float>()});
    return {DownloadTensor(out.tensor), Download<float>(lse.data(), num_rows)};
  }
};

}  // namespace quire
