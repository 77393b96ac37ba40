#include "kernels/cuda/gemm/weight_uploader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/base/check.h"
#include "kernels/base/half.h"
#include "kernels/base/status_macros.h"
#include "kernels/base/types.h"
#include "kernels/cuda/gemm/quantized/pack_weights.h"
#include "kernels/cuda/runtime/cuda_stream.h"
#include "kernels/packed_codes.h"
#include "kernels/weight_checks.h"

namespace quire::cuda {

namespace {

constexpr int64_t kPlaneAlign = 256;

// Converts `size` elements in place. It goes forwards if elements shrink and backwards if they
// grow, so that no element is overwritten before it has been read.
template <typename In, typename Out>
void ConvertInPlace(char* data, int64_t size) {
  for (int64_t step = 0; step < size; ++step) {
    const int64_t i = sizeof(Out) > sizeof(In) ? size - 1 - step : step;
    In in;
    std::memcpy(&in, data + i * sizeof(In), sizeof(In));
    const Out out(static_cast<float>(in));
    std::memcpy(data + i * sizeof(Out), &out, sizeof(Out));
  }
}

template <typename Out>
void ConvertInPlace(char* data, DType from, int64_t size) {
  switch (from) {
    case DType::kF32:
      return ConvertInPlace<float, Out>(data, size);
    case DType::kBF16:
      return ConvertInPlace<BFloat16, Out>(data, size);
    case DType::kF16:
      return ConvertInPlace<Float16, Out>(data, size);
    default:
      CHECK(false) << "cannot convert " << DTypeName(from) << " to a weight";
  }
}

void ConvertInPlace(char* data, DType from, DType to, int64_t size) {
  switch (to) {
    case DType::kF32:
      return ConvertInPlace<float>(data, from, size);
    case DType::kBF16:
      return ConvertInPlace<BFloat16>(data, from, size);
    case DType::kF16:
      return ConvertInPlace<Float16>(data, from, size);
    default:
      CHECK(false) << "a weight cannot be " << DTypeName(to);
  }
}

// Brings rows in the staging memory to its front, without the gaps between them.
void MoveTogether(const Tensor& rows, char* staging, int64_t staging_bytes) {
  const int64_t row_bytes = rows.dim(1) * DTypeBytes(rows.dtype());
  const int64_t stride_bytes = rows.row_stride() * DTypeBytes(rows.dtype());
  const auto* from = static_cast<const char*>(rows.data());
  CHECK(from >= staging &&
        from + (rows.dim(0) - 1) * stride_bytes + row_bytes <= staging + staging_bytes)
      << "rows that are not in the staging memory";
  if (from == staging && stride_bytes == row_bytes) return;
  for (int64_t i = 0; i < rows.dim(0); ++i) {
    std::memmove(staging + i * row_bytes, from + i * stride_bytes, row_bytes);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<WeightUploader>> WeightUploader::Create(CudaDevice& device,
                                                                       int64_t staging_bytes) {
  device.BindThread();
  std::unique_ptr<WeightUploader> uploader(new WeightUploader(device));
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
  auto* const data = piece.pinned.as<char>();
  CHECK_LE(std::max(bytes, size * DTypeBytes(rows.dtype())), piece.pinned.size_bytes());
  MoveTogether(rows, data, piece.pinned.size_bytes());
  if (rows.dtype() != weight.dtype) ConvertInPlace(data, rows.dtype(), weight.dtype, size);
  const int64_t row_bytes = weight.in_features * DTypeBytes(weight.dtype);
  stream_->CopyToDevice(static_cast<char*>(weight.data) + first_row * row_bytes, data, bytes);
  stream_->Record(*piece.copied);
  return absl::OkStatus();
}

absl::Status WeightUploader::LoadQuantized(const LinearWeight& weight, int64_t first_row,
                                           const QuantizedRows& rows) {
  RETURN_IF_ERROR(CheckQuantizedRows(weight, first_row, rows));
  if (rows.num_rows == 0) return absl::OkStatus();
  Piece& piece = pieces_[current_];
  current_ = (current_ + 1) % kNumPieces;
  RETURN_IF_ERROR(piece.copied->Wait());
  const int64_t num_groups = rows.num_rows * NumGroups(weight.format, weight.in_features);
  const std::pair<const void*, int64_t> planes[] = {
      {rows.codes, rows.num_rows * CodeRowBytes(weight.format.value, weight.in_features)},
      {rows.scales, num_groups * BytesOf(weight.format.scale)},
      {rows.row_scales, rows.num_rows * int64_t{sizeof(float)}},
      {rows.zero_points, num_groups},
      {rows.order, weight.in_features * int64_t{sizeof(int32_t)}}};
  int64_t bytes = 0;
  for (const auto& [from, size] : planes) bytes += from == nullptr ? 0 : RoundUp(size, kPlaneAlign);
  if (piece.packed_from.size_bytes() < bytes) {
    ASSIGN_OR_RETURN(piece.gathered, device_.AllocatePinned(bytes));
    ASSIGN_OR_RETURN(piece.packed_from, device_.Allocate(bytes));
  }
  int64_t at = 0;
  const auto place = [&](int plane) -> const void* {
    const auto& [from, size] = planes[plane];
    if (from == nullptr) return nullptr;
    std::memcpy(piece.gathered.as<char>() + at, from, size);
    const void* const on_device = piece.packed_from.as<char>() + at;
    at += RoundUp(size, kPlaneAlign);
    return on_device;
  };
  QuantizedRows on_device = {.num_rows = rows.num_rows};
  on_device.codes = static_cast<const uint8_t*>(place(0));
  on_device.scales = place(1);
  on_device.row_scales = static_cast<const float*>(place(2));
  on_device.zero_points = static_cast<const uint8_t*>(place(3));
  on_device.order = static_cast<const int32_t*>(place(4));
  stream_->CopyToDevice(piece.packed_from.data(), piece.gathered.data(), bytes);
  CudaStream::From(*stream_).Run(
      "packing weights", [&](cudaStream_t s) { LaunchPackRows(weight, first_row, on_device, s); });
  stream_->Record(*piece.copied);
  return absl::OkStatus();
}

absl::Status WeightUploader::Finish() { return stream_->Synchronize(); }

}  // namespace quire::cuda
