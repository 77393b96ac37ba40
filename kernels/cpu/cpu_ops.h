// CpuOps: Ops on the CPU. Each call enqueues one task, which calls the operation's free function on
// the stream's thread. Used by the engine's thread.
#pragma once

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/ops.h"

namespace quire::cpu {

class CpuOps : public Ops {
 public:
  // The pool must outlive this and every task enqueued through it.
  CpuOps(Isa isa, ThreadPool& pool) : pool_(pool), gemm_(isa) {}

  const Gemm& gemm() const { return gemm_; }

 private:
  void Enqueue(Stream& stream, const EmbeddingArgs& args) override;
  void Enqueue(Stream& stream, const RmsNormArgs& args) override;
  void Enqueue(Stream& stream, const LinearArgs& args) override;
  void Enqueue(Stream& stream, const RopeAndStoreKvArgs& args) override;
  void Enqueue(Stream& stream, const GatedActivationArgs& args) override;
  void Enqueue(Stream& stream, const GatedLinearArgs& args) override;
  void Enqueue(Stream& stream, const ScaleArgs& args) override;
  void Enqueue(Stream& stream, const SoftCapArgs& args) override;
  void Enqueue(Stream& stream, const GatherRowsArgs& args) override;
  void Enqueue(Stream& stream, const UpdateBlockTablesArgs& args) override;
  void Enqueue(Stream& stream, const ResetTokenCountsArgs& args) override;
  void Enqueue(Stream& stream, const SampleArgs& args) override;
  void Enqueue(Stream& stream, const MergeStateArgs& args) override;
  void Enqueue(Stream& stream, const MergeStatesArgs& args) override;

  template <typename Args>
  void OnPool(Stream& stream, const Args& args, void (*compute)(const Args&, ThreadPool&));

  ThreadPool& pool_;
  Gemm gemm_;  // used by the tasks, one after the other
};

}  // namespace quire::cpu
