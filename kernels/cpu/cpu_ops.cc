#include "kernels/cpu/cpu_ops.h"

#include "kernels/cpu/runtime/activation_dtypes.h"
#include "kernels/cpu/runtime/cpu_stream.h"
#include "kernels/cpu/runtime/free_ops.h"
#include "kernels/cpu/sampling/sampling.h"

namespace quire::cpu {

namespace {

// Operations that compute nothing take any dtype.
template <typename Args>
void CheckDTypes(const Args&) {}

void CheckDTypes(const LinearArgs& args) {
  CheckActivationDType(args.x.dtype());
  CheckActivationDType(args.weight->dtype);
  CheckActivationDType(args.bias.dtype());
}
void CheckDTypes(const EmbeddingArgs& args) { CheckActivationDType(args.table->dtype); }
void CheckDTypes(const RmsNormArgs& args) {
  CheckActivationDType(args.x.dtype());
  CheckActivationDType(args.weight.dtype());
  CheckActivationDType(args.float8_out.dtype());
}
void CheckDTypes(const StoreHeadsArgs& args) {
  CheckActivationDType(args.x.dtype());
  if (!IsFloat8(args.kv_cache.dtype)) CheckActivationDType(args.kv_cache.dtype);
  for (const HeadsArgs* heads : {&args.q, &args.k, &args.v}) {
    CheckActivationDType(heads->norm_weight.dtype());
  }
}
void CheckDTypes(const GateArgs& args) { CheckActivationDType(args.x.dtype()); }
void CheckDTypes(const GatedActivationArgs& args) { CheckActivationDType(args.out.dtype()); }
void CheckDTypes(const AddArgs& args) { CheckActivationDType(args.x.dtype()); }
void CheckDTypes(const ScaleArgs& args) { CheckActivationDType(args.x.dtype()); }
void CheckDTypes(const SoftCapArgs& args) { CheckActivationDType(args.x.dtype()); }
void CheckDTypes(const GatedDeltaArgs& args) {
  CheckActivationDType(args.qkvz.dtype());
  CHECK(args.state.dtype == DType::kF32)
      << "the CPU keeps recurrent states in float32, not " << DTypeName(args.state.dtype);
}
template <typename Args>
void CheckExperts(const Args& args) {
  CheckActivationDType(args.x.dtype());
  CHECK(!args.weight->is_compressed()) << "experts are multiplied as they are";
}

}  // namespace

// Enqueues `compute`, which shares its rows among the pool's threads.
template <typename Args>
void CpuOps::OnPool(Stream& stream, const Args& args, void (*compute)(const Args&, ThreadPool&)) {
  CheckDTypes(args);
  CpuStream::From(stream).Enqueue([args, compute, pool = &pool_] { compute(args, *pool); });
}

void CpuOps::Enqueue(Stream& stream, const LinearArgs& args) {
  CheckDTypes(args);
  CpuStream::From(stream).Enqueue([this, args] {
    if (args.weight->format.quantized()) {
      quantized_gemm_.Linear(args, pool_);
    } else {
      gemm_.Linear(args, pool_);
    }
  });
}
void CpuOps::Enqueue(Stream& stream, const GatedLinearArgs& args) {
  Enqueue(stream, args.Linear());
  Enqueue(stream, args.Activate());
}
void CpuOps::Enqueue(Stream& stream, const ExpertsGatedLinearArgs& args) {
  CheckExperts(args);
  CpuStream::From(stream).Enqueue([this, args] { experts_gemm_.GatedLinear(args, pool_); });
}
void CpuOps::Enqueue(Stream& stream, const ExpertsLinearArgs& args) {
  CheckExperts(args);
  CpuStream::From(stream).Enqueue([this, args] { experts_gemm_.Linear(args, pool_); });
}
void CpuOps::Enqueue(Stream& stream, const SampleArgs& args) { OnPool(stream, args, cpu::Sample); }

#define QUIRE_OP(name) \
  void CpuOps::Enqueue(Stream& stream, const name##Args& args) { OnPool(stream, args, cpu::name); }
QUIRE_FREE_OPS(QUIRE_OP)
#undef QUIRE_OP

}  // namespace quire::cpu
