#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/base/status_macros.h"
#include "kernels/experts.h"
#include "nlohmann/json.hpp"
#include "tools/bench/interrupt.h"
#include "tools/bench/kernels/op_table.h"
#include "tools/cli/counted.h"

namespace quire::bench {

namespace {

constexpr DType kActivations = DType::kBF16;

struct Mixture {
  const char* name;
  int64_t hidden_size, intermediate_size;
  int32_t num_experts, top_k;
  WeightFormat format = {};
};

constexpr WeightFormat kFloat8Blocks = {.value = WeightValue::kFloat8, .group_columns = 128};
constexpr WeightFormat kMxfp4 = {
    .value = WeightValue::kFloat4, .scale = ScaleValue::kPowerOfTwo, .group_columns = 32};
constexpr WeightFormat kInt4 = {
    .value = WeightValue::kInt4, .group_columns = 128, .zero_points = true};

constexpr Mixture kMixtures[] = {{"qwen3-30b-a3b", 2048, 768, 128, 8},
                                 {"qwen3-30b-a3b awq", 2048, 768, 128, 8, kInt4},
                                 {"qwen3.6-35b-a3b", 2048, 512, 256, 8},
                                 {"qwen3.6-35b-a3b fp8", 2048, 512, 256, 8, kFloat8Blocks},
                                 {"gpt-oss-20b", 2880, 2880, 32, 4},
                                 {"gpt-oss-20b mxfp4", 2880, 2880, 32, 4, kMxfp4},
                                 {"mixtral-8x7b", 4096, 14336, 8, 2}};

// A layer's experts and a number of tokens. Calls take turns with the logits, so that each finds
// other experts.
class MixtureCase {
 public:
  static absl::StatusOr<std::unique_ptr<MixtureCase>> Create(GraphTimer& timer,
                                                             const Mixture& mixture,
                                                             int64_t most_tokens, uint64_t seed) {
    std::unique_ptr<MixtureCase> result(new MixtureCase(timer, mixture));
    RETURN_IF_ERROR(result->MakeWeights(seed));
    RETURN_IF_ERROR(result->MakeActivations(most_tokens, seed));
    return result;
  }

  absl::Status Measure(int64_t num_tokens, const Limits& limits, nlohmann::ordered_json* rows) {
    const std::string shape = absl::StrCat(mixture_.name, ", ", Counted(num_tokens, "token"));
    Enqueue(&MixtureCase::Route, 0, num_tokens);
    ASSIGN_OR_RETURN(const int64_t num_chosen, CountChosen(0, num_tokens));
    const auto num_pairs = static_cast<double>(num_tokens * mixture_.top_k);
    const auto add = [&](const char* name, auto op, double bytes, double flops) -> absl::Status {
      ASSIGN_OR_RETURN(const double us,
                       timer_.MedianOfRoundsUs(kNumTurns, 4 * kNumTurns,
                                               [&](int i) { Enqueue(op, i, num_tokens); }));
      rows->push_back(OpRow(name, shape, 1, us, bytes, flops, limits));
      PrintOpRow(rows->back());
      return absl::OkStatus();
    };
    const auto gemm = [&](const char* name, auto op, const LinearWeight& weight) {
      const auto expert_bytes = static_cast<double>(weight.Expert(0).size_bytes());
      const double elements = static_cast<double>(weight.out_features * weight.in_features);
      const double x_bytes = static_cast<double>(weight.in_features + weight.out_features) *
                             num_pairs * static_cast<double>(DTypeBytes(kActivations));
      return add(name, op, static_cast<double>(num_chosen) * expert_bytes + x_bytes,
                 2 * elements * num_pairs);
    };
    RETURN_IF_ERROR(add("route", &MixtureCase::Route,
                        static_cast<double>(num_tokens * mixture_.num_experts) * sizeof(float), 0));
    RETURN_IF_ERROR(gemm("experts_gated_linear", &MixtureCase::GateUp, gate_up_[0]));
    return gemm("experts_linear", &MixtureCase::Down, down_[0]);
  }

 private:
  static constexpr int kNumTurns = 16;
  using Op = void (MixtureCase::*)(int turn, int64_t num_tokens);

  MixtureCase(GraphTimer& timer, const Mixture& mixture) : timer_(timer), mixture_(mixture) {}

