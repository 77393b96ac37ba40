#include "kernels/arg_checks.h"

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

}  // namespace

void CheckArgs(const EmbeddingArgs& args) {
  CheckWeight(*args.table);
  CheckMatrix(args.out, args.table->dtype, args.out.dim(0), args.table->in_features);
}

void CheckArgs(const RmsNormArgs& args) {
  CHECK(IsActivation(args.x.dtype())) << DTypeName(args.x.dtype());
  const bool to_float8 = args.out.dtype() == DType::kF8E4M3;
  CHECK(!to_float8 || args.x.dim(1) % Float8Rows::kLineColumns == 0) << args.x.dim(1);
  CheckMatrix(args.out, to_float8 ? DType::kF8E4M3 : args.x.dtype(), args.x.dim(0), args.x.dim(1));
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

void CheckArgs(const RopeAndStoreKvArgs& args) {
  const int64_t head_dim = args.kv_cache.head_dim;
  const int64_t num_heads = args.num_q_heads + 2 * args.kv_cache.num_kv_heads;
  CHECK(IsActivation(args.qkv.dtype())) << DTypeName(args.qkv.dtype());
  CheckMatrix(args.qkv, args.qkv.dtype(), args.qkv.dim(0), num_heads * head_dim);
  CHECK_EQ(args.q_out.rank(), 3);
  CHECK(args.q_out.dtype() == args.qkv.dtype()) << DTypeName(args.q_out.dtype());
  CHECK_EQ(args.q_out.dim(0), args.qkv.dim(0));
  CHECK_EQ(args.q_out.dim(1), args.num_q_heads);
  CHECK_EQ(args.q_out.dim(2), head_dim);
  if (!args.q_norm_weight.empty()) CheckVector(args.q_norm_weight, head_dim);
  if (!args.k_norm_weight.empty()) CheckVector(args.k_norm_weight, head_dim);
  CHECK(args.rotary_dim % 2 == 0 && args.rotary_dim <= head_dim) << args.rotary_dim;
}

void CheckArgs(const GatedActivationArgs& args) {
  CHECK(IsActivation(args.out.dtype())) << DTypeName(args.out.dtype());
  CheckMatrix(args.gate_up, args.out.dtype(), args.out.dim(0), 2 * args.out.dim(1));
}

void CheckArgs(const GatedLinearArgs& args) {
  CheckArgs(args.Linear());
  CheckArgs(args.Activate());
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

void CheckArgs(const MergeStateArgs& args) {
  for (const Tensor* state : {&args.out_a, &args.out_b}) {
    CHECK(state->dtype() == args.out.dtype()) << DTypeName(state->dtype());
    CHECK_EQ(state->rank(), 3);
    for (int i = 0; i < 3; ++i) CHECK_EQ(state->dim(i), args.out.dim(i));
  }
}

void CheckArgs(const MergeStatesArgs& args) {
  CHECK_GE(args.num_states, 1);
  CHECK(args.states.dtype() == args.out.dtype()) << DTypeName(args.states.dtype());
  CHECK_EQ(args.out.rank(), 3);
  CHECK_EQ(args.states.dim(0), args.out.dim(0));
  CHECK_EQ(args.states.dim(1), args.num_states * args.out.dim(1));
  CHECK_EQ(args.states.dim(2), args.out.dim(2));
}

}  // namespace quire
