// Sampling on a GPU: microseconds per call for kinds of rows and of distributions, against a kernel
// that only reads the logits, measured in the same run. Every figure is the median of replays of a
// graph of calls; "cold" calls take turns over logits that are larger than L2, "warm" ones find
// theirs where the LM head has just left them. Usage: sampling_bench [rows ...]
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/backend.h"
#include "kernels/base/check.h"
#include "kernels/cuda/runtime/cuda_stream.h"
#include "kernels/read_probe.h"
#include "tools/bench/kernels/cuda_bench_kernels.h"

namespace quire {
namespace {

constexpr int64_t kLogitRows = 768;  // some 400 MB

enum class Shape { kPeaked, kMiddling, kFlat };

struct Kind {
  const char* name;
  Shape shape;
  SamplingRow row;
};

std::vector<Kind> Kinds() {
  const SamplingRow filtered = {.top_k = 50, .top_p = 0.9f};
  const SamplingRow nucleus = {.top_p = 0.9f};
  return {{"greedy", Shape::kMiddling, {.temperature = 0}},
          {"temperature", Shape::kMiddling, {}},
          {"k 50, p 0.9, peaked", Shape::kPeaked, filtered},
          {"k 50, p 0.9, middling", Shape::kMiddling, filtered},
          {"k 50, p 0.9, flat", Shape::kFlat, filtered},
          {"k 20, p 0.95, peaked", Shape::kPeaked, {.top_k = 20, .top_p = 0.95f}},
          {"k 1000, p 0.9, flat", Shape::kFlat, {.top_k = 1000, .top_p = 0.9f}},
          {"p 0.9, peaked", Shape::kPeaked, nucleus},
          {"p 0.9, middling", Shape::kMiddling, nucleus},
          {"p 0.9, flat", Shape::kFlat, nucleus},
          {"min-p 0.05, middling", Shape::kMiddling, {.min_p = 0.05f}},
          {"k 50, p 0.9, penalties",
           Shape::kMiddling,
           {.top_k = 50, .top_p = 0.9f, .repetition_penalty = 1.1f}},
          {"greedy, 20 logprobs", Shape::kMiddling, {.temperature = 0, .num_logprobs = 20}}};
}

class SamplingBench {
 public:
  explicit SamplingBench(int64_t vocab_size)
      : vocab_size_(vocab_size),
        backend_(OpenBackend({.kind = DeviceKind::kCuda}).value()),
        stream_(backend_->device().CreateStream().value()),
        logits_(backend_->device().Allocate(kLogitRows * vocab_size * 4).value()),
        counts_(backend_->device().Allocate(256 * vocab_size * 4).value()),
        results_(backend_->device().Allocate(256 * (4 + 2 * kMaxLogprobs) * 4).value()) {
    CHECK(cudaMemset(counts_.data(), 0, 256 * vocab_size * 4) == cudaSuccess);
  }

  // Standard deviations of 1 and 3; peaked is 2.5 with some 20 tokens far above.
  void Fill(Shape shape) {
    const float deviation = shape == Shape::kFlat ? 1.0f : shape == Shape::kMiddling ? 3.0f : 2.5f;
    FillRandomF32(logits_.as<float>(), kLogitRows * vocab_size_, 7, deviation, handle());
    if (shape == Shape::kPeaked) {
      constexpr int kPeaks = 20;
      std::vector<float> peaks(kLogitRows * kPeaks);
      for (size_t i = 0; i < peaks.size(); ++i) peaks[i] = 24.0f - static_cast<float>(i * 7 % 19);
      CHECK(cudaMemcpy2DAsync(logits_.as<float>() + 5000, vocab_size_ * 4, peaks.data(), kPeaks * 4,
                              kPeaks * 4, kLogitRows, cudaMemcpyHostToDevice,
                              handle()) == cudaSuccess);
      CHECK(stream_->Synchronize().ok());
    }
    CHECK(stream_->Synchronize().ok());
  }

  double SampleUs(const SamplingRow& setting, int64_t num_rows, bool cold) {
    std::vector<SamplingRow> rows(num_rows, setting);
    for (int64_t i = 0; i < num_rows; ++i) {
      rows[i].row = static_cast<int32_t>(i);
      rows[i].seed = i;
    }
    const DeviceBuffer device_rows = Upload(rows);
    auto* ints = results_.as<int32_t>();
    return MedianUs([&](int call) {
      backend_->ops().Sample(
          *stream_,
          {.logits = Logits(call, num_rows, cold),
           .rows = device_rows.as<SamplingRow>(),
           .bias = nullptr,
           .token_counts = counts_.as<int32_t>(),
           .row_last_token = ints,
           .sampled_ids = ints + num_rows,
           .sampled_logprobs = reinterpret_cast<float*>(ints + 2 * num_rows),
           .sampled_ranks = ints + 3 * num_rows,
           .top_ids = ints + 4 * num_rows,
           .top_logprobs = reinterpret_cast<float*>(ints + (4 + kMaxLogprobs) * num_rows)});
    });
  }

