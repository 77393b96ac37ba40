// Native attention on this machine against what bounds it, for one layer of Qwen3-0.6B (16 query
// and 8 KV heads of 128, bfloat16): decode against the DRAM read bandwidth, prefill against float32
// multiply-adds from registers, all measured in the same run by taking turns. KV caches rotate so
// that none is found in a cache. Usage: attention_bench [num_threads]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/host_limits.h"

namespace quire::cpu {
namespace {

constexpr AttentionGeometry kGeometry = {.num_q_heads = 16,
                                         .num_kv_heads = 8,
                                         .k_head_dim = 128,
                                         .v_head_dim = 128,
                                         .block_size = 16,
                                         .query_dtype = DType::kBF16,
                                         .kv_dtype = DType::kBF16,
                                         .scale = 0.08838834764f};
constexpr int64_t kTokenElements = int64_t{8} * 128;  // of K, and of V
constexpr int64_t kColdBytes = int64_t{256} << 20;

double NowSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Time of one call of each function, the best of rounds in which they take turns, so that other
// load on the machine hits all alike.
std::vector<double> BestSeconds(const std::vector<std::function<void()>>& functions) {
  std::vector<double> best(functions.size(), 1e30);
  const double end = NowSeconds() + 1.5;
  for (int round = 0; round < 5 || NowSeconds() < end; ++round) {
    for (size_t i = 0; i < functions.size(); ++i) {
      const double start = NowSeconds();
      functions[i]();
      best[i] = std::min(best[i], NowSeconds() - start);
    }
  }
  return best;
}

// Reads `size_bytes` of cold memory on all threads.
class DramReader {
 public:
  DramReader(CpuBackend& backend, int64_t size_bytes)
      : device_(static_cast<CpuDevice&>(backend.device())),
        size_words_(size_bytes / 8),
        buffer_words_(RoundUp(kColdBytes, size_bytes) / 8),
        buffer_(device_.Allocate(buffer_words_ * 8).value()),
        sums_(device_.info().num_threads) {
    std::memset(buffer_.data(), 1, buffer_words_ * 8);
  }
  void Run() {
    const uint64_t* words = buffer_.as<uint64_t>() + next_word_;
    next_word_ = (next_word_ + size_words_) % buffer_words_;
    device_.pool().ParallelFor(size_words_, 1 << 16, [&](int64_t begin, int64_t end, int thread) {
      sums_[thread] = std::accumulate(words + begin, words + end, sums_[thread]);
    });
  }

