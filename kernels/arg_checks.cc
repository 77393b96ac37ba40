#include "kernels/arg_checks.h"

#include <algorithm>
#include <initializer_list>

#include "kernels/base/check.h"
#include "kernels/float8_rows.h"
#include "kernels/weight_checks.h"

namespace quire {

namespace {

// An activation [rows, cols] of this dtype.
void CheckMatrix(const Tensor& tensor, DType dtype, int64_t rows, int64_t cols) {
  CHECK_EQ(tensor.rank(), 2);
  CHECK(tensor.dtype() == dtype) << DTypeName(tensor.dtype()) << ", not " << DTypeName(dtype);
  CHECK_EQ(tensor.dim(0), rows);
  CHECK_EQ(tensor.dim(1), cols);
}

// Heads that lie in a row of this matrix, one `stride` elements behind the other.
void CheckSpread(const Tensor& matrix, int64_t num_heads, int64_t head_dim, int64_t first,
                 int64_t stride) {
  CHECK_GE(num_heads, 0);
  if (num_heads == 0) return;
  CHECK_GE(first, 0);
  CHECK_GE(stride, head_dim);
  CHECK_LE(first + (num_heads - 1) * stride + head_dim, matrix.dim(1));
}

// Float32 values without gaps.
void CheckParameters(const Tensor& tensor, std::initializer_list<int64_t> shape) {
  CHECK(tensor.dtype() == DType::kF32) << DTypeName(tensor.dtype()) << ", not float32";
  CHECK_EQ(tensor.rank(), static_cast<int>(shape.size()));
  int64_t row_size = 1;
  for (int i = 0; i < tensor.rank(); ++i) {
    CHECK_EQ(tensor.dim(i), shape.begin()[i]);
    if (i > 0) row_size *= tensor.dim(i);
  }
  CHECK_EQ(tensor.row_stride(), row_size);
}

// One of a Routing's, without gaps.
void CheckIndices(const Tensor& tensor, DType dtype, std::initializer_list<int64_t> shape) {
  CHECK(tensor.dtype() == dtype) << DTypeName(tensor.dtype()) << ", not " << DTypeName(dtype);
  CHECK_EQ(tensor.rank(), static_cast<int>(shape.size()));
  for (int i = 0; i < tensor.rank(); ++i) CHECK_EQ(tensor.dim(i), shape.begin()[i]);
}

void CheckRouting(const Routing& routing) {
  const int64_t num_tokens = routing.num_tokens(), top_k = routing.top_k();
  CHECK_GE(routing.num_experts(), 1);
  CHECK(top_k >= 1 && top_k <= std::min<int64_t>(routing.num_experts(), RouterRule::kMaxTopK))
      << top_k << " of " << routing.num_experts() << " experts";
  CheckIndices(routing.experts, DType::kI32, {num_tokens, top_k});
  CheckIndices(routing.weights, DType::kF32, {num_tokens, top_k});
  CheckIndices(routing.pairs, DType::kI32, {num_tokens * top_k});
  CheckIndices(routing.offsets, DType::kI32, {routing.num_experts() + 1});
}

void CheckRule(const RouterRule& rule) {
  CHECK(rule.num_experts >= 1 && rule.num_experts <= RouterRule::kMaxExperts) << rule.num_experts;
  CHECK(rule.num_groups >= 1 && rule.num_groups <= RouterRule::kMaxGroups) << rule.num_groups;
  CHECK_EQ(rule.num_experts % rule.num_groups, 0) << rule.num_groups;
  CHECK(rule.top_groups >= 1 && rule.top_groups <= rule.num_groups) << rule.top_groups;
  CHECK_LE(rule.top_k, rule.num_experts / rule.num_groups * rule.top_groups);
}

// Checks the arguments that operations with the experts' matrices share.
void CheckExperts(const LinearWeight& weight, const Tensor& bias, const Routing& routing) {
  CheckWeight(weight);
  CheckRouting(routing);
  CHECK_EQ(weight.num_experts, routing.num_experts());
  CHECK(weight.num_experts == 1 || weight.expert_bytes > 0);
  if (!bias.empty()) CheckParameters(bias, {weight.num_experts, weight.out_features});
}

void CheckShape(const GatedDeltaShape& shape) {
  CHECK(shape.num_k_heads > 0 && shape.num_v_heads > 0) << shape.num_k_heads;
  CHECK_EQ(shape.num_v_heads % shape.num_k_heads, 0) << "v heads of each k head";
  for (const int32_t head_dim : {shape.k_head_dim, shape.v_head_dim}) {
    CHECK(head_dim > 0 && head_dim % 8 == 0 && head_dim <= GatedDeltaShape::kMaxHeadDim)
        << "head size " << head_dim;
  }
  CHECK(shape.conv_width >= 2 && shape.conv_width <= GatedDeltaShape::kMaxConvWidth)
      << "convolution of " << shape.conv_width;
}

// The slots do not overlap.
void CheckState(const StateView& state, const GatedDeltaShape& shape, DType activations) {
  CHECK(state.conv != nullptr && state.recurrent != nullptr);
  CHECK(state.dtype == DType::kF32 || state.dtype == DType::kBF16) << DTypeName(state.dtype);
  CHECK_GE(state.conv_stride_bytes,
           (shape.conv_width - 1) * shape.num_channels() * DTypeBytes(activations));
  CHECK_GE(state.recurrent_stride_bytes,
           shape.v_size() * shape.k_head_dim * DTypeBytes(state.dtype));
}

}  // namespace

void CheckArgs(const EmbeddingArgs& args) {
  CheckWeight(*args.table);
  CheckMatrix(args.out, args.table->dtype, args.out.dim(0), args.table->in_features);
}

void CheckArgs(const RmsNormArgs& args) {
  CHECK(IsActivation(args.x.dtype())) << DTypeName(args.x.dtype());
  CHECK(!args.out.empty() || !args.float8_out.empty());
  if (!args.out.empty()) CheckMatrix(args.out, args.x.dtype(), args.x.dim(0), args.x.dim(1));
  if (!args.float8_out.empty()) {
    CHECK(DTypeBytes(args.x.dtype()) == 2) << DTypeName(args.x.dtype());
    CHECK(args.x.dim(1) % Float8Rows::kLineColumns == 0) << args.x.dim(1);
    CheckMatrix(args.float8_out, DType::kF8E4M3, args.x.dim(0), args.x.dim(1));
  }
  if (!args.residual.empty()) {
    CheckMatrix(args.residual, args.x.dtype(), args.x.dim(0), args.x.dim(1));
  }
  CheckVector(args.weight, args.x.dim(1));
}

void CheckArgs(const LinearArgs& args) {
  CheckWeight(*args.weight);
  const bool is_float8 = args.x.dtype() == DType::kF8E4M3;
  CheckMatrix(args.x, is_float8 ? NormedDType(*args.weight) : args.weight->dtype, args.x.dim(0),
              args.weight->in_features);
  CHECK(args.out.dtype() == args.weight->dtype || args.out.dtype() == DType::kF32)
      << DTypeName(args.out.dtype());
  CheckMatrix(args.out, args.out.dtype(), args.x.dim(0), args.weight->out_features);
  if (!args.bias.empty()) CheckVector(args.bias, args.weight->out_features);
}

void CheckArgs(const StoreHeadsArgs& args) {
  const KvCacheView& kv = args.kv_cache;
  const int64_t head_dim = kv.k.head_dim;
  CHECK(kv.v.IsLaidOutAs(kv.k));
  CHECK(IsActivation(args.x.dtype())) << DTypeName(args.x.dtype());
  CHECK_EQ(args.x.rank(), 2);
  for (const HeadsArgs* heads : {&args.q, &args.k, &args.v}) {
    CheckSpread(args.x, heads->num_heads, head_dim, heads->first, heads->stride);
    CHECK_EQ(!heads->norm_weight.empty(), heads->norm == HeadNormKind::kWeight);
    if (!heads->norm_weight.empty()) CheckVector(heads->norm_weight, head_dim);
    CHECK(!heads->rotate || args.num_pairs == 0 || args.cos_sin != nullptr);
  }
  CHECK(args.k.num_heads == 0 || args.k.num_heads == kv.num_kv_heads) << args.k.num_heads;
  CHECK_EQ(args.v.num_heads, args.k.num_heads);
  CHECK_EQ(args.q_out.rank(), 3);
  CHECK(args.q_out.dtype() == args.x.dtype()) << DTypeName(args.q_out.dtype());
  CHECK_EQ(args.q_out.dim(0), args.x.dim(0));
  CHECK_EQ(args.q_out.dim(1), args.q.num_heads);
  CHECK_EQ(args.q_out.dim(2), head_dim);
  const bool neighbours = args.pair_distance == 1;
  const int64_t pairs_end = args.num_pairs + (neighbours ? args.num_pairs : args.pair_distance);
  CHECK(args.num_pairs >= 0 && pairs_end <= head_dim &&
        (neighbours || args.num_pairs <= args.pair_distance))
      << args.num_pairs << " pairs of distance " << args.pair_distance;
}

void CheckArgs(const GateArgs& args) {
  CHECK(IsActivation(args.x.dtype())) << DTypeName(args.x.dtype());
  CHECK_EQ(args.x.rank(), 3);
  CheckMatrix(args.gate, args.x.dtype(), args.x.dim(0), args.gate.dim(1));
  CheckSpread(args.gate, args.x.dim(1), args.x.dim(2), args.gate_first, args.gate_stride);
}

void CheckArgs(const GatedActivationArgs& args) {
  CHECK(IsActivation(args.out.dtype())) << DTypeName(args.out.dtype());
  CheckMatrix(args.gate, args.out.dtype(), args.out.dim(0), args.out.dim(1));
  CheckMatrix(args.up, args.out.dtype(), args.out.dim(0), args.out.dim(1));
}

void CheckArgs(const AddArgs& args) {
  CHECK(IsActivation(args.x.dtype())) << DTypeName(args.x.dtype());
  CHECK_EQ(args.x.rank(), 2);
  CheckMatrix(args.y, args.x.dtype(), args.x.dim(0), args.x.dim(1));
  if (!args.factor.empty()) CheckParameters(args.factor, {1});
}

void CheckArgs(const GatedLinearArgs& args) {
  CheckArgs(args.Linear());
  CHECK_EQ(args.gate_up.dim(1) % 2, 0);
  CheckArgs(args.Activate());
}

void CheckArgs(const RouteArgs& args) {
  const RouterRule& rule = args.rule;
  CheckRule(rule);
  CheckRouting(args.out);
  CHECK_EQ(args.out.top_k(), rule.top_k);
  CHECK_EQ(args.out.num_experts(), rule.num_experts);
  CheckMatrix(args.logits, DType::kF32, args.out.num_tokens(), rule.num_experts);
  if (!args.correction.empty()) CheckParameters(args.correction, {rule.num_experts});
  if (!args.expert_scales.empty()) CheckParameters(args.expert_scales, {rule.num_experts});
  if (args.counts.empty()) return;
  CHECK(args.counts.dtype() == DType::kI64);
  CHECK_EQ(args.counts.num_elements(), rule.num_experts);
}

void CheckArgs(const ExpertsGatedLinearArgs& args) {
  const LinearWeight& weight = *args.weight;
  CheckExperts(weight, args.bias, args.routing);
  CHECK_EQ(weight.out_features % 2, 0);
  CheckMatrix(args.x, weight.dtype, args.routing.num_tokens(), weight.in_features);
  const int64_t num_pairs = args.routing.num_pairs();
  CheckMatrix(args.gate_up, weight.dtype, num_pairs, weight.out_features);
  if (!args.sorted_x.empty()) {
    CheckMatrix(args.sorted_x, weight.dtype, num_pairs, weight.in_features);
  }
  CheckMatrix(args.out, weight.dtype, num_pairs, weight.out_features / 2);
}

void CheckArgs(const ExpertsLinearArgs& args) {
  const LinearWeight& weight = *args.weight;
  CheckExperts(weight, args.bias, args.routing);
  const int64_t num_pairs = args.routing.num_pairs(), num_tokens = args.routing.num_tokens();
  CheckMatrix(args.x, weight.dtype, num_pairs, weight.in_features);
  CheckMatrix(args.rows, weight.dtype, num_pairs, weight.out_features);
  CheckMatrix(args.out, weight.dtype, num_tokens, weight.out_features);
  if (!args.add.empty()) CheckMatrix(args.add, weight.dtype, num_tokens, weight.out_features);
  if (!args.add_gate.empty()) {
    CHECK(!args.add.empty());
    CheckMatrix(args.add_gate, DType::kF32, num_tokens, 1);
  }
}

void CheckArgs(const ScaleArgs& args) {
  CHECK(IsActivation(args.x.dtype())) << DTypeName(args.x.dtype());
  CHECK_EQ(args.x.rank(), 2);
}

void CheckArgs(const SoftCapArgs& args) {
  CHECK(IsActivation(args.x.dtype())) << DTypeName(args.x.dtype());
  CHECK_EQ(args.x.rank(), 2);
  CHECK(args.cap > 0) << args.cap;
}

void CheckArgs(const GatherRowsArgs& args) {
  CHECK_EQ(args.in.rank(), 2);
  CheckMatrix(args.out, args.in.dtype(), args.out.dim(0), args.in.dim(1));
}

void CheckArgs(const GatedDeltaArgs& args) {
  const GatedDeltaShape& shape = args.shape;
  const DType dtype = args.qkvz.dtype();
  const int64_t num_tokens = args.qkvz.dim(0);
  CheckShape(shape);
  CHECK(IsActivation(dtype)) << DTypeName(dtype);
  CheckMatrix(args.qkvz, dtype, num_tokens, shape.num_channels() + shape.v_size());
  CheckMatrix(args.ba, dtype, num_tokens, 2 * int64_t{shape.num_v_heads});
  CheckMatrix(args.conv_out, dtype, num_tokens, shape.num_channels());
  CheckMatrix(args.out, dtype, num_tokens, shape.v_size());
  CheckParameters(args.conv_weight, {shape.num_channels(), shape.conv_width});
  CheckParameters(args.a_log, {shape.num_v_heads});
  CheckParameters(args.dt_bias, {shape.num_v_heads});
  CheckParameters(args.norm_weight, {shape.v_head_dim});
  CheckState(args.state, shape, dtype);
  if (!args.room.empty()) CHECK(args.room.dtype() == DType::kU8) << DTypeName(args.room.dtype());
}

void CheckArgs(const UpdateBlockTablesArgs& args) {
  CHECK_GE(args.num_updates, 0);
  CHECK(args.num_updates == 0 || args.updates != nullptr);
}

void CheckArgs(const ResetTokenCountsArgs& args) {
  CHECK_LE(args.num_prompt_tokens, args.num_tokens);
}

void CheckArgs(const SampleArgs& args) {
  CheckMatrix(args.logits, DType::kF32, args.logits.dim(0), args.logits.dim(1));
}

}  // namespace quire
