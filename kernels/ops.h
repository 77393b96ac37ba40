// Ops: the operations a model step is spelled in, one virtual call each; implemented by the CPU and
// the CUDA backend. A call enqueues work on the stream and returns; shapes are checked on the way
// in. Results of a row (token) do not depend on the other rows of the call on the CPU. Used by the
// engine thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/attention.h"
#include "kernels/base/progress.h"
#include "kernels/device.h"
#include "kernels/op_args.h"
#include "kernels/sampling.h"

namespace quire {

// Random weights that depend on (seed, tensor_id, row, column) only: normal with this deviation.
struct FillLinearArgs {
  uint64_t seed;
  uint64_t tensor_id;
  float stddev;
};

// One thread's way of bringing rows of weights to the device while a model is loaded: the caller
// reads a file straight into Staging(), memory that the device copies from, and hands it over. Two
// pieces take turns, so that one is filled while the other travels. Threads that load side by side
// have one each and write disjoint rows.
class RowLoader {
 public:
  virtual ~RowLoader() = default;
  // Host memory of the bytes asked for, to be filled before the next Load. Waits until the device
  // has taken what this piece held before.
  virtual absl::StatusOr<void*> Staging() = 0;
  // Converts `rows` ([num_rows, in_features] without gaps, any float dtype), which begin where
  // Staging() said, to rows [first_row, first_row + num_rows) of the weight. Neither the rows nor
  // what they become may be larger than the staging memory. INVALID_ARGUMENT when they do not fit
  // the weight.
  virtual absl::Status Load(const LinearWeight& weight, int64_t first_row, const Tensor& rows) = 0;
  // Waits until everything has arrived.
  virtual absl::Status Finish() = 0;
};

// One kind of product of a model, for choosing how to compute it.
struct LinearProduct {
  std::vector<const LinearWeight*> weights = {};  // of one shape; a layer's each
  Tensor bias = {};                               // one of theirs, or empty
  DType out_dtype = DType::kBF16;
  int64_t max_num_rows = 1;  // of x
};

class Ops {
 public:
  virtual ~Ops() = default;

  // Chooses how Linear computes these products, by measuring where that pays (at most some seconds;
  // less when a file has it from before). Before capture, with the weights in place and room for
  // the largest x and out. Choosing nothing is not an error; a device that fails is. `progress` may
  // be null.
  virtual absl::Status TuneLinear(Stream& stream, const std::vector<LinearProduct>& products,
                                  Progress* progress) = 0;

  // Bytes of a weight in this backend's layout (padding included).
  virtual int64_t LinearBytes(int64_t out_features, int64_t in_features, DType dtype) const = 0;
  // Any thread. RESOURCE_EXHAUSTED when there is no memory for staging.
  virtual absl::StatusOr<std::unique_ptr<RowLoader>> CreateRowLoader(int64_t staging_bytes) = 0;
  virtual void FillLinear(Stream& stream, const LinearWeight& weight,
                          const FillLinearArgs& args) = 0;
  // Once all rows of these weights are there, and before they are used or copied: the backend may
  // rewrite them to be read faster. Not a bit of what they compute changes. `weights`, in the order
  // of their addresses, are the last things in `memory`; where they take less room, they move
  // together and the memory behind them is given back. They, `weights` and `memory` stay where they
  // are until the stream has been waited for; they have changed then. `progress` may be null.
  virtual void SealLinears(Stream& stream, const std::vector<LinearWeight*>& weights,
                           DeviceBuffer* memory, Progress* progress) = 0;

  virtual void Embedding(Stream& stream, const EmbeddingArgs& args) = 0;
  virtual void RmsNorm(Stream& stream, const RmsNormArgs& args) = 0;
  virtual void Linear(Stream& stream, const LinearArgs& args) = 0;
  virtual void RopeAndStoreKv(Stream& stream, const RopeAndStoreKvArgs& args) = 0;
  virtual void GatedActivation(Stream& stream, const GatedActivationArgs& args) = 0;
  virtual void GatedLinear(Stream& stream, const GatedLinearArgs& args) = 0;
  virtual void Scale(Stream& stream, const ScaleArgs& args) = 0;
  virtual void SoftCap(Stream& stream, const SoftCapArgs& args) = 0;
  virtual void GatherRows(Stream& stream, const GatherRowsArgs& args) = 0;
  virtual void UpdateBlockTables(Stream& stream, const UpdateBlockTablesArgs& args) = 0;
  virtual void ResetTokenCounts(Stream& stream, const ResetTokenCountsArgs& args) = 0;
  virtual void Sample(Stream& stream, const SampleArgs& args) = 0;
};

}  // namespace quire
