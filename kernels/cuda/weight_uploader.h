// WeightUploader: converts rows of a weight on the host and copies them to the device through
// pinned memory, converting one piece while the last one travels. Any number of threads at once;
// each takes a lane (pinned pieces and a stream), and lanes are made as they are needed.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "kernels/cuda/cuda_device.h"
#include "kernels/op_args.h"

namespace quire::cuda {

class WeightUploader {
 public:
  explicit WeightUploader(CudaDevice& device) : device_(device) {}

  // Rows as in Ops::LoadLinearRows, checked already. Returns when they have arrived.
  absl::Status Upload(const LinearWeight& weight, int64_t first_row, const Tensor& rows);

 private:
  static constexpr int kNumPieces = 2;

  struct Lane {
    DeviceBuffer pinned;  // kNumPieces pieces
    std::unique_ptr<Stream> stream;
    std::unique_ptr<Event> copied[kNumPieces];  // the piece may be written again
    int64_t next_piece = 0;
  };

  absl::StatusOr<std::unique_ptr<Lane>> TakeLane();
  absl::Status CopyRun(Lane& lane, const char* in, DType in_dtype, int64_t size, char* out,
                       DType out_dtype);

  CudaDevice& device_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Lane>> idle_lanes_;
};

}  // namespace quire::cuda
