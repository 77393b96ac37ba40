// GemmCase: a gemm with a weight of one shape, in one format. Several weights take turns, more than
// any cache holds. One thread.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/config/model_config.h"
#include "kernels/ops.h"
#include "tools/bench/kernels/graph_timer.h"

namespace quire::bench {

struct GemmShape {
  int64_t out_features = 0, in_features = 0;
  bool gated = false;
  bool normed = false;   // x comes from RmsNorm
  bool is_head = false;  // makes logits, in float32

  std::string Text() const;
  auto operator<=>(const GemmShape&) const = default;
};

// The shapes of a model's layers, each once, in their order.
std::vector<GemmShape> GemmShapesOf(const ModelConfig& model);

// How weights are kept.
struct GemmKind {
  LinearFormat format = {};
  DType dtype = DType::kBF16;
  bool is_sealed = false;  // as a model's weights are: the CPU compresses them
};

class GemmCase {
 public:
  static absl::StatusOr<std::unique_ptr<GemmCase>> Create(GraphTimer& timer, const GemmShape& shape,
                                                          const GemmKind& kind, int64_t max_rows,
                                                          uint64_t seed);

  const GemmShape& shape() const { return shape_; }
  DType dtype() const { return kind_.dtype; }
  int num_weights() const { return static_cast<int>(weights_.size()); }
  // The bytes of the weight that one call reads.
  int64_t weight_bytes() const { return weights_[0].size_bytes(); }
  bool is_compressed() const { return weights_[0].is_compressed(); }
  double Flops(int64_t num_rows) const;

  absl::StatusOr<double> Us(int64_t num_rows);
  // The arguments of a call with the i-th weight.
  LinearArgs Args(int i, int64_t num_rows) const;

 private:
  DType out_dtype() const { return shape_.is_head ? DType::kF32 : kind_.dtype; }
  GemmCase(GraphTimer& timer, const GemmShape& shape, const GemmKind& kind)
      : timer_(timer), shape_(shape), kind_(kind) {}

  absl::Status MakeWeights(uint64_t seed);
  absl::Status MakeActivations(int64_t max_rows, uint64_t seed);
  absl::Status Tune(int64_t max_rows);
  Tensor XFor(int64_t num_rows) const;
  void Enqueue(int i, int64_t num_rows);

  GraphTimer& timer_;
  const GemmShape shape_;
  const GemmKind kind_;
  DeviceBuffer memory_;
  std::vector<LinearWeight> weights_;
  DeviceBuffer x_, norm_, float8_rows_, out_, gated_;
  bool float8_x_ = false;
};

}  // namespace quire::bench
