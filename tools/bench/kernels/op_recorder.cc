#include "tools/bench/kernels/op_recorder.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace quire::bench {

namespace {

double Bytes(std::initializer_list<Tensor> tensors) {
  double bytes = 0;
  for (const Tensor& tensor : tensors) {
    if (!tensor.empty()) bytes += static_cast<double>(tensor.num_bytes());
  }
  return bytes;
}

std::string Shape(const Tensor& tensor) {
  std::vector<int64_t> extents;
  extents.reserve(tensor.rank());
  for (int i = 0; i < tensor.rank(); ++i) extents.push_back(tensor.dim(i));
  return absl::StrJoin(extents, " x ");
}

// What an operation is called and needs; one without a name is not recorded.
struct OpCost {
  std::string name = {};
  std::string shape = {};
  double bytes = 0;
  double flops = 0;
};

// Operations that no step has today, or that do not belong only to a step, are not recorded.
template <typename Args>
OpCost CostOf(const Args&) {
  return {};
}
OpCost CostOf(const EmbeddingArgs& args) {
  return {"embedding", Shape(args.out), 2 * Bytes({args.out})};
}
OpCost CostOf(const RmsNormArgs& args) {
  // A residual is read and written.
  return {args.residual.empty() ? "rms_norm" : "add_rms_norm", Shape(args.x),
          Bytes({args.x, args.residual, args.residual, args.weight, args.out, args.float8_out})};
}
OpCost CostOf(const StoreHeadsArgs& args) {
  // Every head is read and written once: queries to q_out, keys and values to the cache, in its
  // dtype.
  const auto kv_elements = static_cast<double>(args.x.dim(0) * args.kv_cache.k.head_dim *
                                               (args.k.num_heads + args.v.num_heads));
  const int64_t kv_bytes = DTypeBytes(args.x.dtype()) + DTypeBytes(args.kv_cache.dtype);
  return {"store_heads", Shape(args.x),
          2 * Bytes({args.q_out}) + kv_elements * static_cast<double>(kv_bytes)};
}
OpCost CostOf(const GateArgs& args) { return {"gate", Shape(args.x), 3 * Bytes({args.x})}; }
OpCost CostOf(const GatedActivationArgs& args) {
  return {"gated_activation", Shape(args.out), Bytes({args.gate, args.up, args.out})};
}
OpCost CostOf(const AddArgs& args) {
  return {"add", Shape(args.x), Bytes({args.x, args.x, args.y})};
}
OpCost CostOf(const ScaleArgs& args) { return {"scale", Shape(args.x), 2 * Bytes({args.x})}; }
OpCost CostOf(const SoftCapArgs& args) { return {"soft_cap", Shape(args.x), 2 * Bytes({args.x})}; }
OpCost CostOf(const GatherRowsArgs& args) {
  return {"gather_rows", Shape(args.out), 2 * Bytes({args.out})};
}
OpCost CostOf(const GatedDeltaArgs& args) {
  // A state of each sequence is read and written.
  const double state_bytes = static_cast<double>(
      (args.shape.conv_width - 1) * args.shape.num_channels() * DTypeBytes(args.qkvz.dtype()) +
      args.shape.v_size() * args.shape.k_head_dim * DTypeBytes(args.state.dtype));
  return {"gated_delta", Shape(args.qkvz),
          Bytes({args.qkvz, args.ba, args.conv_weight, args.out}) +
              2 * state_bytes * args.batch.num_seqs};
}
OpCost CostOf(const SampleArgs& args) {
  return {"sample", Shape(args.logits), Bytes({args.logits})};
}
// Weight, input, bias and output once, whatever lies between.
template <typename Args>
OpCost CostOfLinear(std::string name, const Args& args) {
  const LinearWeight& weight = *args.weight;
  const int64_t weight_elements = weight.out_features * weight.in_features;
  return {std::move(name),
          absl::StrCat(args.x.dim(0), " x ", weight.out_features, " x ", weight.in_features),
          Bytes({args.x, args.bias, args.out}) + static_cast<double>(weight.size_bytes()),
          2.0 * static_cast<double>(args.x.dim(0) * weight_elements)};
}
OpCost CostOf(const RouteArgs& args) {
  const Routing& out = args.out;
  return {"route", Shape(args.logits),
          Bytes({args.logits, args.correction, args.expert_scales, out.experts, out.weights,
                 out.pairs, out.offsets})};
}
// Each pair's products, and of the experts as many as there may be with a pair: what a step's
// tokens chose is not known here.
template <typename Args>
OpCost CostOfExperts(std::string name, const Args& args, double other_bytes) {
  const LinearWeight& weight = *args.weight;
  const int64_t num_pairs = args.routing.num_pairs();
  const int64_t most_chosen = std::min(weight.num_experts, num_pairs);
  const int64_t expert_elements = weight.out_features * weight.in_features;
  return {std::move(name),
          absl::StrCat(num_pairs, " of ", weight.num_experts, " x ", weight.out_features, " x ",
                       weight.in_features),
          other_bytes + static_cast<double>(weight.Expert(0).size_bytes() * most_chosen),
          2.0 * static_cast<double>(num_pairs * expert_elements)};
}
OpCost CostOf(const ExpertsGatedLinearArgs& args) {
  return CostOfExperts("experts_gated_linear", args, Bytes({args.x, args.out}));
}
OpCost CostOf(const ExpertsLinearArgs& args) {
  return CostOfExperts("experts_linear", args, Bytes({args.x, args.add, args.add_gate, args.out}));
}
OpCost CostOf(const LinearArgs& args) { return CostOfLinear("linear", args); }
OpCost CostOf(const GatedLinearArgs& args) { return CostOfLinear("gated_linear", args); }

}  // namespace

