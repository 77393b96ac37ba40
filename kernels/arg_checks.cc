#include "kernels/arg_checks.h"

#include "absl/strings/str_cat.h"
#include "kernels/base/check.h"

namespace quire {

namespace {

bool IsActivation(DType dtype) { return dtype == DType::kF32 || dtype == DType::kBF16; }

// An activation [rows, cols] of this dtype.
void CheckMatrix(const Tensor& tensor, DType dtype, int64_t rows, int64_t cols) {
  CHECK_EQ(tensor.rank(), 2);
  CHECK(tensor.dtype() == dtype) << DTypeName(tensor.dtype()) << ", not " << DTypeName(dtype);
  CHECK_EQ(tensor.dim(0), rows);
  CHECK_EQ(tensor.dim(1), cols);
}

void CheckVector(const Tensor& tensor, int64_t size) {
  CHECK_EQ(tensor.rank(), 1);
  CHECK(IsActivation(tensor.dtype())) << DTypeName(tensor.dtype());
  CHECK_EQ(tensor.dim(0), size);
}

}  // namespace

void CheckWeight(const LinearWeight& weight) {
  CHECK(weight.data != nullptr);
  CHECK(IsActivation(weight.dtype)) << DTypeName(weight.dtype);
  CHECK_GE(weight.out_features, 1);
  CHECK_GE(weight.in_features, 1);
}

void CheckProduct(const LinearProduct& product) {
  CHECK(!product.weights.empty());
  CHECK_GE(product.max_num_rows, 1);
  for (const LinearWeight* weight : product.weights) {
    CheckWeight(*weight);
    CHECK(weight->dtype == product.weights[0]->dtype) << DTypeName(weight->dtype);
    CHECK_EQ(weight->out_features, product.weights[0]->out_features);
    CHECK_EQ(weight->in_features, product.weights[0]->in_features);
  }
  if (!product.bias.empty()) CheckVector(product.bias, product.weights[0]->out_features);
}

void CheckArgs(const EmbeddingArgs& args) {
  CheckWeight(*args.table);
  CheckMatrix(args.out, args.table->dtype, args.out.dim(0), args.table->in_features);
}

void CheckArgs(const RmsNormArgs& args) {
  CHECK(IsActivation(args.x.dtype())) << DTypeName(args.x.dtype());
  CheckMatrix(args.out, args.x.dtype(), args.x.dim(0), args.x.dim(1));
  if (!args.residual.empty()) {
    CheckMatrix(args.residual, args.x.dtype(), args.x.dim(0), args.x.dim(1));
  }
  CheckVector(args.weight, args.x.dim(1));
}

void CheckArgs(const LinearArgs& args) {
  CheckWeight(*args.weight);
  CheckMatrix(args.x, args.weight->dtype, args.x.dim(0), args.weight->in_features);
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

void CheckArgs(const ResetTokenCountsArgs& args) {
  CHECK_LE(args.num_prompt_tokens, args.num_tokens);
}

void CheckArgs(const SampleArgs& args) {
  CheckMatrix(args.logits, DType::kF32, args.logits.dim(0), args.logits.dim(1));
}

absl::Status CheckWeightRows(const LinearWeight& weight, int64_t first_row, const Tensor& rows) {
  CheckWeight(weight);
  const bool is_float = IsActivation(rows.dtype()) || rows.dtype() == DType::kF16;
  if (!is_float || rows.rank() != 2 || rows.dim(1) != weight.in_features) {
    return absl::InvalidArgumentError(
        absl::StrCat("weight rows must be float32, bfloat16 or float16 [n, ", weight.in_features,
                     "]; these are ", DTypeName(rows.dtype()), " of rank ", rows.rank(), " with ",
                     rows.rank() == 2 ? rows.dim(1) : 0, " columns"));
  }
  if (first_row < 0 || rows.dim(0) > weight.out_features - first_row) {
    return absl::InvalidArgumentError(absl::StrCat("weight rows ", first_row, " to ",
                                                   first_row + rows.dim(0), " are outside the ",
                                                   weight.out_features, " of the weight"));
  }
  return absl::OkStatus();
}

}  // namespace quire
