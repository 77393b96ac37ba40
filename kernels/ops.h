// Ops: the operations a model step is spelled in; implemented by the CPU and the CUDA backend. A
// call checks the shapes and dtypes of its arguments (a misfit is a programmer's error and fails a
// CHECK), enqueues work on the stream and returns. Results of a row (token) do not depend on the
// other rows of the call on the CPU. Used by the engine thread. kernels/README.md says how to add
// one.
#pragma once

#include "kernels/arg_checks.h"
#include "kernels/device.h"
#include "kernels/op_args.h"
#include "kernels/sampling.h"

namespace quire {

class Ops {
 public:
  virtual ~Ops() = default;

  void Embedding(Stream& stream, const EmbeddingArgs& args) { Checked(stream, args); }
  void RmsNorm(Stream& stream, const RmsNormArgs& args) { Checked(stream, args); }
  void Linear(Stream& stream, const LinearArgs& args) { Checked(stream, args); }
  void RopeAndStoreKv(Stream& stream, const RopeAndStoreKvArgs& args) { Checked(stream, args); }
  void GatedActivation(Stream& stream, const GatedActivationArgs& args) { Checked(stream, args); }
  void GatedLinear(Stream& stream, const GatedLinearArgs& args) { Checked(stream, args); }
  void Scale(Stream& stream, const ScaleArgs& args) { Checked(stream, args); }
  void SoftCap(Stream& stream, const SoftCapArgs& args) { Checked(stream, args); }
  void GatherRows(Stream& stream, const GatherRowsArgs& args) { Checked(stream, args); }
  void UpdateBlockTables(Stream& stream, const UpdateBlockTablesArgs& args) {
    Checked(stream, args);
  }
  void ResetTokenCounts(Stream& stream, const ResetTokenCountsArgs& args) { Checked(stream, args); }
  void Sample(Stream& stream, const SampleArgs& args) { Checked(stream, args); }
  void MergeState(Stream& stream, const MergeStateArgs& args) { Checked(stream, args); }
  void MergeStates(Stream& stream, const MergeStatesArgs& args) { Checked(stream, args); }

 protected:
  // What each backend does, with arguments that fit.
  virtual void Enqueue(Stream& stream, const EmbeddingArgs& args) = 0;
  virtual void Enqueue(Stream& stream, const RmsNormArgs& args) = 0;
  virtual void Enqueue(Stream& stream, const LinearArgs& args) = 0;
  virtual void Enqueue(Stream& stream, const RopeAndStoreKvArgs& args) = 0;
  virtual void Enqueue(Stream& stream, const GatedActivationArgs& args) = 0;
  virtual void Enqueue(Stream& stream, const GatedLinearArgs& args) = 0;
  virtual void Enqueue(Stream& stream, const ScaleArgs& args) = 0;
  virtual void Enqueue(Stream& stream, const SoftCapArgs& args) = 0;
  virtual void Enqueue(Stream& stream, const GatherRowsArgs& args) = 0;
  virtual void Enqueue(Stream& stream, const UpdateBlockTablesArgs& args) = 0;
  virtual void Enqueue(Stream& stream, const ResetTokenCountsArgs& args) = 0;
  virtual void Enqueue(Stream& stream, const SampleArgs& args) = 0;
  virtual void Enqueue(Stream& stream, const MergeStateArgs& args) = 0;
  virtual void Enqueue(Stream& stream, const MergeStatesArgs& args) = 0;

 private:
  template <typename Args>
  void Checked(Stream& stream, const Args& args) {
    CheckArgs(args);
    Enqueue(stream, args);
  }
};

}  // namespace quire
