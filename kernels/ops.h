// Ops: the operations a model step is spelled in; implemented by the CPU and the CUDA backend. A
// call checks the shapes and dtypes of its arguments (a misfit is a programmer's error and fails a
// CHECK), enqueues work on the stream and returns. Results of a row (token) do not depend on the
// other rows of the call on the CPU. Used by the engine thread. kernels/README.md says how to add
// one; op_list.h lists them.
#pragma once

#include "kernels/arg_checks.h"
#include "kernels/device.h"
#include "kernels/experts.h"
#include "kernels/gated_delta.h"
#include "kernels/op_args.h"
#include "kernels/op_list.h"
#include "kernels/sampling.h"

namespace quire {

class Ops {
 public:
  virtual ~Ops() = default;

#define QUIRE_OP(name) \
  void name(Stream& stream, const name##Args& args) { Checked(stream, args); }
  QUIRE_OPS(QUIRE_OP)
#undef QUIRE_OP

 protected:
  // Each backend overrides these; the arguments are checked already.
#define QUIRE_OP(name) virtual void Enqueue(Stream& stream, const name##Args& args) = 0;
  QUIRE_OPS(QUIRE_OP)
#undef QUIRE_OP

 private:
  template <typename Args>
  void Checked(Stream& stream, const Args& args) {
    CheckArgs(args);
    Enqueue(stream, args);
  }
};

}  // namespace quire
