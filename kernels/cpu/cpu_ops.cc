#include "kernels/cpu/cpu_ops.h"

#include "kernels/cpu/cpu_stream.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/embedding.h"
#include "kernels/cpu/merge_states.h"
#include "kernels/cpu/rope.h"
#include "kernels/cpu/sampler.h"

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
  Enqueue(stream, args.Product());
  Enqueue(stream, args.Activate());
}
void CpuOps::Enqueue(Stream& stream, const EmbeddingArgs& args) {
  OnPool(stream, args, cpu::Embedding);
}
void CpuOps::Enqueue(Stream& stream, const RmsNormArgs& args) {
  OnPool(stream, args, cpu::RmsNorm);
}
void CpuOps::Enqueue(Stream& stream, const RopeAndStoreKvArgs& args) {
  OnPool(stream, args, cpu::RopeAndStoreKv);
}
void CpuOps::Enqueue(Stream& stream, const GatedActivationArgs& args) {
  OnPool(stream, args, cpu::GatedActivation);
}
void CpuOps::Enqueue(Stream& stream, const ScaleArgs& args) { OnPool(stream, args, cpu::Scale); }
void CpuOps::Enqueue(Stream& stream, const SoftCapArgs& args) {
  OnPool(stream, args, cpu::SoftCap);
}
void CpuOps::Enqueue(Stream& stream, const GatherRowsArgs& args) {
  OnPool(stream, args, cpu::GatherRows);
}
void CpuOps::Enqueue(Stream& stream, const UpdateBlockTablesArgs& args) {
  OnPool(stream, args, cpu::UpdateBlockTables);
}
void CpuOps::Enqueue(Stream& stream, const ResetTokenCountsArgs& args) {
  OnPool(stream, args, cpu::ResetTokenCounts);
}
void CpuOps::Enqueue(Stream& stream, const SampleArgs& args) { OnPool(stream, args, cpu::Sample); }
void CpuOps::Enqueue(Stream& stream, const MergeStateArgs& args) {
  OnPool(stream, args, cpu::MergeState);
}
void CpuOps::Enqueue(Stream& stream, const MergeStatesArgs& args) {
  OnPool(stream, args, cpu::MergeStates);
}

}  // namespace quire::cpu
