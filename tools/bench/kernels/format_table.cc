#include "tools/bench/kernels/format_table.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/model/model_weights.h"
#include "engine/model/weights/weight_plan.h"
#include "kernels/base/status_macros.h"
#include "kernels/base/types.h"
#include "kernels/float8_rows.h"
#include "nlohmann/json.hpp"
#include "tools/bench/interrupt.h"

namespace quire::bench {

namespace {

struct NamedFormat {
  const char* name;
  LinearFormat format;
};

const std::vector<NamedFormat>& Formats() {
  using enum WeightValue;
  static const auto* const formats = new std::vector<NamedFormat>{
      {"fp8-channel", {{.value = kFloat8}, {.value = ActivationValue::kFloat8}}},
      {"fp8-block",
       {{.value = kFloat8, .group_columns = 128}, {.value = ActivationValue::kFloat8}}},
      {"awq", {{.value = kInt4, .group_columns = 128, .zero_points = true}}},
      {"gptq", {{.value = kInt4, .group_columns = 128}}},
      {"gptq-group32", {{.value = kInt4, .group_columns = 32}}},
      {"int8", {{.value = kInt8}, {.value = ActivationValue::kInt8}}},
      {"int8-group128", {{.value = kInt8, .group_columns = 128}}},
      {"mxfp4", {{.value = kFloat4, .scale = ScaleValue::kPowerOfTwo, .group_columns = 32}}},
      {"nvfp4", {{.value = kFloat4, .scale = ScaleValue::kFloat8, .group_columns = 16}}}};
  return *formats;
}

struct GemmShape {
  int64_t out_features, in_features;
  bool gated;
  bool normed;  // x comes from RmsNorm

  std::string Text() const {
    return absl::StrCat(in_features, " -> ", out_features, gated ? " gated" : "");
  }
  auto operator<=>(const GemmShape&) const = default;
};

// Of a model's layers, each once, in their order.
std::vector<GemmShape> GemmShapesOf(const ModelConfig& model) {
  ModelWeights weights;
  const WeightPlan plan = PlanWeights(model, TextPart(), &weights);
  std::vector<GemmShape> shapes;
  std::set<GemmShape> seen;
  for (const MatrixPlan& matrix : plan.matrices) {
    if (matrix.weight == &weights.embedding || matrix.weight == &weights.lm_head) continue;
    if (matrix.top_k > 0) continue;  // of experts
    const GemmShape shape = {matrix.weight->out_features, matrix.weight->in_features, matrix.gated,
                             matrix.normed};
    if (seen.insert(shape).second) shapes.push_back(shape);
  }
  return shapes;
}

// A shape in one format: as many weights as no cache holds.
class FormatCase {
 public:
  static absl::StatusOr<std::unique_ptr<FormatCase>> Create(GraphTimer& timer,
                                                            const GemmShape& shape,
                                                            const NamedFormat& format,
                                                            int64_t max_rows, uint64_t seed) {
    std::unique_ptr<FormatCase> result(new FormatCase(timer, shape));
    RETURN_IF_ERROR(result->MakeWeights(format, max_rows, seed));
    return result;
  }

  int64_t weight_bytes() const { return weights_[0].size_bytes(); }

  absl::StatusOr<double> Us(int64_t num_rows) {
    if (float8_x_) {
      timer_.backend().ops().RmsNorm(
          timer_.stream(), {.x = Tensor(x_.data(), DType::kBF16, {num_rows, shape_.in_features}),
                            .weight = Tensor(norm_.data(), DType::kBF16, {shape_.in_features}),
                            .eps = 1e-6f,
                            .float8_out = XFor(num_rows)});
    }
    const auto num_weights = static_cast<int>(weights_.size());
    return timer_.MedianColdUs(weight_bytes(), num_weights, [&](int i) { Enqueue(i, num_rows); });
  }

 private:
  FormatCase(GraphTimer& timer, const GemmShape& shape) : timer_(timer), shape_(shape) {}

  absl::Status MakeWeights(const NamedFormat& format, int64_t max_rows, uint64_t seed) {
    Device& device = timer_.backend().device();
    WeightStore& store = timer_.backend().weight_store();
    LinearWeight weight = {.format = format.format.weight,
                           .activations = format.format.activations,
                           .dtype = DType::kBF16,
                           .out_features = shape_.out_features,
                           .in_features = shape_.in_features};
    const int num_weights = timer_.NumColdBuffers(weight.size_bytes());
    std::vector<const LinearWeight*> group;
    for (int i = 0; i < num_weights; ++i) {
      ASSIGN_OR_RETURN(DeviceBuffer buffer, device.Allocate(store.BytesOf(weight)));
      weight.data = buffer.data();
      store.Fill(timer_.stream(), weight,
                 {.seed = seed, .tensor_id = static_cast<uint64_t>(i), .stddev = 0.02f});
      weights_.push_back(weight);
      buffers_.push_back(std::move(buffer));
    }
    group.reserve(weights_.size());
    for (const LinearWeight& made : weights_) group.push_back(&made);
    float8_x_ = shape_.normed && NormedDType(weight) == DType::kF8E4M3;
    ASSIGN_OR_RETURN(x_, Allocate(max_rows * shape_.in_features));
    const int64_t float8_bytes = Float8Rows::MaxBytes(max_rows, shape_.in_features);
    ASSIGN_OR_RETURN(float8_rows_, device.Allocate(float8_x_ ? float8_bytes : 0));
    ASSIGN_OR_RETURN(norm_, timer_.Random(DType::kBF16, shape_.in_features, seed));
    ASSIGN_OR_RETURN(out_, Allocate(max_rows * shape_.out_features));
    ASSIGN_OR_RETURN(gated_, Allocate(max_rows * shape_.out_features));
    timer_.FillRandom(x_.data(), DType::kBF16, max_rows * shape_.in_features, seed);
    return store.Tune(timer_.stream(),
                      {{.weights = group,
                        .float8_x = float8_x_,
                        .gated = shape_.gated,
                        .max_num_rows = max_rows}},
                      /*progress=*/nullptr);
  }
  absl::StatusOr<DeviceBuffer> Allocate(int64_t elements) {
    return timer_.backend().device().Allocate(elements * DTypeBytes(DType::kBF16));
  }