double AttentionKvBytes(const AttentionGeometry& geometry, const BatchLengths& lengths) {
  double tokens = 0;
  for (size_t i = 0; i < lengths.seq_lens.size(); ++i) {
    int64_t visible = lengths.seq_lens[i];
    if (geometry.sliding_window > 0) {
      visible = std::min(visible, geometry.sliding_window + lengths.query_lens[i] - 1);
    }
    tokens += static_cast<double>(visible);
  }
  return tokens * geometry.num_kv_heads * (geometry.k_head_dim + geometry.v_head_dim) *
         static_cast<double>(DTypeBytes(geometry.kv_dtype));
}

double AttentionFlops(const AttentionGeometry& geometry, const BatchLengths& lengths) {
  double pairs = 0;
  for (size_t i = 0; i < lengths.seq_lens.size(); ++i) {
    for (int64_t j = 0; j < lengths.query_lens[i]; ++j) {
      int64_t visible = lengths.seq_lens[i] - (lengths.query_lens[i] - 1 - j);
      if (geometry.sliding_window > 0) visible = std::min(visible, geometry.sliding_window);
      pairs += static_cast<double>(visible);
    }
  }
  return pairs * 2 * (geometry.k_head_dim + geometry.v_head_dim) * geometry.num_q_heads;
}

class OpRecorder::RecordingOps : public Ops {
 public:
  RecordingOps(Ops& ops, std::vector<RecordedOp>& recorded) : ops_(ops), recorded_(recorded) {}

 private:
#define QUIRE_OP(name)                                                                     \
  void Enqueue(Stream& stream, const name##Args& args) override {                          \
    Record(stream, CostOf(args), [&ops = ops_, args](Stream& on) { ops.name(on, args); }); \
  }
  QUIRE_OPS(QUIRE_OP)
#undef QUIRE_OP

  void Record(Stream& stream, OpCost cost, std::function<void(Stream&)> run) {
    run(stream);
    if (cost.name.empty()) return;
    recorded_.push_back(
        {std::move(cost.name), std::move(cost.shape), cost.bytes, cost.flops, std::move(run)});
  }

  Ops& ops_;
  std::vector<RecordedOp>& recorded_;
};

class OpRecorder::RecordingPlan : public AttentionPlan {
 public:
  RecordingPlan(std::unique_ptr<AttentionPlan> plan, const AttentionGeometry& geometry,
                const BatchLengths& lengths, std::vector<RecordedOp>& recorded)
      : plan_(std::move(plan)), geometry_(geometry), lengths_(lengths), recorded_(recorded) {}

  void PlanStep(Stream& stream, const AttentionBatch& batch) override {
    plan_->PlanStep(stream, batch);
    double blocks = 0;
    for (const int32_t length : lengths_.seq_lens) blocks += CeilDiv(length, geometry_.block_size);
    recorded_.push_back({"attention_plan", absl::StrCat(batch.num_seqs, " sequences"),
                         blocks * sizeof(BlockId), 0,
                         [this, batch](Stream& on) { plan_->PlanStep(on, batch); }});
  }

  void Run(Stream& stream, const AttentionRunArgs& args) const override {
    plan_->Run(stream, args);
    const std::string window =
        geometry_.sliding_window > 0 ? absl::StrCat(", window ", geometry_.sliding_window) : "";
    recorded_.push_back({"attention", absl::StrCat(Shape(args.q), window),
                         AttentionKvBytes(geometry_, lengths_) + Bytes({args.q, args.out}),
                         AttentionFlops(geometry_, lengths_),
                         [this, args](Stream& on) { plan_->Run(on, args); }});
  }

 private:
  const std::unique_ptr<AttentionPlan> plan_;
  const AttentionGeometry geometry_;
  const BatchLengths& lengths_;
  std::vector<RecordedOp>& recorded_;
};

class OpRecorder::RecordingAttention : public AttentionBackend {
 public:
  RecordingAttention(AttentionBackend& attention, const BatchLengths& lengths,
                     std::vector<RecordedOp>& recorded)
      : attention_(attention), lengths_(lengths), recorded_(recorded) {}

  const AttentionCapabilities& capabilities() const override { return attention_.capabilities(); }

  absl::StatusOr<std::vector<std::unique_ptr<AttentionPlan>>> CreatePlans(
      absl::Span<const AttentionGeometry> geometries, const AttentionLimits& limits) override {
    auto plans = attention_.CreatePlans(geometries, limits);
    for (size_t i = 0; plans.ok() && i < plans->size(); ++i) {
      auto& plan = (*plans)[i];
      plan = std::make_unique<RecordingPlan>(std::move(plan), geometries[i], lengths_, recorded_);
    }
    return plans;
  }

 private:
  AttentionBackend& attention_;
  const BatchLengths& lengths_;
  std::vector<RecordedOp>& recorded_;
};

OpRecorder::OpRecorder(Backend& backend)
    : backend_(backend),
      ops_(std::make_unique<RecordingOps>(backend.ops(), recorded_)),
      attention_(std::make_unique<RecordingAttention>(*backend.attention(AttentionPath::kNative),
                                                      lengths_, recorded_)) {}

OpRecorder::~OpRecorder() = default;

Ops& OpRecorder::ops() { return *ops_; }

AttentionBackend* OpRecorder::attention(AttentionPath path) {
  if (path == AttentionPath::kNative) return attention_.get();
  return backend_.attention(path);
}

}  // namespace quire::bench
