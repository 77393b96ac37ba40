// Attention on a GPU against what bounds them, measured in the same run: decode and a
// skewed batch against a kernel that only reads, prefill in FLOP/s. Every figure is the median of
// replays of a graph that goes through caches larger than L2 in turn. Bytes are those of K and V,
// once; FLOPs those of the visible pairs. Usage: cuda_bench [part of the names of the shapes to
// run]
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/read_probe.h"
#include "tests/kernels/cuda_bench_kernels.h"

namespace quire {
namespace {

constexpr int64_t kColdBytes = int64_t{1} << 30;  // what a round of replays goes through at least

class Bench {
 public:
  Bench()
      : backend_(OpenBackend({.kind = DeviceKind::kCuda}).value()),
        stream_(backend_->device().CreateStream().value()) {}

  Backend& backend() { return *backend_; }
  Device& device() { return backend_->device(); }
  Ops& ops() { return backend_->ops(); }
  AttentionBackend& attention() { return *backend_->attention(AttentionPath::kNative); }
  Stream& stream() { return *stream_; }
  cudaStream_t handle() { return cuda::CudaStream::From(*stream_).handle(); }

  template <typename T>
  DeviceBuffer Upload(const std::vector<T>& values) {
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
    DeviceBuffer buffer = device().Allocate(bytes).value();
    const DeviceBuffer pinned = device().AllocatePinned(bytes).value();
    std::memcpy(pinned.data(), values.data(), bytes);
    stream_->CopyToDevice(buffer.data(), pinned.data(), bytes);
    CHECK(stream_->Synchronize().ok());
    return buffer;
  }

  DeviceBuffer RandomBf16(int64_t count, uint32_t seed) {
    DeviceBuffer buffer = device().Allocate(count * 2).value();
    FillRandomBf16(buffer.data(), count, seed, handle());
    return buffer;
  }

  // Microseconds of one call, when `enqueue(i)` has been captured for i in [0, num_calls).
  double MedianUs(int num_calls, const std::function<void(int)>& enqueue) {
    stream_->BeginCapture();
    for (int i = 0; i < num_calls; ++i) enqueue(i);
    const auto graph = stream_->EndCapture().value();
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin) == cudaSuccess && cudaEventCreate(&end) == cudaSuccess);
    std::vector<double> times;
    constexpr int kReplays = 11;
    for (int replay = -2; replay < kReplays; ++replay) {
      (void)cudaEventRecord(begin, handle());
      stream_->Launch(*graph);
      (void)cudaEventRecord(end, handle());
      const absl::Status status = stream_->Synchronize();
      CHECK(status.ok()) << status;
      float ms = 0;
      CHECK(cudaEventElapsedTime(&ms, begin, end) == cudaSuccess);
      if (replay >= 0) times.push_back(1e3 * ms / num_calls);
    }
    (void)cudaEventDestroy(begin);
    (void)cudaEventDestroy(end);
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }

 private:
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Stream> stream_;
};

double ReadCeilingGBs(Bench& bench, int64_t bytes) {
  const int num_buffers = static_cast<int>(std::max<int64_t>(2, CeilDiv(kColdBytes, bytes)));
  std::vector<DeviceBuffer> buffers;
  for (int i = 0; i < num_buffers; ++i) buffers.push_back(bench.RandomBf16(bytes / 2, i));
  const DeviceBuffer sink = bench.device().Allocate(4).value();
  const double us = bench.MedianUs(2 * num_buffers, [&](int i) {
    EnqueueRead(bench.backend(), bench.stream(), buffers[i % num_buffers].data(), bytes,
                sink.as<uint32_t>());
  });
  return static_cast<double>(bytes) / us / 1e3;
}

struct Shape {
  std::string name;
  int32_t num_q_heads;
  int32_t num_kv_heads;
  int32_t head_dim;
  int32_t block_size;
  std::vector<int32_t> query_lens;
  std::vector<int32_t> seq_lens;
};

Shape Decodes(int32_t count, int32_t seq_len, int32_t num_q_heads = 32, int32_t block_size = 16) {
  return {"decode " + std::to_string(count) + " x " + std::to_string(seq_len) + ", " +
              std::to_string(num_q_heads) + "/8 heads, block " + std::to_string(block_size),
          num_q_heads,
          8,
          128,
          block_size,
          std::vector<int32_t>(count, 1),
          std::vector<int32_t>(count, seq_len)};
}

