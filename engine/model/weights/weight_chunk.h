// WeightChunk: the rows of one tensor of a checkpoint that a thread reads at once, and where they
// go; or all of a quantized module. Used while loading; by any number of threads, each with its own
// chunks.
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
  LinearWeight weight;      // one expert's weight, if there are several
  const WeightPart* part;   // of the plan
  int64_t first_row;        // row of the weight at which the part begins
  int64_t num_rows;         // of the part
  int64_t source_row = 0;   // first row of the part
  int64_t expert = 0;       // index among the experts that are stacked in the tensor
  Checkpoint::Entry entry;  // for floats
  std::optional<QuantizedModule> module = {};

  int64_t Bytes() const;  // in the file
  // Bytes of host memory that RowLoader needs for it.
  int64_t StagingBytes() const;
  // Converted rows that are in host memory at a time.
  int64_t RowsAtOnce() const;
  int64_t RowBytes() const { return weight.in_features * DTypeBytes(*entry.tensor->dtype); }
  // Whether the tensor has rows in another order than the weight, or columns in their place.
  bool IsRearranged() const { return part->transposed || !part->turns.empty(); }
};

// The chunks of a plan whose weights have their memory. The plan must outlive them.
absl::StatusOr<std::vector<WeightChunk>> SplitIntoChunks(const WeightPlan& plan,
                                                         const Checkpoint& checkpoint);

// Quantized modules become codes, or the codes' values if the weight's format is kFloat. Floats
// become codes if the weight's format is not kFloat.
absl::Status ReadChunk(const WeightChunk& chunk, RowLoader& loader);

// For float32, bfloat16 or float16.
void ConvertToFloat(const void* in, DType dtype, int64_t size, float* out);

}  // namespace quire