  absl::Status MakeWeights(uint64_t seed) {
    WeightStore& store = timer_.backend().weight_store();
    const LinearFormat format =
        store.FormatFor({mixture_.format}, kActivations, /*has_experts=*/true);
    LinearWeight one = {.format = format.weight,
                        .activations = format.activations,
                        .dtype = kActivations,
                        .out_features = 2 * mixture_.intermediate_size,
                        .in_features = mixture_.hidden_size};
    const int num_weights =
        std::max(2, timer_.NumColdBuffers(mixture_.num_experts * store.BytesOf(one)));
    for (std::vector<LinearWeight>* weights : {&gate_up_, &down_}) {
      for (int i = 0; i < num_weights; ++i) {
        LinearWeight weight = one;
        weight.num_experts = mixture_.num_experts;
        weight.expert_bytes = store.BytesOf(one);
        ASSIGN_OR_RETURN(DeviceBuffer memory, timer_.backend().device().Allocate(
                                                  weight.num_experts * weight.expert_bytes));
        weight.data = memory.data();
        buffers_.push_back(std::move(memory));
        for (int64_t expert = 0; expert < weight.num_experts; ++expert) {
          store.Fill(timer_.stream(), weight.Expert(expert),
                     {.seed = seed, .tensor_id = static_cast<uint64_t>(expert), .stddev = 0.02f});
        }
        weights->push_back(weight);
      }
      one.out_features = mixture_.hidden_size;
      one.in_features = mixture_.intermediate_size;
    }
    return timer_.stream().Synchronize();
  }

  absl::Status MakeActivations(int64_t most_tokens, uint64_t seed) {
    Device& device = timer_.backend().device();
    const int64_t most_pairs = most_tokens * mixture_.top_k;
    const auto make = [&](int64_t bytes) -> absl::StatusOr<char*> {
      ASSIGN_OR_RETURN(DeviceBuffer buffer, device.Allocate(bytes));
      buffers_.push_back(std::move(buffer));
      return buffers_.back().as<char>();
    };
    ASSIGN_OR_RETURN(
        logits_, timer_.Random(DType::kF32, kNumTurns * most_tokens * mixture_.num_experts, seed));
    ASSIGN_OR_RETURN(x_, timer_.Random(kActivations, most_tokens * mixture_.hidden_size, seed + 1));
    ASSIGN_OR_RETURN(
        inner_, timer_.Random(kActivations, most_pairs * mixture_.intermediate_size, seed + 2));
    const int64_t element = DTypeBytes(kActivations);
    ASSIGN_OR_RETURN(room_, make(most_pairs * element *
                                 std::max(2 * mixture_.intermediate_size, mixture_.hidden_size)));
    ASSIGN_OR_RETURN(sorted_x_, make(most_pairs * mixture_.hidden_size * element));
    ASSIGN_OR_RETURN(out_, make(most_tokens * mixture_.hidden_size * element));
    routing_bytes_ = (3 * most_pairs + mixture_.num_experts + 1) * int64_t{sizeof(int32_t)};
    ASSIGN_OR_RETURN(routings_, make(kNumTurns * routing_bytes_));
    return absl::OkStatus();
  }

  void Enqueue(Op op, int turn, int64_t num_tokens) {
    // Each turn has its own routing.
    if (op != &MixtureCase::Route && routed_tokens_ != num_tokens) {
      for (int i = 0; i < kNumTurns; ++i) Route(i, num_tokens);
      routed_tokens_ = num_tokens;
    }
    (this->*op)(turn % kNumTurns, num_tokens);
  }

  Routing RoutingOf(int turn, int64_t num_tokens) const {
    const int64_t top_k = mixture_.top_k, num_pairs = num_tokens * top_k;
    auto* at = reinterpret_cast<int32_t*>(routings_ + turn * routing_bytes_);
    Routing routing;
    routing.experts = Tensor(at, DType::kI32, {num_tokens, top_k});
    routing.weights = Tensor(at + num_pairs, DType::kF32, {num_tokens, top_k});
    routing.pairs = Tensor(at + 2 * num_pairs, DType::kI32, {num_pairs});
    routing.offsets = Tensor(at + 3 * num_pairs, DType::kI32, {int64_t{mixture_.num_experts} + 1});
    return routing;
  }

