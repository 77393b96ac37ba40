#include "kernels/cpu/cpu_ops.h"

#include <cstring>
#include <utility>

#include "kernels/arg_checks.h"
#include "kernels/base/check.h"
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

// Smaller weights belong to models that the caches hold, where expanding takes longer than reading.
constexpr int64_t kMinCompressedBytes = int64_t{2} << 20;

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
absl::Status CpuOps::TuneLinear(Stream&, const std::vector<LinearProduct>& products, Progress*) {
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

void CpuOps::SealLinears(Stream& stream, const std::vector<LinearWeight*>& weights,
                         DeviceBuffer* memory, Progress* progress) {
  for (const LinearWeight* weight : weights) CheckWeight(*weight);
  if (!compress_weights_ || !gemm_.can_expand() || weights.empty()) return;
  CpuStream::From(stream).Enqueue(
      [this, weights = &weights, memory, progress] { CompressAll(*weights, memory, progress); });
}

void CpuOps::CompressAll(const std::vector<LinearWeight*>& weights, DeviceBuffer* memory,
                         Progress* progress) {
  ProgressStage stage(progress, "compressing weights", memory->size_bytes(), ProgressUnit::kBytes);
  char* end = static_cast<char*>(weights.front()->data);
  for (LinearWeight* weight : weights) {
    const int64_t packed_bytes =
        LinearBytes(weight->out_features, weight->in_features, weight->dtype);
    if (packed_bytes >= kMinCompressedBytes) Compress(*weight, end, pool_);
    if (weight->compressed_bytes == 0 && weight->data != end) {
      CHECK_LE(static_cast<void*>(end), weight->data);
      weight->data = std::memmove(end, weight->data, packed_bytes);
    }
    stage.Add(packed_bytes);
    // Whole cache lines both.
    end += weight->compressed_bytes != 0 ? weight->compressed_bytes : packed_bytes;
  }
  const int64_t size_bytes = end - memory->as<char>();
  if (size_bytes < memory->size_bytes()) {
    *memory = device_.Shrink(std::move(*memory), size_bytes);
  }
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