  double ReadUs(int64_t num_rows) {
    return MedianUs([&](int call) {
      const Tensor logits = Logits(call, num_rows, true);
      EnqueueRead(*backend_, *stream_, logits.data(), logits.num_bytes(), results_.as<uint32_t>());
    });
  }

 private:
  cudaStream_t handle() { return cuda::CudaStream::From(*stream_).handle(); }

  Tensor Logits(int call, int64_t num_rows, bool cold) {
    const int64_t num_windows = cold ? kLogitRows / num_rows : 1;
    // Far apart, so that no call reads its neighbour's lines.
    const int64_t window = call * int64_t{61} % num_windows;
    return Tensor(logits_.as<float>() + window * num_rows * vocab_size_, DType::kF32,
                  {num_rows, vocab_size_});
  }

  DeviceBuffer Upload(const std::vector<SamplingRow>& rows) {
    const auto bytes = static_cast<int64_t>(rows.size() * sizeof(SamplingRow));
    DeviceBuffer buffer = backend_->device().Allocate(bytes).value();
    CHECK(cudaMemcpy(buffer.data(), rows.data(), bytes, cudaMemcpyHostToDevice) == cudaSuccess);
    return buffer;
  }

  // Of one call; a graph goes through all cold logits of single rows.
  double MedianUs(const std::function<void(int)>& enqueue) {
    constexpr int kCalls = 60;
    constexpr int kReplays = 9;
    stream_->BeginCapture();
    for (int call = 0; call < kCalls; ++call) enqueue(call);
    const auto graph = stream_->EndCapture().value();
    cudaEvent_t events[2];
    for (cudaEvent_t& event : events) CHECK(cudaEventCreate(&event) == cudaSuccess);
    std::vector<double> times;
    for (int replay = -2; replay < kReplays; ++replay) {
      (void)cudaEventRecord(events[0], handle());
      stream_->Launch(*graph);
      (void)cudaEventRecord(events[1], handle());
      const absl::Status status = stream_->Synchronize();
      CHECK(status.ok()) << status;
      float ms = 0;
      CHECK(cudaEventElapsedTime(&ms, events[0], events[1]) == cudaSuccess);
      if (replay >= 0) times.push_back(1e3 * ms / kCalls);
    }
    for (cudaEvent_t event : events) (void)cudaEventDestroy(event);
    std::nth_element(times.begin(), times.begin() + kReplays / 2, times.end());
    return times[kReplays / 2];
  }

  const int64_t vocab_size_;
  const std::unique_ptr<Backend> backend_;
  const std::unique_ptr<Stream> stream_;
  const DeviceBuffer logits_, counts_, results_;
};

void Run(int64_t vocab_size, const std::vector<int64_t>& num_rows) {
  SamplingBench bench(vocab_size);
  std::vector<double> read_us;
  bench.Fill(Shape::kMiddling);
  std::printf("vocabulary %lld: us cold (read / cold), us warm\n%-24s",
              static_cast<long long>(vocab_size), "rows");
  for (int64_t rows : num_rows) std::printf(" %24lld", static_cast<long long>(rows));
  std::printf("\n%-24s", "reading the logits");
  for (int64_t rows : num_rows) {
    read_us.push_back(bench.ReadUs(rows));
    std::printf(" %9.1f               ", read_us.back());
  }
  std::puts("");
  for (const Kind& kind : Kinds()) {
    bench.Fill(kind.shape);
    std::printf("%-24s", kind.name);
    for (size_t i = 0; i < num_rows.size(); ++i) {
      const double cold = bench.SampleUs(kind.row, num_rows[i], true);
      const double warm = bench.SampleUs(kind.row, num_rows[i], false);
      std::printf(" %9.1f (%.2f) %7.1f", cold, read_us[i] / cold, warm);
    }
    std::puts("");
  }
}

}  // namespace
}  // namespace quire

int main(int argc, char** argv) {
  if (!quire::CudaAvailable()) {
    std::puts("no CUDA device");
    return 77;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::vector<int64_t> num_rows;
  for (int i = 1; i < argc; ++i) num_rows.push_back(std::atoll(argv[i]));
  if (num_rows.empty()) num_rows = {1, 8, 64, 256};
  for (int64_t rows : num_rows) {
    if (rows >= 1 && rows <= 256) continue;
    std::fprintf(stderr, "rows must be from 1 to 256\n");
    return 64;
  }
  for (int64_t vocab_size : {128'256, 151'936}) quire::Run(vocab_size, num_rows);
  return 0;
}
