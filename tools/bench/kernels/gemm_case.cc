#include "tools/bench/kernels/gemm_case.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/model/model_weights.h"
#include "engine/model/weights/weight_plan.h"
#include "kernels/base/status_macros.h"
#include "kernels/base/types.h"
#include "kernels/float8_rows.h"

namespace quire::bench {

std::string GemmShape::Text() const {
  return absl::StrCat(in_features, " -> ", out_features, gated ? " gated" : "");
}

std::vector<GemmShape> GemmShapesOf(const ModelConfig& model) {
  ModelWeights weights;
  const WeightPlan plan = PlanWeights(model, TextPart(), &weights);
  std::vector<GemmShape> shapes;
  std::set<GemmShape> seen;
  for (const MatrixPlan& matrix : plan.matrices) {
    if (matrix.weight == &weights.embedding || matrix.weight == &weights.lm_head) continue;
    if (matrix.top_k > 0) continue;  // of experts
    const GemmShape shape = {.out_features = matrix.weight->out_features,
                             .in_features = matrix.weight->in_features,
                             .gated = matrix.gated,
                             .normed = matrix.normed};
    if (seen.insert(shape).second) shapes.push_back(shape);
  }
  return shapes;
}

absl::StatusOr<std::unique_ptr<GemmCase>> GemmCase::Create(GraphTimer& timer,
                                                           const GemmShape& shape,
                                                           const GemmKind& kind, int64_t max_rows,
                                                           uint64_t seed) {
  std::unique_ptr<GemmCase> result(new GemmCase(timer, shape, kind));
  RETURN_IF_ERROR(result->MakeWeights(seed));
  RETURN_IF_ERROR(result->MakeActivations(max_rows, seed));
  RETURN_IF_ERROR(result->Tune(max_rows));
  return result;
}

double GemmCase::Flops(int64_t num_rows) const {
  return 2.0 * static_cast<double>(num_rows * shape_.out_features) *
         static_cast<double>(shape_.in_features);
}

absl::Status GemmCase::MakeWeights(uint64_t seed) {
  constexpr int64_t kAlignment = 256;
  WeightStore& store = timer_.backend().weight_store();
  LinearWeight weight = {.format = kind_.format.weight,
                         .activations = kind_.format.activations,
                         .dtype = kind_.dtype,
                         .out_features = shape_.out_features,
                         .in_features = shape_.in_features};
  const int num_weights = timer_.NumColdBuffers(weight.size_bytes());
  const int64_t stride = RoundUp(store.BytesOf(weight), kAlignment);
  ASSIGN_OR_RETURN(memory_, timer_.backend().device().Allocate(num_weights * stride));
  weights_.reserve(num_weights);
  std::vector<LinearWeight*> sealed;
  for (int i = 0; i < num_weights; ++i) {
    weight.data = memory_.as<char>() + i * stride;
    store.Fill(timer_.stream(), weight,
               {.seed = seed, .tensor_id = static_cast<uint64_t>(i), .stddev = 0.02f});
    sealed.push_back(&weights_.emplace_back(weight));
  }
  if (kind_.is_sealed) store.Seal(timer_.stream(), sealed, &memory_, /*progress=*/nullptr);
  return timer_.stream().Synchronize();
}

absl::Status GemmCase::MakeActivations(int64_t max_rows, uint64_t seed) {
  Device& device = timer_.backend().device();
  const int64_t out_bytes = max_rows * shape_.out_features * DTypeBytes(out_dtype());
  float8_x_ = shape_.normed && NormedDType(weights_[0]) == DType::kF8E4M3;
  ASSIGN_OR_RETURN(x_, timer_.Random(kind_.dtype, max_rows * shape_.in_features, seed));
  const int64_t float8_bytes = Float8Rows::MaxBytes(max_rows, shape_.in_features);
  ASSIGN_OR_RETURN(float8_rows_, device.Allocate(float8_x_ ? float8_bytes : 0));
  ASSIGN_OR_RETURN(norm_, timer_.Random(kind_.dtype, shape_.in_features, seed));
  ASSIGN_OR_RETURN(out_, device.Allocate(out_bytes));
  ASSIGN_OR_RETURN(gated_, device.Allocate(shape_.gated ? out_bytes : 0));
  return absl::OkStatus();
}

absl::Status GemmCase::Tune(int64_t max_rows) {
  LinearGroup group = {.float8_x = float8_x_,
                       .out_dtype = out_dtype(),
                       .gated = shape_.gated,
                       .max_num_rows = max_rows};
  for (const LinearWeight& weight : weights_) group.weights.push_back(&weight);
  return timer_.backend().weight_store().Tune(timer_.stream(), {group}, /*progress=*/nullptr);
}

absl::StatusOr<double> GemmCase::Us(int64_t num_rows) {
  if (float8_x_) {
    timer_.backend().ops().RmsNorm(
        timer_.stream(), {.x = Tensor(x_.data(), kind_.dtype, {num_rows, shape_.in_features}),
                          .weight = Tensor(norm_.data(), kind_.dtype, {shape_.in_features}),
                          .eps = 1e-6f,
                          .float8_out = XFor(num_rows)});
  }
  return timer_.MedianColdUs(weight_bytes(), num_weights(), [&](int i) { Enqueue(i, num_rows); });
}

LinearArgs GemmCase::Args(int i, int64_t num_rows) const {
  return {.x = XFor(num_rows),
          .weight = &weights_[i],
          .out = Tensor(out_.data(), out_dtype(), {num_rows, shape_.out_features})};
}

// As a step has it; the time to make it is not measured.
Tensor GemmCase::XFor(int64_t num_rows) const {
  return float8_x_ ? Float8Rows(num_rows, shape_.in_features, float8_rows_.data()).tensor()
                   : Tensor(x_.data(), kind_.dtype, {num_rows, shape_.in_features});
}

void GemmCase::Enqueue(int i, int64_t num_rows) {
  Ops& ops = timer_.backend().ops();
  const LinearArgs args = Args(i, num_rows);
  if (!shape_.gated) {
    ops.Linear(timer_.stream(), args);
    return;
  }
  const Tensor gated(gated_.data(), kind_.dtype, {num_rows, shape_.out_features / 2});
  ops.GatedLinear(timer_.stream(),
                  {.x = args.x, .weight = args.weight, .gate_up = args.out, .out = gated});
}

}  // namespace quire::bench
