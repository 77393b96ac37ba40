#include "kernels/cuda/gemm/weight_uploader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/base/check.h"
#include "kernels/base/half.h"
#include "kernels/base/status_macros.h"
#include "kernels/weight_checks.h"

namespace quire::cuda {

namespace {

float ToFloat(float value) { return value; }
float ToFloat(BFloat16 value) { return static_cast<float>(value); }
float ToFloat(uint16_t half) { return HalfToFloat(half); }

// Converts `size` elements in place. What shrinks goes forwards and what grows backwards, so that
// no element is overwritten before it has been read.
template <typename In, typename Out>
void ConvertInPlace(char* data, int64_t size) {
  for (int64_t step = 0; step < size; ++step) {
    const int64_t i = sizeof(Out) > sizeof(In) ? size - 1 - step : step;
    In in;
    std::memcpy(&in, data + i * sizeof(In), sizeof(In));
    const Out out(ToFloat(in));
    std::memcpy(data + i * sizeof(Out), &out, sizeof(Out));
  }
}

template <typename Out>
void ConvertInPlace(char* data, DType dtype, int64_t size) {
  switch (dtype) {
    case DType::kF32:
      return ConvertInPlace<float, Out>(data, size);
    case DType::kBF16:
      return ConvertInPlace<BFloat16, Out>(data, size);
    case DType::kF16:
      return ConvertInPlace<uint16_t, Out>(data, size);
    default:
      CHECK(false) << "cannot convert " << DTypeName(dtype) << " to a weight";
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<WeightUploader>> WeightUploader::Create(CudaDevice& device,
                                                                       int64_t staging_bytes) {
  device.BindThread();
  std::unique_ptr<WeightUploader> uploader(new WeightUploader());
  ASSIGN_OR_RETURN(uploader->stream_, device.CreateStream());
  for (Piece& piece : uploader->pieces_) {
    ASSIGN_OR_RETURN(piece.pinned, device.AllocatePinned(staging_bytes));
    ASSIGN_OR_RETURN(piece.copied, device.CreateEvent(/*timed=*/false));
  }
  return uploader;
}

WeightUploader::~WeightUploader() {
  if (stream_ != nullptr) stream_->Synchronize().IgnoreError();  // Finish reports it
}

absl::StatusOr<void*> WeightUploader::Staging() {
  const Piece& piece = pieces_[current_];
  RETURN_IF_ERROR(piece.copied->Wait());
  return piece.pinned.data();
}

absl::Status WeightUploader::Load(const LinearWeight& weight, int64_t first_row,
                                  const Tensor& rows) {
  RETURN_IF_ERROR(CheckWeightRows(weight, first_row, rows));
  const Piece& piece = pieces_[current_];
  current_ = (current_ + 1) % kNumPieces;
  const int64_t size = rows.num_elements();
  const int64_t bytes = size * DTypeBytes(weight.dtype);
  auto* const data = static_cast<char*>(rows.data());
  CHECK(data == piece.pinned.data()) << "rows that are not in the staging memory";
  CHECK_LE(std::max(bytes, size * DTypeBytes(rows.dtype())), piece.pinned.size_bytes());
  if (rows.dtype() != weight.dtype) {
    if (weight.dtype == DType::kBF16) {
      ConvertInPlace<BFloat16>(data, rows.dtype(), size);
    } else {
      ConvertInPlace<float>(data, rows.dtype(), size);
    }
  }
  const int64_t row_bytes = weight.in_features * DTypeBytes(weight.dtype);
  stream_->CopyToDevice(static_cast<char*>(weight.data) + first_row * row_bytes, data, bytes);
  stream_->Record(*piece.copied);
  return absl::OkStatus();
}

absl::Status WeightUploader::Finish() { return stream_->Synchronize(); }

}  // namespace quire::cuda
