// A mixture's experts on this machine (Qwen3-30B-A3B's layer: 128 experts, 8 a token) against what
// bounds them: the gemm with one matrix that reads as many bytes for one row, and the one that
// multiplies as many rows. Prints one line per format of the weights and number of tokens.
// Usage: experts_bench [num_threads] [isa]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "kernels/base/check.h"
#include "kernels/cpu/experts/experts_gemm.h"
#include "kernels/cpu/gemm/packing.h"
#include "kernels/cpu/gemm/quantized/quantized_panel.h"
#include "kernels/cpu/runtime/cpu_device.h"
#include "kernels/host_limits.h"

namespace quire::cpu {
namespace {

constexpr int64_t kHidden = 2048, kSize = 768, kExperts = 128, kTopK = 8;
constexpr int64_t kMaxTokens = 512, kMaxPairs = kMaxTokens * kTopK;
constexpr int kRoutings = 16;  // that take turns, so that no cache has what they choose

double NowSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Of one call of each: the best of many, in turns, so that other load hits all alike.
std::vector<double> BestSeconds(const std::vector<std::function<void()>>& functions) {
  std::vector<double> best(functions.size(), 1e30);
  for (int turn = 0; turn < 3; ++turn) {
    for (size_t i = 0; i < functions.size(); ++i) {
      const double end = NowSeconds() + 0.3;
      do {
        const double start = NowSeconds();
        functions[i]();
        best[i] = std::min(best[i], NowSeconds() - start);
      } while (NowSeconds() < end);
    }
  }
  return best;
}

// Tokens that choose at random.
struct HostRouting {
  std::vector<int32_t> experts, pairs, offsets;
  std::vector<float> weights;
  int64_t num_chosen = 0;

  HostRouting(int64_t num_tokens, uint32_t seed) : weights(num_tokens * kTopK, 1.0f / kTopK) {
    std::mt19937 rng(seed);
    std::vector<int32_t> order(kExperts);
    std::iota(order.begin(), order.end(), 0);
    for (int64_t t = 0; t < num_tokens; ++t) {
      std::shuffle(order.begin(), order.end(), rng);
      experts.insert(experts.end(), order.begin(), order.begin() + kTopK);
    }
    offsets = {0};
    for (int32_t e = 0; e < kExperts; ++e) {
      for (int32_t i = 0; i < std::ssize(experts); ++i) {
        if (experts[i] == e) pairs.push_back(i);
      }
      offsets.push_back(static_cast<int32_t>(pairs.size()));
      num_chosen += offsets[e + 1] > offsets[e];
    }
  }
  Routing View() {
    const int64_t num_pairs = std::ssize(pairs);
    return {.experts = Tensor(experts.data(), DType::kI32, {num_pairs / kTopK, kTopK}),
            .weights = Tensor(weights.data(), DType::kF32, {num_pairs / kTopK, kTopK}),
            .pairs = Tensor(pairs.data(), DType::kI32, {num_pairs}),
            .offsets = Tensor(offsets.data(), DType::kI32, {kExperts + 1})};
  }
};

class ExpertsBench {
 public:
  ExpertsBench(CpuDevice& device, Isa isa, const WeightFormat& format)
      : device_(device), gemm_(isa), quantized_gemm_(isa), experts_gemm_(gemm_, quantized_gemm_) {
    gated_ = MakeExperts(format, 2 * kSize, kHidden, &gated_memory_);
    linear_ = MakeExperts(format, kHidden, kSize, &linear_memory_);
    for (DeviceBuffer* buffer : {&x_, &gate_up_, &middle_, &rows_, &out_}) {
      *buffer = device.Allocate(kMaxPairs * kHidden * 2).value();
    }
  }