Shape Prefills(int32_t count, int32_t query_len, int32_t seq_len, int32_t head_dim = 128,
               int32_t block_size = 16) {
  return {"prefill " + std::to_string(count) + " x " + std::to_string(query_len) + " of " +
              std::to_string(seq_len) + ", dim " + std::to_string(head_dim) + ", block " +
              std::to_string(block_size),
          32,
          8,
          head_dim,
          block_size,
          std::vector<int32_t>(count, query_len),
          std::vector<int32_t>(count, seq_len)};
}

// Plan and caches of one shape; the blocks of a sequence lie anywhere.
class AttentionCase {
 public:
  AttentionCase(Bench& bench, const Shape& shape) : bench_(bench), shape_(shape) {
    const auto num_seqs = static_cast<int32_t>(shape.seq_lens.size());
    std::vector<int32_t> cu_seqlens_q = {0};
    int64_t max_blocks = 0;
    int64_t num_blocks = 0;
    for (int32_t i = 0; i < num_seqs; ++i) {
      cu_seqlens_q.push_back(cu_seqlens_q.back() + shape.query_lens[i]);
      max_blocks = std::max<int64_t>(max_blocks, CeilDiv(shape.seq_lens[i], shape.block_size));
      num_blocks += CeilDiv(shape.seq_lens[i], shape.block_size);
    }
    std::vector<BlockId> shuffled(num_blocks);
    std::iota(shuffled.begin(), shuffled.end(), 0);
    std::shuffle(shuffled.begin(), shuffled.end(), std::mt19937(1));
    std::vector<BlockId> tables(num_seqs * max_blocks, kNoBlock);
    auto next = shuffled.begin();
    for (int32_t i = 0; i < num_seqs; ++i) {
      const int64_t count = CeilDiv(shape.seq_lens[i], shape.block_size);
      std::copy_n(next, count, tables.begin() + i * max_blocks);
      next += count;
    }
    std::vector<int32_t> rows(num_seqs);
    std::iota(rows.begin(), rows.end(), 0);
    cu_seqlens_q_ = bench.Upload(cu_seqlens_q);
    seq_lens_ = bench.Upload(shape.seq_lens);
    rows_ = bench.Upload(rows);
    tables_ = bench.Upload(tables);
    batch_ = {.num_seqs = num_seqs,
              .num_tokens = cu_seqlens_q.back(),
              .num_decodes = static_cast<int32_t>(
                  std::count(shape.query_lens.begin(), shape.query_lens.end(), 1)),
              .max_seqlen_q = 0,
              .max_seqlen_k = 0,
              .cu_seqlens_q = cu_seqlens_q_.as<int32_t>(),
              .seq_lens = seq_lens_.as<int32_t>(),
              .seq_rows = rows_.as<int32_t>(),
              .block_tables = tables_.as<BlockId>(),
              .block_table_stride = max_blocks};
    const AttentionGeometry geometry = {.num_q_heads = shape.num_q_heads,
                                        .num_kv_heads = shape.num_kv_heads,
                                        .head_dim = shape.head_dim,
                                        .block_size = shape.block_size,
                                        .query_dtype = DType::kBF16,
                                        .kv_dtype = DType::kBF16,
                                        .scale = 1.0f / std::sqrt(1.0f * shape.head_dim)};
    plan_ = bench.attention()
                .CreatePlan(geometry, {.max_num_seqs = num_seqs,
                                       .max_num_tokens = batch_.num_tokens,
                                       .max_blocks_per_seq = max_blocks})
                .value();
    cache_bytes_ = num_blocks * BlockElements() * 4;
    const int64_t num_caches = std::max<int64_t>(2, CeilDiv(kColdBytes, cache_bytes_));
    for (int64_t i = 0; i < num_caches; ++i) {
      caches_.push_back(bench.RandomBf16(cache_bytes_ / 2, static_cast<uint32_t>(i)));
    }
    const int64_t q_size = int64_t{batch_.num_tokens} * shape.num_q_heads * shape.head_dim;
    q_ = bench.RandomBf16(q_size, 100);
    out_ = bench.device().Allocate(q_size * 2).value();
  }

  double PlanUs() {
    return bench_.MedianUs(20,
                           [&](int) { bench_.attention().Plan(bench_.stream(), *plan_, batch_); });
  }

