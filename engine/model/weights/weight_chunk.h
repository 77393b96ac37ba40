// WeightChunk: rows of one tensor of a checkpoint and where they go, so many as a thread reads at
// once; or all of a quantized module. Used while loading; by any number of threads, each with
// chunks of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/model/weights/quantized_module.h"
#include "engine/model/weights/weight_plan.h"
#include "kernels/weight_store.h"

namespace quire {

struct WeightChunk {
  LinearWeight weight;      // one expert's, where there are several
  const WeightPart* part;   // of the plan
  int64_t first_row;        // where the part begins in the weight
  int64_t num_rows;         // of the part
  int64_t source_row = 0;   // of the part, the first
  int64_t expert = 0;       // of those that are stacked in the tensor
  Checkpoint::Entry entry;  // of floats
  std::optional<QuantizedModule> module = {};

  int64_t Bytes() const;  // in the file
  // That RowLoader needs for it.
  int64_t StagingBytes() const;
  // Rows that are kept in host memory as they become, at a time.
  int64_t RowsAtOnce() const;
  int64_t RowBytes() const { return weight.in_features * DTypeBytes(*entry.tensor->dtype); }
  // Whether the tensor has rows in another order than the weight, or columns in their place.
  bool IsRearranged() const { return part->transposed || !part->turns.empty(); }
};

// Of a plan whose weights have their memory. It must outlive them.
absl::StatusOr<std::vector<WeightChunk>> SplitIntoChunks(const WeightPlan& plan,
                                                         const Checkpoint& checkpoint);

// Quantized modules become codes, or the values that they stand for where the weight's format is
// kFloat; floats become codes where it is not.
absl::Status ReadChunk(const WeightChunk& chunk, RowLoader& loader);

// Of float32, bfloat16 or float16.
void ConvertToFloat(const void* in, DType dtype, int64_t size, float* out);

}  // namespace quire
