// CpuOps: Ops on the CPU. Each call enqueues one task, which calls the operation's free function on
// the stream's thread. Used by the engine's thread.
#pragma once

#include "kernels/cpu/experts/experts_gemm.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/gemm/quantized/quantized_gemm.h"
#include "kernels/cpu/runtime/isa.h"
#include "kernels/cpu/runtime/thread_pool.h"
#include "kernels/ops.h"

namespace quire::cpu {

class CpuOps : public Ops {
 public:
  // The pool must outlive this and every task enqueued through it.
  CpuOps(Isa isa, ThreadPool& pool) : pool_(pool), gemm_(isa), quantized_gemm_(isa) {}

  const Gemm& gemm() const { return gemm_; }

 private:
#define QUIRE_OP(name) void Enqueue(Stream& stream, const name##Args& args) override;
  QUIRE_OPS(QUIRE_OP)
#undef QUIRE_OP

  template <typename Args>
  void OnPool(Stream& stream, const Args& args, void (*compute)(const Args&, ThreadPool&));

  ThreadPool& pool_;
  // Used by the tasks, one after the other.
  Gemm gemm_;
  QuantizedGemm quantized_gemm_;
  ExpertsGemm experts_gemm_{gemm_, quantized_gemm_};
};

}  // namespace quire::cpu
