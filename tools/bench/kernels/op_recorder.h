// OpRecorder: a Backend that passes everything on to another and remembers each operation with the
// memory and arithmetic it needs, so that a benchmark can run the operations of a real step, one
// kind at a time, on the step's own tensors. One thread; the arguments' memory must stay.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.h"

namespace quire::bench {

struct RecordedOp {
  std::string name;   // "linear"
  std::string shape;  // "64 x 6144 x 4096"; calls of one name and shape are alike
  double bytes;       // bytes that must be read and written
  double flops;       // of gemms
  std::function<void(Stream&)> run;
};

// The lengths of the current batch, which the device's metadata has; the host cannot see them
// there.
struct BatchLengths {
  std::vector<int32_t> query_lens;
  std::vector<int32_t> seq_lens;
};
// For one layer's attention: the bytes of K and V, counted once, and the FLOPs of the visible
// pairs.
double AttentionKvBytes(const AttentionGeometry& geometry, const BatchLengths& lengths);
double AttentionFlops(const AttentionGeometry& geometry, const BatchLengths& lengths);

class OpRecorder : public Backend {
 public:
  explicit OpRecorder(Backend& backend);
  ~OpRecorder() override;

  Device& device() override { return backend_.device(); }
  Ops& ops() override;
  WeightStore& weight_store() override { return backend_.weight_store(); }
  // The native path, with every operation recorded; the others are passed on as they are.
  AttentionBackend* attention(AttentionPath path) override;

  // Sets the lengths for the attention calls that follow.
  void SetLengths(BatchLengths lengths) { lengths_ = std::move(lengths); }
  // The operations recorded since the last call.
  std::vector<RecordedOp> Take() { return std::exchange(recorded_, {}); }

 private:
  class RecordingOps;
  class RecordingPlan;
  class RecordingAttention;

  Backend& backend_;
  BatchLengths lengths_;
  std::vector<RecordedOp> recorded_;
  std::unique_ptr<RecordingOps> ops_;
  std::unique_ptr<RecordingAttention> attention_;
};

}  // namespace quire::bench