  void Run(const char* name, int64_t num_tokens) {
    std::vector<HostRouting> routings;
    routings.reserve(kRoutings);
    for (uint32_t i = 0; i < kRoutings; ++i) routings.emplace_back(num_tokens, i);
    const int64_t num_pairs = num_tokens * kTopK;
    const Tensor x = Matrix(x_, num_tokens, kHidden), rows = Matrix(rows_, num_pairs, kHidden);
    const Tensor middle = Matrix(middle_, num_pairs, kSize),
                 out = Matrix(out_, num_tokens, kHidden);
    const Tensor gate_up = Matrix(gate_up_, num_pairs, 2 * kSize);
    size_t next = 0;
    const auto run_experts = [&] {
      const Routing routing = routings[next++ % kRoutings].View();
      experts_gemm_.GatedLinear(
          {.x = x, .weight = &gated_, .routing = routing, .gate_up = gate_up, .out = middle},
          device_.pool());
      experts_gemm_.Linear(
          {.x = middle, .weight = &linear_, .routing = routing, .rows = rows, .out = out},
          device_.pool());
    };
    // One row times as many experts as are chosen, as if they were one matrix; and all pairs times
    // one expert.
    const int64_t num_chosen = routings[0].num_chosen;
    const auto run_row = [&] {
      const int64_t first = next++ % (kExperts / num_chosen) * num_chosen;
      Multiply(Several(gated_, first, num_chosen), Matrix(x_, 1, kHidden),
               Matrix(gate_up_, 1, num_chosen * 2 * kSize));
      Multiply(Several(linear_, first, num_chosen), Matrix(middle_, 1, kSize),
               Matrix(rows_, 1, num_chosen * kHidden));
    };
    const auto run_rows = [&] {
      const int64_t expert = next++ % kExperts;
      Multiply(gated_.Expert(expert), Matrix(x_, num_pairs, kHidden), gate_up);
      Multiply(linear_.Expert(expert), middle, rows);
    };
    const std::vector<double> seconds = BestSeconds({run_experts, run_row, run_rows});
    const double expert_bytes =
        static_cast<double>(gated_.size_bytes() + linear_.size_bytes()) / kExperts;
    const double gigabytes = 1e-9 * expert_bytes * static_cast<double>(num_chosen);
    const double gflops = 2e-9 * static_cast<double>(num_pairs * 3 * kHidden * kSize);
    std::printf(
        "%-8s %4ld tokens, %3ld experts  %9.1f us  %6.1f GB/s, a row's gemv %6.1f  "
        "%7.1f GFLOP/s, one matrix's gemm %7.1f\n",
        name, static_cast<long>(num_tokens), static_cast<long>(num_chosen), seconds[0] * 1e6,
        gigabytes / seconds[0], gigabytes / seconds[1], gflops / seconds[0], gflops / seconds[2]);
  }

 private:
  static Tensor Matrix(const DeviceBuffer& buffer, int64_t rows, int64_t columns) {
    return Tensor(buffer.data(), DType::kBF16, {rows, columns});
  }
  void Multiply(const LinearWeight& weight, const Tensor& x, const Tensor& out) {
    const LinearArgs args = {.x = x, .weight = &weight, .out = out};
    weight.format.quantized() ? quantized_gemm_.Linear(args, device_.pool())
                              : gemm_.Linear(args, device_.pool());
  }
  static LinearWeight Several(const LinearWeight& weight, int64_t first, int64_t count) {
    LinearWeight several = weight.Expert(first);
    several.out_features *= count;  // whole panels
    return several;
  }

  LinearWeight MakeExperts(const WeightFormat& format, int64_t rows, int64_t columns,
                           DeviceBuffer* memory) {
    LinearWeight weight = {.format = format,
                           .dtype = DType::kBF16,
                           .out_features = rows,
                           .in_features = columns,
                           .num_experts = kExperts};
    weight.expert_bytes = format.quantized() ? QuantizedLayout(weight).size_bytes()
                                             : PackedBytes(rows, columns, weight.dtype);
    *memory = device_.Allocate(kExperts * weight.expert_bytes).value();
    weight.data = memory->data();
    for (int64_t e = 0; e < kExperts; ++e) {
      const auto fill = format.quantized() ? FillQuantized : FillNormal;
      fill(weight.Expert(e), {.seed = static_cast<uint64_t>(e), .tensor_id = 0, .stddev = 0.02f},
           device_.pool());
    }
    return weight;
  }

  CpuDevice& device_;
  Gemm gemm_;
  QuantizedGemm quantized_gemm_;
  ExpertsGemm experts_gemm_;
  LinearWeight gated_, linear_;
  DeviceBuffer gated_memory_, linear_memory_, x_, gate_up_, middle_, rows_, out_;
};

void RunAll(int num_threads, Isa isa) {
  CpuDevice device(num_threads, isa);
  std::printf("%s, %d threads\n", device.info().name.c_str(), num_threads);
  struct Format {
    const char* name;
    WeightFormat format;
  };
  const Format formats[] = {{"bfloat16", {}},
                            {"int4", {.value = WeightValue::kInt4, .group_columns = 128}}};
  for (const Format& format : formats) {
    ExpertsBench bench(device, isa, format.format);
    for (int64_t num_tokens : {1, 2, 8, 64, 512}) bench.Run(format.name, num_tokens);
  }
}

}  // namespace
}  // namespace quire::cpu

int main(int argc, char** argv) {
  using namespace quire::cpu;
  int num_threads = 0;
  const bool is_number = argc <= 1 || absl::SimpleAtoi(argv[1], &num_threads);
  const absl::StatusOr<Isa> isa = ChooseIsa(argc > 2 ? argv[2] : "");
  if (!is_number || !isa.ok()) {
    std::fprintf(stderr, "%s\nusage: experts_bench [num_threads] [isa]\n",
                 is_number ? std::string(isa.status().message()).c_str() : "no number of threads");
    return 64;
  }
  RunAll(num_threads > 0 ? num_threads : quire::NumUsableCpus(), *isa);
  return 0;
}
