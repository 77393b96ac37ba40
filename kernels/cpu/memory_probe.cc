#include "kernels/cpu/memory_probe.h"

#include <atomic>
#include <cstring>

#include "kernels/cpu/runtime/cpu_stream.h"
#include "kernels/cpu/runtime/host_info.h"

namespace quire::cpu {

void EnqueueRead(ThreadPool& pool, Stream& stream, const void* data, int64_t bytes,
                 uint32_t* sink) {
  constexpr int64_t kLineWords = 8;         // of 8 bytes: a cache line, and sums that do not wait
  constexpr int64_t kGrainLines = 1 << 13;  // for one another
  CpuStream::From(stream).Enqueue([pool = &pool, data, bytes, sink] {
    std::atomic<uint64_t> total{0};
    pool->ParallelFor(bytes / 64, kGrainLines, [&](int64_t begin, int64_t end, int) {
      const auto* words = static_cast<const uint64_t*>(data);
      const int64_t ahead = ReadAheadBytes() / static_cast<int64_t>(sizeof(*words));
      uint64_t sums[kLineWords] = {};
      for (int64_t i = begin * kLineWords; i < end * kLineWords; i += kLineWords) {
        if (ahead > 0) __builtin_prefetch(words + i + ahead, 0, 2);
        for (int64_t j = 0; j < kLineWords; ++j) sums[j] ^= words[i + j];
      }
      for (const uint64_t sum : sums) total ^= sum;
    });
    *sink = static_cast<uint32_t>(total ^ total >> 32);
  });
}

void EnqueueCopy(ThreadPool& pool, Stream& stream, void* to, const void* from, int64_t bytes) {
  constexpr int64_t kGrain = 1 << 19;
  CpuStream::From(stream).Enqueue([pool = &pool, to, from, bytes] {
    pool->ParallelFor(bytes, kGrain, [&](int64_t begin, int64_t end, int) {
      std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin,
                  end - begin);
    });
  });
}

}  // namespace quire::cpu