  // As a step has it: what makes it is not in the time.
  Tensor XFor(int64_t num_rows) const {
    return float8_x_ ? Float8Rows(num_rows, shape_.in_features, float8_rows_.data()).tensor()
                     : Tensor(x_.data(), DType::kBF16, {num_rows, shape_.in_features});
  }

  void Enqueue(int i, int64_t num_rows) {
    const Tensor x = XFor(num_rows);
    const Tensor out(out_.data(), DType::kBF16, {num_rows, shape_.out_features});
    Ops& ops = timer_.backend().ops();
    if (!shape_.gated) {
      ops.Linear(timer_.stream(), {.x = x, .weight = &weights_[i], .out = out});
      return;
    }
    ops.GatedLinear(timer_.stream(), {.x = x,
                                      .weight = &weights_[i],
                                      .gate_up = out,
                                      .out = Tensor(gated_.data(), DType::kBF16,
                                                    {num_rows, shape_.out_features / 2})});
  }

  GraphTimer& timer_;
  const GemmShape shape_;
  std::vector<DeviceBuffer> buffers_;
  std::vector<LinearWeight> weights_;
  DeviceBuffer x_, norm_, float8_rows_, out_, gated_;
  bool float8_x_ = false;
};

std::vector<int64_t> RowsFor(const FormatChoice& choice, DeviceKind device) {
  if (!choice.row_counts.empty()) return choice.row_counts;
  std::vector<int64_t> rows = {1, 2, 4, 8, 16, 32, 64};
  if (device == DeviceKind::kCuda) rows.insert(rows.end(), {128, 256, 512, 1024, 2048, 4096});
  return rows;
}

absl::Status MeasureGemmShape(GraphTimer& timer, const GemmShape& shape, uint64_t seed,
                              const FormatChoice& choice, const Limits& limits,
                              nlohmann::ordered_json* rows) {
  const DeviceKind device = timer.backend().device().info().kind;
  const std::vector<int64_t> row_counts = RowsFor(choice, device);
  const int64_t max_rows = *std::max_element(row_counts.begin(), row_counts.end());
  ASSIGN_OR_RETURN(const auto plain,
                   FormatCase::Create(timer, shape, {"bf16", {}}, max_rows, seed));
  for (const NamedFormat& format : Formats()) {
    if (Interrupted()) break;
    if (!absl::StrContains(format.name, choice.cases)) continue;
    const LinearFormat kept =
        timer.backend().weight_store().FormatFor(format.format, DType::kBF16, false);
    if (kept.weight != format.format.weight) continue;
    ASSIGN_OR_RETURN(const auto quantized,
                     FormatCase::Create(timer, shape, {format.name, kept}, max_rows, seed));
    for (const int64_t num_rows : row_counts) {
      // In turns, because a machine's speed drifts.
      ASSIGN_OR_RETURN(const double before_us, plain->Us(num_rows));
      ASSIGN_OR_RETURN(const double us, quantized->Us(num_rows));
      ASSIGN_OR_RETURN(const double after_us, plain->Us(num_rows));
      const double plain_us = (before_us + after_us) / 2;
      const auto bytes = static_cast<double>(quantized->weight_bytes());
      const double read_us = 1e6 * bytes / limits.bytes_per_s;
      const double flops = 2.0 * static_cast<double>(num_rows * shape.out_features) *
                           static_cast<double>(shape.in_features);
      std::printf(
          "%-28s %-13s %5d rows %9.1f us, bfloat16 %9.1f us: %5.2f times as fast; reading "
          "%.3f of it; %.0f TFLOP/s\n",
          shape.Text().c_str(), format.name, static_cast<int>(num_rows), us, plain_us,
          plain_us / us, read_us / us, flops / us * 1e-6);
      rows->push_back({{"shape", shape.Text()},
                       {"format", format.name},
                       {"rows", num_rows},
                       {"us", us},
                       {"bfloat16_us", plain_us},
                       {"speedup", plain_us / us},
                       {"share_of_reading", read_us / us},
                       {"tflops", flops / us * 1e-6}});
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> FormatNames() {
  std::vector<std::string> names;
  for (const NamedFormat& format : Formats()) names.emplace_back(format.name);
  return names;
}

absl::Status MeasureFormats(GraphTimer& timer, const ModelConfig& model, uint64_t seed,
                            const FormatChoice& choice, const Limits& limits,
                            nlohmann::ordered_json* rows) {
  for (const GemmShape& shape : GemmShapesOf(model)) {
    RETURN_IF_ERROR(MeasureGemmShape(timer, shape, seed, choice, limits, rows));
  }
  std::printf("\n");
  return absl::OkStatus();
}

}  // namespace quire::bench