  void Route(int turn, int64_t num_tokens) {
    const int64_t size = num_tokens * mixture_.num_experts;
    timer_.backend().ops().Route(timer_.stream(),
                                 {.logits = Tensor(logits_.as<float>() + turn * size, DType::kF32,
                                                   {num_tokens, int64_t{mixture_.num_experts}}),
                                  .rule = {.num_experts = mixture_.num_experts,
                                           .top_k = mixture_.top_k,
                                           .renormalise = true},
                                  .out = RoutingOf(turn, num_tokens)});
  }
  void GateUp(int turn, int64_t num_tokens) {
    const LinearWeight& weight = gate_up_[turn % gate_up_.size()];
    const int64_t num_pairs = num_tokens * mixture_.top_k;
    timer_.backend().ops().ExpertsGatedLinear(
        timer_.stream(),
        {.x = Tensor(x_.data(), kActivations, {num_tokens, mixture_.hidden_size}),
         .weight = &weight,
         .routing = RoutingOf(turn, num_tokens),
         .gate_up = Tensor(room_, kActivations, {num_pairs, weight.out_features}),
         .sorted_x = Tensor(sorted_x_, kActivations, {num_pairs, mixture_.hidden_size}),
         .out = Tensor(inner_.data(), kActivations, {num_pairs, mixture_.intermediate_size})});
  }
  void Down(int turn, int64_t num_tokens) {
    const LinearWeight& weight = down_[turn % down_.size()];
    const int64_t num_pairs = num_tokens * mixture_.top_k;
    timer_.backend().ops().ExpertsLinear(
        timer_.stream(),
        {.x = Tensor(inner_.data(), kActivations, {num_pairs, mixture_.intermediate_size}),
         .weight = &weight,
         .routing = RoutingOf(turn, num_tokens),
         .rows = Tensor(room_, kActivations, {num_pairs, mixture_.hidden_size}),
         .out = Tensor(out_, kActivations, {num_tokens, mixture_.hidden_size})});
  }

  // Experts that have tokens.
  absl::StatusOr<int64_t> CountChosen(int turn, int64_t num_tokens) {
    const Routing routing = RoutingOf(turn, num_tokens);
    const int64_t bytes = routing.offsets.dim(0) * int64_t{sizeof(int32_t)};
    ASSIGN_OR_RETURN(const DeviceBuffer host, timer_.backend().device().AllocatePinned(bytes));
    timer_.stream().CopyToHost(host.data(), routing.offsets.data(), bytes);
    RETURN_IF_ERROR(timer_.stream().Synchronize());
    const auto* const offsets = host.as<int32_t>();
    int64_t num_chosen = 0;
    for (int32_t i = 0; i < mixture_.num_experts; ++i) num_chosen += offsets[i + 1] > offsets[i];
    return num_chosen;
  }

  GraphTimer& timer_;
  const Mixture mixture_;
  std::vector<LinearWeight> gate_up_, down_;
  std::vector<DeviceBuffer> buffers_;
  DeviceBuffer logits_, x_, inner_;
  char *room_ = nullptr, *sorted_x_ = nullptr, *out_ = nullptr, *routings_ = nullptr;
  int64_t routing_bytes_ = 0;
  int64_t routed_tokens_ = 0;
};

absl::Status MeasureExperts(GraphTimer& timer, const TableRequest& request,
                            nlohmann::ordered_json* result) {
  std::vector<int64_t> counts = request.row_counts;
  const bool is_cpu = timer.device_kind() == DeviceKind::kCpu;
  if (counts.empty()) {
    counts = is_cpu ? std::vector<int64_t>{1, 8, 64}
                    : std::vector<int64_t>{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 2048, 8192};
  }
  PrintOpHeader("mixtures of experts, bfloat16 unless the name says otherwise, cold");
  for (const Mixture& mixture : kMixtures) {
    if (!absl::StrContains(mixture.name, request.cases)) continue;
    if (Interrupted()) break;
    ASSIGN_OR_RETURN(
        const auto measured,
        MixtureCase::Create(timer, mixture, *std::max_element(counts.begin(), counts.end()),
                            request.seed));
    for (const int64_t count : counts) {
      if (Interrupted()) break;
      RETURN_IF_ERROR(measured->Measure(count, request.limits, &(*result)[kExpertsTable.list]));
    }
  }
  return absl::OkStatus();
}

std::vector<std::string> MixtureNames(DeviceKind, const EngineConfig&, const ModelConfig&) {
  return NamesOf(kMixtures);
}

}  // namespace

constinit const KernelTable kExpertsTable = {
    .name = "experts",
    .about = "mixtures of experts, in the shapes of published models",
    .list = "experts_table",
    .case_names = MixtureNames,
    .has_rows = true,
    .measure = MeasureExperts};

}  // namespace quire::bench
