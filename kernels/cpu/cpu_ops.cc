#include "kernels/cpu/cpu_ops.h"

#include "kernels/cpu/runtime/cpu_stream.h"
#include "kernels/cpu/runtime/free_ops.h"
#include "kernels/cpu/sampling/sampling.h"

namespace quire::cpu {

// Enqueues `compute`, which shares its rows among the pool's threads.
template <typename Args>
void CpuOps::OnPool(Stream& stream, const Args& args, void (*compute)(const Args&, ThreadPool&)) {
  CpuStream::From(stream).Enqueue([args, compute, pool = &pool_] { compute(args, *pool); });
}

void CpuOps::Enqueue(Stream& stream, const LinearArgs& args) {
  CpuStream::From(stream).Enqueue(
      [args, gemm = &gemm_, pool = &pool_] { gemm->Linear(args, *pool); });
}
void CpuOps::Enqueue(Stream& stream, const GatedLinearArgs& args) {
  Enqueue(stream, args.Linear());
  Enqueue(stream, args.Activate());
}
void CpuOps::Enqueue(Stream& stream, const SampleArgs& args) { OnPool(stream, args, cpu::Sample); }

#define QUIRE_OP(name) \
  void CpuOps::Enqueue(Stream& stream, const name##Args& args) { OnPool(stream, args, cpu::name); }
QUIRE_FREE_OPS(QUIRE_OP)
#undef QUIRE_OP

}  // namespace quire::cpu
