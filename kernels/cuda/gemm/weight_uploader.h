// WeightUploader: one thread's way from files to weights on the GPU. Staging memory is pinned, so
// that what was read into it travels from there, with no copy between; a checkpoint of another
// dtype is converted in place first. Quantized rows travel as they are and are packed there. Two
// pieces take turns: one is filled while the other travels.
#pragma once

#include <memory>

#include "kernels/cuda/runtime/cuda_device.h"
#include "kernels/weight_store.h"

namespace quire::cuda {

class WeightUploader : public RowLoader {
 public:
  // Pins 2 * staging_bytes, which costs about 0.5 ms per MiB. Binds the calling thread to the
  // device, which must outlive this.
  static absl::StatusOr<std::unique_ptr<WeightUploader>> Create(CudaDevice& device,
                                                                int64_t staging_bytes);
  // What is still on its way arrives first.
  ~WeightUploader() override;

  absl::StatusOr<void*> Staging() override;
  absl::Status Load(const LinearWeight& weight, int64_t first_row, const Tensor& rows) override;
  absl::Status LoadQuantized(const LinearWeight& weight, int64_t first_row,
                             const QuantizedRows& rows) override;
  absl::Status Finish() override;

 private:
  static constexpr int kNumPieces = 2;
  struct Piece {
    DeviceBuffer pinned;
    // Of quantized rows, as large as they were: what lay in several places, here and there.
    DeviceBuffer gathered, packed_from;
    std::unique_ptr<Event> copied;  // it may be written again
  };

  explicit WeightUploader(CudaDevice& device) : device_(device) {}

  CudaDevice& device_;
  Piece pieces_[kNumPieces];
  int current_ = 0;  // the piece that Staging has given out last, or will give out next
  std::unique_ptr<Stream> stream_;
};

}  // namespace quire::cuda
