// Linear on this machine against what bounds it: for few rows the DRAM read bandwidth, for many
// oneDNN's matrix product, both measured in the same run. Prints one line per layer shape of
// Qwen3-0.6B, number of rows and dtype. Usage: linear_bench [num_threads] [isa] [dtype]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/host_info.h"
#include "kernels/cpu/packing.h"
#include "tests/kernels/onednn_matmul.h"

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

// Bytes per second, reading a buffer that fits in no cache piece by piece; the better of one thread
// and all.
double DramReadRate(CpuDevice& device) {
  constexpr int64_t kPieceWords = 1 << 20;
  const DeviceBuffer buffer = AllocateOrExit(device, kColdBytes);
  std::memset(buffer.data(), 1, kColdBytes);
  std::vector<uint64_t> sums(device.info().num_threads);
  int64_t next = 0;
  const auto read = [&](int64_t begin, int64_t end, int thread_index) {
    const uint64_t* words = buffer.as<uint64_t>() + next;
    uint64_t lanes[8] = {};  // eight sums, so that the additions never wait for one another
    for (int64_t i = begin; i < end; i += 8) {
      for (int lane = 0; lane < 8; ++lane) lanes[lane] += words[i + lane];
    }
    sums[thread_index] += std::accumulate(lanes, lanes + 8, uint64_t{0});
  };
  const auto advance = [&] { next = (next + kPieceWords) % (kColdBytes / 8); };
  const std::vector<double> seconds =
      BestSeconds({[&] {
                     advance();
                     read(0, kPieceWords, 0);
                   },
                   [&] {
                     advance();
                     device.pool().ParallelFor(kPieceWords, 1 << 16, read);
                   }});
  if (std::accumulate(sums.begin(), sums.end(), uint64_t{0}) == 0) std::printf("impossible\n");
  return kPieceWords * 8 / *std::min_element(seconds.begin(), seconds.end());
}

struct Shape {
  const char* name;
  int64_t n, k;
};

void RunShape(CpuDevice& device, Gemm& gemm, DType dtype, const Shape& shape, int64_t m,
              double dram_rate) {
  const int64_t weight_bytes = PackedBytes(shape.n, shape.k, dtype);
  const int64_t num_copies = CeilDiv(kColdBytes, weight_bytes);
  const DeviceBuffer weights = AllocateOrExit(device, num_copies * weight_bytes);
  const DeviceBuffer x_buffer = AllocateOrExit(device, m * shape.k * DTypeBytes(dtype));
  const DeviceBuffer out_buffer = AllocateOrExit(device, m * shape.n * DTypeBytes(dtype));
  const Tensor x(x_buffer.data(), dtype, {m, shape.k}), out(out_buffer.data(), dtype, {m, shape.n});
  std::memset(weights.data(), 0, weights.size_bytes());
  int64_t next = 0;
  const auto run_own = [&] {
    next = (next + 1) % num_copies;
    const LinearWeight weight{.data = weights.as<char>() + next * weight_bytes,
                              .dtype = dtype,
                              .out_features = shape.n,
                              .in_features = shape.k};
    gemm.Linear({.x = x, .weight = &weight, .out = out}, device.pool());
  };
  double peer_seconds = 0, own_seconds = 0;
  try {
    OneDnnMatmul peer(dtype, m, shape.n, shape.k, static_cast<int>(num_copies));
    const std::vector<double> seconds = BestSeconds({run_own, [&] { peer.Run(); }});
    own_seconds = seconds[0];
    peer_seconds = seconds[1];
  } catch (const dnnl::error&) {  // no bfloat16 on this processor
    own_seconds = BestSeconds({run_own})[0];
  }
  const double rate = static_cast<double>(shape.n * shape.k * DTypeBytes(dtype)) / own_seconds;
  const double gflops = 2e-9 * static_cast<double>(m * shape.n * shape.k);
  std::printf(
      "%-9s %-8s M %4ld  %9.1f us  %6.1f GB/s = %.2f of DRAM  %7.1f GFLOP/s  oneDNN %7.1f"
      "  ratio %.2f\n",
      DTypeName(dtype), shape.name, static_cast<long>(m), own_seconds * 1e6, rate * 1e-9,
      rate / dram_rate, gflops / own_seconds, peer_seconds > 0 ? gflops / peer_seconds : 0.0,
      peer_seconds / own_seconds);
}

void RunAll(int num_threads, Isa isa, const std::string& dtype_filter) {
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
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    if (!dtype_filter.empty() && DTypeName(dtype) != dtype_filter) continue;
    for (const Shape& shape : shapes) {
      for (int64_t m : {1, 2, 8, 16, 64, 512}) {
        if (shape.n > 100000 && m > 16) continue;  // the server asks for logits of few rows
        RunShape(device, gemm, dtype, shape, m, dram_rate);
      }
    }
  }
}

}  // namespace
}  // namespace quire::cpu

int main(int argc, char** argv) {
  using namespace quire::cpu;
  const int num_threads = argc > 1 ? std::atoi(argv[1]) : 0;
  Isa isa = BestIsa();
  for (Isa candidate : kAllIsas) {
    if (argc > 2 && std::string(IsaName(candidate)) == argv[2]) isa = candidate;
  }
  RunAll(num_threads > 0 ? num_threads : NumUsableCpus(), isa, argc > 3 ? argv[3] : "");
  return 0;
}