 private:
  CpuDevice& device_;
  const int64_t size_words_;
  const int64_t buffer_words_;
  DeviceBuffer buffer_;
  int64_t next_word_ = 0;
  std::vector<uint64_t> sums_;
};

// Independent chains of multiply-adds in registers, enough to hide their latency.
constexpr int64_t kPeakSteps = 200'000;
constexpr int64_t kPeakChains = 12;
template <int kBytes>
struct Lanes {
  typedef float Vector __attribute__((vector_size(kBytes)));
};
#if defined(__x86_64__)
__attribute__((target("avx512f,prefer-vector-width=512"))) float MultiplyAdd512(float x) {
  Lanes<64>::Vector chains[kPeakChains];
  for (int64_t c = 0; c < kPeakChains; ++c) chains[c] = Lanes<64>::Vector{} + x * c;
  for (int64_t i = 0; i < kPeakSteps; ++i) {
#pragma GCC unroll 12
    for (int64_t c = 0; c < kPeakChains; ++c) chains[c] = chains[c] * x + x;
  }
  float sum = 0;
  for (const auto& chain : chains) sum += chain[0];
  return sum;
}
__attribute__((target("avx2,fma"))) float MultiplyAdd256(float x) {
  Lanes<32>::Vector chains[kPeakChains];
  for (int64_t c = 0; c < kPeakChains; ++c) chains[c] = Lanes<32>::Vector{} + x * c;
  for (int64_t i = 0; i < kPeakSteps; ++i) {
#pragma GCC unroll 12
    for (int64_t c = 0; c < kPeakChains; ++c) chains[c] = chains[c] * x + x;
  }
  float sum = 0;
  for (const auto& chain : chains) sum += chain[0];
  return sum;
}
#endif

// Operations of one call on `num_threads` threads; 0 where there is no such loop.
double RunMultiplyAdds(ThreadPool& pool, volatile float* sink) {
#if defined(__x86_64__)
  const bool wide = IsaSupported(Isa::kAvx512);
  if (!IsaSupported(Isa::kAvx2)) return 0;
  pool.ParallelFor(pool.num_threads(), 1, [&](int64_t, int64_t, int) {
    *sink = wide ? MultiplyAdd512(0.5f) : MultiplyAdd256(0.5f);
  });
  return 2.0 * (wide ? 16 : 8) * kPeakSteps * kPeakChains * pool.num_threads();
#else
  return 0;
#endif
}

// `num_seqs` sequences of the same shape over shuffled blocks, in enough caches to be cold.
class AttentionLoad {
 public:
  AttentionLoad(CpuBackend& backend, int32_t num_seqs, int32_t query_len, int32_t kv_len, bool hnd)
      : backend_(backend), stream_(backend.device().CreateStream().value()) {
    const int64_t blocks_per_seq = CeilDiv<int64_t>(kv_len, kGeometry.block_size);
    const int64_t num_blocks = num_seqs * blocks_per_seq;
    block_tables_.resize(num_blocks);
    std::iota(block_tables_.begin(), block_tables_.end(), 0);
    std::shuffle(block_tables_.begin(), block_tables_.end(), std::mt19937(1));
    for (int32_t i = 0; i <= num_seqs; ++i) cu_seqlens_q_.push_back(i * query_len);
    seq_lens_.assign(num_seqs, kv_len);
    seq_rows_.resize(num_seqs);
    std::iota(seq_rows_.begin(), seq_rows_.end(), 0);
    MakeTensors(num_seqs * query_len, num_blocks, hnd);

    plan_ = attention()
                .CreatePlan(kGeometry, {.max_num_seqs = num_seqs,
                                        .max_num_batched_tokens = num_seqs * query_len,
                                        .max_blocks_per_seq = blocks_per_seq})
                .value();
    AttentionBatch batch = {};
    batch.num_seqs = num_seqs;
    batch.num_tokens = num_seqs * query_len;
    batch.num_decodes = query_len == 1 ? num_seqs : 0;
    batch.cu_seqlens_q = cu_seqlens_q_.data();
    batch.seq_lens = seq_lens_.data();
    batch.seq_rows = seq_rows_.data();
    batch.block_tables = block_tables_.data();
    batch.block_table_stride = blocks_per_seq;
    plan_->PlanStep(*stream_, batch);
  }

  void Run() {
    next_ = (next_ + 1) % caches_.size();
    KvCacheView view = view_;
    view.k.data = caches_[next_].data();
    view.v.data = caches_[next_].as<BFloat16>() + kTokenElements * kGeometry.block_size;
    plan_->Run(*stream_, {.q = q_, .kv_cache = view, .out = out_});
    if (!stream_->Synchronize().ok()) std::abort();
  }

 private:
  AttentionBackend& attention() { return *backend_.attention(AttentionPath::kNative); }

  void MakeTensors(int64_t num_tokens, int64_t num_blocks, bool hnd) {
    const int64_t dim = kGeometry.k_head_dim;
    const HeadsView heads = {.block_stride = 2 * kTokenElements * kGeometry.block_size,
                             .token_stride = hnd ? dim : kTokenElements,
                             .head_stride = hnd ? dim * kGeometry.block_size : dim,
                             .head_dim = kGeometry.k_head_dim};
    view_ = {.k = heads,
             .v = heads,
             .dtype = DType::kBF16,
             .block_size = kGeometry.block_size,
             .num_kv_heads = kGeometry.num_kv_heads};
    const int64_t cache_bytes = num_blocks * heads.block_stride * 2;
    std::mt19937 rng(2);
    for (int64_t bytes = 0; bytes < kColdBytes; bytes += cache_bytes) {
      caches_.push_back(backend_.device().Allocate(cache_bytes).value());
      FillRandom(caches_.back(), rng);
    }
    const int64_t q_bytes = num_tokens * kGeometry.num_q_heads * dim * 2;
    q_buffer_ = backend_.device().Allocate(q_bytes).value();
    out_buffer_ = backend_.device().Allocate(q_bytes).value();
    FillRandom(q_buffer_, rng);
    q_ = Tensor(q_buffer_.data(), DType::kBF16, {num_tokens, kGeometry.num_q_heads, dim});
    out_ = Tensor(out_buffer_.data(), DType::kBF16, {num_tokens, kGeometry.num_q_heads, dim});
  }

