// WeightStore: how a backend keeps weight matrices: their sizes, loading, random filling, the
// format they get in the end, and how gemms with them are best computed. Used while a model is
// loaded, before serving, by the engine thread; CreateLoader by any number of threads.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/base/progress.h"
#include "kernels/device.h"
#include "kernels/linear_weight.h"

namespace quire {

// Random weights that depend on (seed, tensor_id, row, column) only: normal with this deviation.
struct FillWeightArgs {
  uint64_t seed;
  uint64_t tensor_id;
  float stddev;
};

// Rows of a quantized weight, in host memory.
struct QuantizedRows {
  int64_t num_rows = 0;
  // [num_rows, CodeRowBytes] (packed_codes.h): unsigned integers, e4m3 or e2m1. The codes of an
  // ordered weight are sorted by group.
  const uint8_t* codes = nullptr;
  const void* scales = nullptr;          // [num_rows, num_groups], as the format's ScaleValue says
  const float* row_scales = nullptr;     // [num_rows], of scales in kFloat8
  const uint8_t* zero_points = nullptr;  // [num_rows, num_groups], if the format has them
  const int32_t* order = nullptr;        // [in_features]: the columns, of an ordered weight
};

// One thread's way of bringing rows of weights to the device: the caller reads a file straight into
// Staging(), memory that the device copies from, and hands it over. Two pieces take turns, so that
// one is filled while the other travels. Threads that load side by side have one each and write
// disjoint rows.
class RowLoader {
 public:
  virtual ~RowLoader() = default;
  // Host memory of the bytes asked for, to be filled before the next Load. Waits until the device
  // has taken what this piece held before.
  virtual absl::StatusOr<void*> Staging() = 0;
  // Converts `rows` ([num_rows, in_features], any float dtype), which lie in the staging memory, to
  // rows [first_row, first_row + num_rows) of the weight. They may be columns of wider rows
  // (Tensor::WithRowStride): so a weight gets a range of a file's rows, of its columns, or of both.
  // The converted rows may be no larger than the staging memory. INVALID_ARGUMENT when they do not
  // fit the weight.
  virtual absl::Status Load(const LinearWeight& weight, int64_t first_row, const Tensor& rows) = 0;
  // The same of a quantized weight; `rows` may lie anywhere, and may be changed when it returns.
  virtual absl::Status LoadQuantized(const LinearWeight& weight, int64_t first_row,
                                     const QuantizedRows& rows) = 0;
  // Waits until everything has arrived.
  virtual absl::Status Finish() = 0;
};

// One kind of gemm of a model, for choosing how to compute it.
struct LinearGroup {
  std::vector<const LinearWeight*> weights = {};  // of one shape; a layer's each
  Tensor bias = {};                               // one of theirs, or empty
  bool float8_x = false;                          // x is Float8Rows, else of the weights' dtype
  DType out_dtype = DType::kBF16;
  bool gated = false;        // computed by GatedLinear
  int64_t max_num_rows = 1;  // of x
};

class WeightStore {
 public:
  virtual ~WeightStore() = default;

  // The formats that a linear operation of such a checkpoint (with experts or not) gets here, for
  // activations of this type: its weight's format, or kFloat if there are no gemms for it;
  // activations become what the checkpoint asks for, or are multiplied as they are, which is more
  // exact.
  virtual LinearFormat FormatFor(const LinearFormat& format, DType activations,
                                 bool has_experts) const = 0;

  // Bytes of a weight in this backend's layout before it is sealed, padding included. Its data is
  // not looked at.
  virtual int64_t BytesOf(const LinearWeight& weight) const = 0;

  // Any thread. RESOURCE_EXHAUSTED when there is no memory for staging.
  virtual absl::StatusOr<std::unique_ptr<RowLoader>> CreateLoader(int64_t staging_bytes) = 0;

  virtual void Fill(Stream& stream, const LinearWeight& weight, const FillWeightArgs& args) = 0;

  // Gives these weights their final format, once all rows are there and before they are used or
  // copied. No bit of their results changes. `weights`, in the order of their addresses, are the
  // last things in `memory`. If they take less room in the final format, they move together and the
  // memory behind them is given back. The weights, `weights` and `memory` stay where they are until
  // the stream has been waited for; then they have changed. `progress` may be null.
  virtual void Seal(Stream& stream, const std::vector<LinearWeight*>& weights, DeviceBuffer* memory,
                    Progress* progress) = 0;

  // Chooses how these gemms are computed, by measuring if that pays (at most some seconds, or less
  // if a file has the results of an earlier start). Called before capture, with the weights in
  // place and room for the largest x and out. It is no error to choose nothing, but a device that
  // fails is one. `progress` may be null.
  virtual absl::Status Tune(Stream& stream, const std::vector<LinearGroup>& groups,
                            Progress* progress) = 0;
};

}  // namespace quire
