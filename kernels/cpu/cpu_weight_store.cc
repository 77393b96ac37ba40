#include "kernels/cpu/cpu_weight_store.h"

#include <cstring>
#include <utility>

#include "kernels/base/check.h"
#include "kernels/base/status_macros.h"
#include "kernels/cpu/gemm/compression.h"
#include "kernels/cpu/gemm/packing.h"
#include "kernels/cpu/gemm/quantized/quantized_panel.h"
#include "kernels/cpu/runtime/cpu_stream.h"
#include "kernels/weight_checks.h"

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
  absl::Status LoadQuantized(const LinearWeight& weight, int64_t first_row,
                             const QuantizedRows& rows) override {
    RETURN_IF_ERROR(CheckQuantizedRows(weight, first_row, rows));
    PackQuantizedRows(weight, first_row, rows);
    return absl::OkStatus();
  }
  absl::Status Finish() override { return absl::OkStatus(); }

 private:
  const std::unique_ptr<char[]> staging_;
};

}  // namespace

LinearFormat CpuWeightStore::FormatFor(const LinearFormat& format, DType, bool) const {
  const bool is_int8 = format.activations.value == ActivationValue::kInt8;
  return {format.weight, is_int8 ? format.activations : ActivationFormat()};
}

int64_t CpuWeightStore::BytesOf(const LinearWeight& weight) const {
  if (weight.format.quantized()) return QuantizedLayout(weight).size_bytes();
  return PackedBytes(weight.out_features, weight.in_features, weight.dtype);
}

absl::StatusOr<std::unique_ptr<RowLoader>> CpuWeightStore::CreateLoader(int64_t staging_bytes) {
  return std::make_unique<PackingLoader>(staging_bytes);
}

void CpuWeightStore::Fill(Stream& stream, const LinearWeight& weight, const FillWeightArgs& args) {
  CheckWeight(weight);
  CpuStream::From(stream).Enqueue([weight, args, pool = &device_.pool()] {
    const auto fill = weight.format.quantized() ? FillQuantized : FillNormal;
    fill(weight, args, *pool);
  });
}

void CpuWeightStore::Seal(Stream& stream, const std::vector<LinearWeight*>& weights,
                          DeviceBuffer* memory, Progress* progress) {
  for (const LinearWeight* weight : weights) CheckWeight(*weight);
  if (!compress_ || weights.empty()) return;
  CpuStream::From(stream).Enqueue(
      [this, weights = &weights, memory, progress] { CompressAll(*weights, memory, progress); });
}

void CpuWeightStore::CompressAll(const std::vector<LinearWeight*>& weights, DeviceBuffer* memory,
                                 Progress* progress) {
  ProgressStage stage(progress, "compressing weights", memory->size_bytes(), ProgressUnit::kBytes);
  char* end = static_cast<char*>(weights.front()->data);
  for (LinearWeight* weight : weights) {
    const bool is_one = weight->num_experts == 1;  // experts stay as they are
    const int64_t packed_bytes =
        is_one ? BytesOf(*weight) : weight->num_experts * weight->expert_bytes;
    if (is_one && packed_bytes >= kMinCompressedBytes && !weight->format.quantized()) {
      Compress(*weight, end, device_.pool());
    }
    if (!weight->is_compressed() && weight->data != end) {
      CHECK_LE(static_cast<void*>(end), weight->data);
      weight->data = std::memmove(end, weight->data, packed_bytes);
    }
    stage.Add(packed_bytes);
    // Whole cache lines both.
    end += weight->is_compressed() ? weight->compressed_bytes : packed_bytes;
  }
  const int64_t size_bytes = end - memory->as<char>();
  if (size_bytes < memory->size_bytes()) {
    *memory = device_.Shrink(std::move(*memory), size_bytes);
  }
}

absl::Status CpuWeightStore::Tune(Stream&, const std::vector<LinearGroup>& groups, Progress*) {
  for (const LinearGroup& group : groups) CheckLinearGroup(group);
  return absl::OkStatus();
}

}  // namespace quire::cpu