  static void FillRandom(const DeviceBuffer& buffer, std::mt19937& rng) {
    BFloat16* values = buffer.as<BFloat16>();
    for (int64_t i = 0; i < buffer.size_bytes() / 2; ++i) {
      values[i] = BFloat16(static_cast<float>(rng() % 2001) * 0.002f - 2.0f);
    }
  }

  CpuBackend& backend_;
  std::unique_ptr<Stream> stream_;
  std::vector<int32_t> cu_seqlens_q_, seq_lens_, seq_rows_, block_tables_;
  std::unique_ptr<AttentionPlan> plan_;
  std::vector<DeviceBuffer> caches_;
  DeviceBuffer q_buffer_, out_buffer_;
  KvCacheView view_;
  Tensor q_, out_;
  size_t next_ = 0;
};

void BenchDecode(CpuBackend& backend, int32_t num_seqs, int32_t kv_len, bool hnd) {
  AttentionLoad load(backend, num_seqs, 1, kv_len, hnd);
  const int64_t kv_bytes = 2 * kTokenElements * 2 * num_seqs * kv_len;
  DramReader reader(backend, kv_bytes);
  const auto seconds = BestSeconds({[&] { load.Run(); }, [&] { reader.Run(); }});
  const double rate = static_cast<double>(kv_bytes) / seconds[0];
  const double dram_rate = static_cast<double>(kv_bytes) / seconds[1];
  std::printf(
      "decode  %2d x %-5d %s  %9.1f us  %6.1f GB/s of KV, DRAM read %5.1f GB/s, ratio %.2f\n",
      num_seqs, kv_len, hnd ? "HND" : "NHD", seconds[0] * 1e6, rate * 1e-9, dram_rate * 1e-9,
      rate / dram_rate);
}

void BenchPrefill(CpuBackend& backend, int32_t len, bool hnd) {
  AttentionLoad load(backend, 1, len, len, hnd);
  ThreadPool& pool = backend.device().pool();
  volatile float sink = 0;
  double peak_flops = 0;
  const auto seconds =
      BestSeconds({[&] { load.Run(); }, [&] { peak_flops = RunMultiplyAdds(pool, &sink); }});
  const double flops = 4.0 * 128 * 16 * (0.5 * len * (len + 1.0));  // of visible keys only
  std::printf("prefill      %-5d %s  %9.1f us  %6.1f GFLOP/s, multiply-adds %6.1f, ratio %.2f\n",
              len, hnd ? "HND" : "NHD", seconds[0] * 1e6, flops / seconds[0] * 1e-9,
              peak_flops / seconds[1] * 1e-9, flops / seconds[0] / (peak_flops / seconds[1]));
}

}  // namespace
}  // namespace quire::cpu

int main(int argc, char** argv) {
  using namespace quire::cpu;
  const int num_threads = argc > 1 ? std::atoi(argv[1]) : quire::NumUsableCpus();
  CpuBackend backend(num_threads);
  std::printf("%s, %d threads\n", backend.device().info().name.c_str(), num_threads);
  for (bool hnd : {false, true}) {
    BenchDecode(backend, 1, 8192, hnd);
    BenchDecode(backend, 16, 1024, hnd);
    BenchPrefill(backend, 512, hnd);
    BenchPrefill(backend, 2048, hnd);
  }
  return 0;
}
