// AttentionCase: one layer's attention over a paged cache of given lengths, through the door of
// kernels/attention.h, with caches that take turns so that none is found in a cache of the device.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/bench/kernels/graph_timer.h"
#include "tools/bench/kernels/op_recorder.h"

namespace quire::bench {

struct AttentionShape {
  std::string name;
  int32_t num_q_heads;
  int32_t num_kv_heads;
  int32_t head_dim;
  int32_t block_size;
  BatchLengths lengths;
  DType kv_dtype = DType::kBF16;  // or one of 8 bits
};

class AttentionCase {
 public:
  // About the device memory that Create needs: 5 % more than can be counted.
  static int64_t BytesFor(const GraphTimer& timer, const AttentionShape& shape);
  // The blocks of a sequence lie anywhere in the cache, in an order that `seed` decides.
  static absl::StatusOr<std::unique_ptr<AttentionCase>> Create(GraphTimer& timer,
                                                               const AttentionShape& shape,
                                                               uint64_t seed);
  absl::StatusOr<double> PlanUs();
  absl::StatusOr<double> RunUs();
  double kv_bytes() const { return AttentionKvBytes(geometry_, shape_.lengths); }
  double flops() const { return AttentionFlops(geometry_, shape_.lengths); }

 private:
  AttentionCase(GraphTimer& timer, const AttentionShape& shape, uint64_t seed)
      : timer_(timer), shape_(shape), seed_(seed) {}
  absl::Status Open();
  absl::Status UploadBatch();
  absl::Status MakeCaches();
  void Run(const DeviceBuffer& cache);
  AttentionBackend& attention() { return *timer_.backend().attention(AttentionPath::kNative); }
  int64_t block_elements() const;  // of K, and of V

  GraphTimer& timer_;
  const AttentionShape shape_;
  const uint64_t seed_;
  AttentionGeometry geometry_ = {};
  int64_t num_blocks_ = 0;
  DeviceBuffer cu_seqlens_q_, seq_lens_, rows_, tables_, q_, out_;
  AttentionBatch batch_ = {};
  std::unique_ptr<AttentionPlan> plan_;
  std::vector<DeviceBuffer> caches_;
};

}  // namespace quire::bench
