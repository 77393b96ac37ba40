// Linear on this machine against what bounds it: for few rows the DRAM read bandwidth, for many
// oneDNN's gemm, both measured in the same run. Prints one line per layer shape of
// Qwen3-0.6B, number of rows and kind of weights.
// Usage: linear_bench [num_threads] [isa] [float32 | bfloat16 | compressed]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "kernels/base/check.h"
#include "kernels/cpu/gemm/compression.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/gemm/packing.h"
#include "kernels/cpu/memory_probe.h"
#include "kernels/cpu/runtime/cpu_device.h"
#include "kernels/host_limits.h"
#include "tools/bench/onednn_gemm.h"

namespace quire::cpu {
namespace {

double NowSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Time of one call of each function: the best of many, in turns of a tenth of a second, so that
// other load on the machine hits all alike. The pause lets a peer's threads stop spinning for more
// work.
std::vector<double> BestSeconds(const std::vector<std::function<void()>>& functions) {
  std::vector<double> best(functions.size(), 1e30);
  for (int turn = 0; turn < 3; ++turn) {
    for (size_t i = 0; i < functions.size(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      const double end = NowSeconds() + 0.1;
      do {
        const double start = NowSeconds();
        functions[i]();
        best[i] = std::min(best[i], NowSeconds() - start);
      } while (NowSeconds() < end);
    }
  }
  return best;
}

DeviceBuffer AllocateOrExit(CpuDevice& device, int64_t size_bytes) {
  auto buffer = device.Allocate(size_bytes);
  if (!buffer.ok()) {
    std::fprintf(stderr, "%s\n", std::string(buffer.status().message()).c_str());
    std::exit(69);
  }
  return *std::move(buffer);
}

// Enough copies of a weight to find none in a cache when they are used in turn.
constexpr int64_t kColdBytes = int64_t{256} << 20;

// Bytes per second, reading a buffer that fits in no cache.
double DramReadRate(CpuDevice& device) {
  const DeviceBuffer buffer = AllocateOrExit(device, kColdBytes + 64);
  std::memset(buffer.data(), 1, kColdBytes);
  const std::unique_ptr<Stream> stream = device.CreateStream().value();
  const double seconds = BestSeconds({[&] {
    EnqueueRead(device.pool(), *stream, buffer.data(), kColdBytes,
                reinterpret_cast<uint32_t*>(buffer.as<char>() + kColdBytes));
    CHECK(stream->Synchronize().ok());
  }})[0];
  return kColdBytes / seconds;
}

struct Shape {
  const char* name;
  int64_t n, k;
};

struct WeightKind {
  const char* name;
  DType dtype;
  bool is_compressed;
};

constexpr WeightKind kWeightKinds[] = {{"bfloat16", DType::kBF16, false},
                                       {"compressed", DType::kBF16, true},
                                       {"float32", DType::kF32, false}};

// Random copies of a weight, one after the other.
std::vector<LinearWeight> MakeWeights(CpuDevice& device, const WeightKind& kind, const Shape& shape,
                                      char* data, int64_t num_copies) {
  std::vector<LinearWeight> weights;
  for (int64_t i = 0; i < num_copies; ++i) {
    LinearWeight& weight = weights.emplace_back(
        LinearWeight{.data = data + i * PackedBytes(shape.n, shape.k, kind.dtype),
                     .dtype = kind.dtype,
                     .out_features = shape.n,
                     .in_features = shape.k});
    FillNormal(weight, {.seed = static_cast<uint64_t>(i), .tensor_id = 0, .stddev = 0.02f},
               device.pool());
    if (kind.is_compressed) Compress(weight, weight.data, device.pool());
  }
  return weights;
}

void RunShape(CpuDevice& device, Gemm& gemm, const WeightKind& kind, const Shape& shape,
              const std::vector<LinearWeight>& weights, int64_t m, double dram_rate) {
  const DType dtype = kind.dtype;
  const DeviceBuffer x_buffer = AllocateOrExit(device, m * shape.k * DTypeBytes(dtype));
  const DeviceBuffer out_buffer = AllocateOrExit(device, m * shape.n * DTypeBytes(dtype));
  const Tensor x(x_buffer.data(), dtype, {m, shape.k}), out(out_buffer.data(), dtype, {m, shape.n});
  int64_t next = 0;
  const auto run_own = [&] {
    next = (next + 1) % std::ssize(weights);
    gemm.Linear({.x = x, .weight = &weights[next], .out = out}, device.pool());
  };
  OneDnnGemm peer(OneDnnGemm::Closest(dtype), m, shape.n, shape.k,
                  static_cast<int>(weights.size()));
  const std::vector<double> seconds = BestSeconds({run_own, [&] { peer.Run(); }});
  const double own_seconds = seconds[0], peer_seconds = seconds[1];
  const double rate = static_cast<double>(weights[0].size_bytes()) / own_seconds;
  const double gflops = 2e-9 * static_cast<double>(m * shape.n * shape.k);
  std::printf(
      "%-10s %-8s M %4ld  %9.1f us  %6.1f GB/s = %.2f of DRAM  %7.1f GFLOP/s  oneDNN %7.1f"
      "  ratio %.2f\n",
      kind.name, shape.name, static_cast<long>(m), own_seconds * 1e6, rate * 1e-9, rate / dram_rate,
      gflops / own_seconds, gflops / peer_seconds, peer_seconds / own_seconds);
}

void RunAll(int num_threads, Isa isa, const std::string& kind_filter) {
  CpuDevice device(num_threads, isa);
  Gemm gemm(isa);
  std::printf("%s, %d threads\n", device.info().name.c_str(), num_threads);
  const double dram_rate = DramReadRate(device);
  std::printf("DRAM read %.1f GB/s\n", dram_rate * 1e-9);
  const Shape shapes[] = {{"qkv", 4096, 1024},
                          {"o", 1024, 2048},
                          {"gate_up", 6144, 1024},
                          {"down", 1024, 3072},
                          {"lm_head", 151936, 1024}};
  for (const WeightKind& kind : kWeightKinds) {
    if (!kind_filter.empty() && kind.name != kind_filter) continue;
    for (const Shape& shape : shapes) {
      const int64_t weight_bytes = PackedBytes(shape.n, shape.k, kind.dtype);
      const int64_t num_copies = CeilDiv(kColdBytes, weight_bytes);
      const DeviceBuffer buffer = AllocateOrExit(device, num_copies * weight_bytes);
      const std::vector<LinearWeight> weights =
          MakeWeights(device, kind, shape, buffer.as<char>(), num_copies);
      for (int64_t m : {1, 2, 8, 16, 64, 512}) {
        if (shape.n > 100000 && m > 16) continue;  // the server asks for logits of few rows
        RunShape(device, gemm, kind, shape, weights, m, dram_rate);
      }
    }
  }
}

}  // namespace
}  // namespace quire::cpu

int main(int argc, char** argv) {
  using namespace quire::cpu;
  int num_threads = 0;
  if (argc > 1 && !absl::SimpleAtoi(argv[1], &num_threads)) {
    std::fprintf(stderr, "linear_bench: %s is no number of threads\n", argv[1]);
    return 64;
  }
  const absl::StatusOr<Isa> isa = ChooseIsa(argc > 2 ? argv[2] : "");
  const std::string kind_filter = argc > 3 ? argv[3] : "";
  const bool kind_is_known =
      kind_filter.empty() ||
      std::any_of(std::begin(kWeightKinds), std::end(kWeightKinds),
                  [&](const auto& kind) { return kind.name == kind_filter; });
  if (!isa.ok() || !kind_is_known) {
    std::fprintf(
        stderr, "%s\nusage: linear_bench [num_threads] [isa] [bfloat16 | compressed | float32]\n",
        isa.ok() ? "no such kind of weights" : std::string(isa.status().message()).c_str());
    return 64;
  }
  RunAll(num_threads > 0 ? num_threads : quire::NumUsableCpus(), *isa, kind_filter);
  return 0;
}
