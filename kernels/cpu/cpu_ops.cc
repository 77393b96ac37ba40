#include "kernels/cpu/cpu_ops.h"

#include "kernels/arg_checks.h"
#include "kernels/base/status_macros.h"
#include "kernels/cpu/compression.h"
#include "kernels/cpu/cpu_stream.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/embedding.h"
#include "kernels/cpu/packing.h"
#include "kernels/cpu/rope.h"
#include "kernels/cpu/sampler.h"

namespace quire::cpu {

namespace {

// Packs at once: the staging memory is free again when Load returns.
class PackingLoader : public RowLoader {
 public:
  explicit PackingLoader(int64_t staging_bytes) : staging_(new char[staging_bytes]) {}
  absl::StatusOr<void*> Staging() override { return staging_.get(); }
  absl::Status Load(const LinearWeight& weight, int64_t first_row, const Tensor& rows) override {
    RETURN_IF_ERROR(CheckWeightRows(weight, first_row, rows));
    PackRows(weight, first_row, rows);
    return absl::OkStatus();
  }
  absl::Status Finish() override { return absl::OkStatus(); }

 private:
  const std::unique_ptr<char[]> staging_;
};

}  // namespace

// There is one way to compute a product here.
absl::Status CpuOps::TuneLinear(Stream&, const std::vector<LinearProduct>& products) {
  for (const LinearProduct& product : products) CheckProduct(product);
  return absl::OkStatus();
}

int64_t CpuOps::LinearBytes(int64_t out_features, int64_t in_features, DType dtype) const {
  return PackedBytes(out_features, in_features, dtype);
}

absl::StatusOr<std::unique_ptr<RowLoader>> CpuOps::CreateRowLoader(int64_t staging_bytes) {
  return std::make_unique<PackingLoader>(staging_bytes);
}

void CpuOps::FillLinear(Stream& stream, const LinearWeight& weight, const FillLinearArgs& args) {
  CheckWeight(weight);
  CpuStream::From(stream).Enqueue(
      [weight, args, pool = &pool_] { FillNormal(weight, args, *pool); });
}

void CpuOps::SealLinear(Stream& stream, LinearWeight* weight) {
  // Smaller ones belong to models that the caches hold, where expanding takes longer than reading.
  constexpr int64_t kMinBytes = int64_t{2} << 20;
  CheckWeight(*weight);
  if (!compress_weights_ || !gemm_.can_expand() ||
      LinearBytes(weight->out_features, weight->in_features, weight->dtype) < kMinBytes) {
    return;
  }
  CpuStream::From(stream).Enqueue([weight, pool = &pool_] { Compress(*weight, *pool); });
}

void CpuOps::Embedding(Stream& stream, const EmbeddingArgs& args) {
  CheckArgs(args);
  CpuStream::From(stream).Enqueue([args, pool = &pool_] { cpu::Embedding(args, *pool); });
}

void CpuOps::RmsNorm(Stream& stream, const RmsNormArgs& args) {
  CheckArgs(args);
  CpuStream::From(stream).Enqueue([args, pool = &pool_] { cpu::RmsNorm(args, *pool); });
}

void CpuOps::Linear(Stream& stream, const LinearArgs& args) {
  CheckArgs(args);
  CpuStream::From(stream).Enqueue(
      [args, gemm = &gemm_, pool = &pool_] { gemm->Linear(args, *pool); });
}

void CpuOps::RopeAndStoreKv(Stream& stream, const RopeAndStoreKvArgs& args) {
  CheckArgs(args);
  CpuStream::From(stream).Enqueue([args, pool = &pool_] { cpu::RopeAndStoreKv(args, *pool); });
}

void CpuOps::GatedActivation(Stream& stream, const GatedActivationArgs& args) {
  CheckArgs(args);
  CpuStream::From(stream).Enqueue([args, pool = &pool_] { cpu::GatedActivation(args, *pool); });
}

void CpuOps::GatedLinear(Stream& stream, const GatedLinearArgs& args) {
  Linear(stream, args.Product());
  GatedActivation(stream, args.Activate());
}

void CpuOps::Scale(Stream& stream, const ScaleArgs& args) {
  CheckArgs(args);
  CpuStream::From(stream).Enqueue([args, pool = &pool_] { cpu::Scale(args, *pool); });
}

void CpuOps::SoftCap(Stream& stream, const SoftCapArgs& args) {
  CheckArgs(args);
  CpuStream::From(stream).Enqueue([args, pool = &pool_] { cpu::SoftCap(args, *pool); });
}

void CpuOps::GatherRows(Stream& stream, const GatherRowsArgs& args) {
  CheckArgs(args);
  CpuStream::From(stream).Enqueue([args, pool = &pool_] { cpu::GatherRows(args, *pool); });
}

void CpuOps::UpdateBlockTables(Stream& stream, const UpdateBlockTablesArgs& args) {
  CpuStream::From(stream).Enqueue([args, pool = &pool_] { cpu::UpdateBlockTables(args, *pool); });
}

void CpuOps::ResetTokenCounts(Stream& stream, const ResetTokenCountsArgs& args) {
  CheckArgs(args);
  CpuStream::From(stream).Enqueue([args, pool = &pool_] { cpu::ResetTokenCounts(args, *pool); });
}

void CpuOps::Sample(Stream& stream, const SampleArgs& args) {
  CheckArgs(args);
  CpuStream::From(stream).Enqueue([args, pool = &pool_] { cpu::Sample(args, *pool); });
}

}  // namespace quire::cpu