  double RunUs() {
    bench_.attention().Plan(bench_.stream(), *plan_, batch_);
    const auto num_caches = static_cast<int>(caches_.size());
    return bench_.MedianUs(2 * num_caches, [&](int i) { Run(caches_[i % num_caches]); });
  }

  double KvBytes() const {
    const double tokens = std::accumulate(shape_.seq_lens.begin(), shape_.seq_lens.end(), 0.0);
    return tokens * shape_.num_kv_heads * shape_.head_dim * 4;
  }

  double Flops() const {
    double pairs = 0;
    for (size_t i = 0; i < shape_.seq_lens.size(); ++i) {
      const double q = shape_.query_lens[i];
      pairs += q * shape_.seq_lens[i] - q * (q - 1) / 2;
    }
    return pairs * 4 * shape_.head_dim * shape_.num_q_heads;
  }

 private:
  // Of K, and of V.
  int64_t BlockElements() const {
    return int64_t{shape_.block_size} * shape_.num_kv_heads * shape_.head_dim;
  }

  void Run(const DeviceBuffer& cache) {
    const Tensor q(q_.data(), DType::kBF16,
                   {batch_.num_tokens, shape_.num_q_heads, shape_.head_dim});
    const Tensor out(out_.data(), DType::kBF16,
                     {batch_.num_tokens, shape_.num_q_heads, shape_.head_dim});
    const KvCacheView view = {.k = cache.data(),
                              .v = cache.as<uint16_t>() + BlockElements(),
                              .dtype = DType::kBF16,
                              .block_stride = 2 * BlockElements(),
                              .token_stride = shape_.head_dim,
                              .head_stride = int64_t{shape_.block_size} * shape_.head_dim,
                              .block_size = shape_.block_size,
                              .num_kv_heads = shape_.num_kv_heads,
                              .head_dim = shape_.head_dim};
    bench_.attention().Run(bench_.stream(), *plan_, {.q = q, .kv_cache = view, .out = out});
  }

  Bench& bench_;
  const Shape shape_;
  DeviceBuffer cu_seqlens_q_, seq_lens_, rows_, tables_, q_, out_;
  AttentionBatch batch_ = {};
  std::unique_ptr<AttentionPlan> plan_;
  int64_t cache_bytes_ = 0;
  std::vector<DeviceBuffer> caches_;
};

void BenchAttention(Bench& bench, const std::string& part) {
  const double ceiling = ReadCeilingGBs(bench, int64_t{2} << 30);
  std::printf("read ceiling, 2 GiB buffers: %.0f GB/s\n", ceiling);
  std::printf("%-48s %9s %9s %8s %8s\n", "shape", "us", "GB/s", "ratio", "plan us");
  Shape skewed = Decodes(64, 512);
  skewed.seq_lens[40] = 32768;
  skewed.name = "decode 63 x 512 + 1 x 32768, 32/8 heads";
  for (const Shape& shape : {Decodes(128, 4096), Decodes(128, 4096, 32, 64), Decodes(1, 8192),
                             Decodes(8, 8192), Decodes(64, 2048), Decodes(256, 1024),
                             Decodes(64, 1024, 16), Decodes(16, 1024, 16), skewed}) {
    if (shape.name.find(part) == std::string::npos) continue;
    AttentionCase attention(bench, shape);
    const double us = attention.RunUs();
    const double gbs = attention.KvBytes() / us / 1e3;
    std::printf("%-48s %9.1f %9.0f %8.3f %8.1f\n", shape.name.c_str(), us, gbs, gbs / ceiling,
                attention.PlanUs());
  }
  std::printf("%-48s %9s %9s %17s\n", "shape", "us", "TFLOP/s", "plan us");
  for (const Shape& shape :
       {Prefills(16, 1024, 1024), Prefills(4, 4096, 4096), Prefills(4, 4096, 4096, 128, 64),
        Prefills(1, 16384, 16384), Prefills(1, 2048, 2048), Prefills(1, 512, 32768),
        Prefills(4, 4096, 4096, 64), Prefills(4, 4096, 4096, 256)}) {
    if (shape.name.find(part) == std::string::npos) continue;
    AttentionCase attention(bench, shape);
    const double us = attention.RunUs();
    std::printf("%-48s %9.1f %9.0f %17.1f\n", shape.name.c_str(), us, attention.Flops() / us / 1e6,
                attention.PlanUs());
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
  quire::Bench bench;
  quire::BenchAttention(bench, argc > 1 ? argv[1] : "");
  return 0;
}
