#include "engine/model/weights/weight_reader.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/model/weights/device_format.h"
#include "engine/model/weights/quantize_rows.h"
#include "engine/model/weights/tensor_check.h"
#include "kernels/base/half.h"
#include "kernels/base/status_macros.h"
#include "kernels/base/types.h"

namespace quire {
namespace {

// Of one read, and of a reader's two pieces of staging memory: large enough to keep a disk and the
// bus busy, small enough that pinning it for all readers takes no time that counts.
constexpr int64_t kChunkBytes = 2 << 20;
// Chunks begin at multiples of this many rows, so that backends whose layout interleaves rows
// convert whole tiles.
constexpr int64_t kChunkRowMultiple = 64;

void ConvertToFloat(const void* in, DType dtype, int64_t size, float* out) {
  switch (dtype) {
    case DType::kF32:
      std::memcpy(out, in, size * sizeof(float));
      return;
    case DType::kBF16:
      std::transform(static_cast<const BFloat16*>(in), static_cast<const BFloat16*>(in) + size, out,
                     [](BFloat16 value) { return static_cast<float>(value); });
      return;
    case DType::kF16:
      std::transform(static_cast<const uint16_t*>(in), static_cast<const uint16_t*>(in) + size, out,
                     HalfToFloat);
      return;
    default:
      CHECK(false) << "refused by CheckTensors";
  }
}

// Some rows of one tensor of the checkpoint and where they go; or all of a quantized module.
struct Chunk {
  const LinearWeight* weight;
  Checkpoint::Entry entry;
  int64_t source_row;
  int64_t weight_row;
  int64_t num_rows;
  std::optional<QuantizedModule> module = {};

  int64_t RowBytes() const { return weight->in_features * DTypeBytes(*entry.tensor->dtype); }
  int64_t Bytes() const { return module ? module->StoredBytes() : num_rows * RowBytes(); }
  // Of the rows as they are in the file or as they become, whichever is more.
  int64_t StagingBytes() const {
    if (weight->format.quantized()) return 0;
    if (module) return ExpandedRows() * weight->in_features * int64_t{sizeof(float)};
    return std::max(Bytes(), num_rows * weight->in_features * DTypeBytes(weight->dtype));
  }
  // Of a quantized module, at a time.
  int64_t ExpandedRows() const {
    const int64_t row_bytes = weight->in_features * int64_t{sizeof(float)};
    return RoundUp(CeilDiv(kChunkBytes, row_bytes), kChunkRowMultiple);
  }
};

absl::StatusOr<std::vector<Chunk>> SplitIntoChunks(const WeightPlan& plan,
                                                   const QuantizationConfig& quantization,
                                                   const Checkpoint& checkpoint) {
  std::vector<Chunk> chunks;
  for (const MatrixPlan& matrix : plan.matrices) {
    ASSIGN_OR_RETURN(const WeightScheme scheme, SchemeOf(matrix, quantization));
    int64_t first_row = 0;  // of the part, in the weight
    for (const WeightPart& part : matrix.parts) {
      if (scheme.quantized()) {
        Chunk chunk = {matrix.weight, {}, 0, first_row, part.num_rows};
        ASSIGN_OR_RETURN(chunk.module, FindModule(scheme, matrix, part, checkpoint));
        chunks.push_back(chunk);
        first_row += part.num_rows;
        continue;
      }
      Chunk chunk = {matrix.weight, *checkpoint.Find(part.name), 0, first_row, 0};
      const int64_t max_rows = RoundUp(CeilDiv(kChunkBytes, chunk.RowBytes()), kChunkRowMultiple);
      for (int64_t row = 0; row < part.num_rows; row += max_rows) {
        chunk.source_row = row;
        chunk.weight_row = first_row + row;
        chunk.num_rows = std::min(max_rows, part.num_rows - row);
        chunks.push_back(chunk);
      }
      first_row += part.num_rows;
    }
  }
  return chunks;
}

absl::Status ReadCodes(const Chunk& chunk, RowLoader& loader) {
  return chunk.module->ReadCodes(chunk.weight->format, chunk.ExpandedRows(),
                                 [&](int64_t first_row, const QuantizedRows& rows) {
                                   return loader.LoadQuantized(*chunk.weight,
                                                               chunk.weight_row + first_row, rows);
                                 });
}

// As float32, which the loader rounds to the weight's dtype.
absl::Status ReadValues(const Chunk& chunk, RowLoader& loader) {
  void* staging = nullptr;
  return chunk.module->Read(
      chunk.ExpandedRows(),
      [&]() -> absl::StatusOr<float*> {
        ASSIGN_OR_RETURN(staging, loader.Staging());
        return static_cast<float*>(staging);
      },
      [&](int64_t first_row, int64_t num_rows) {
        return loader.Load(*chunk.weight, chunk.weight_row + first_row,
                           Tensor(staging, DType::kF32, {num_rows, chunk.weight->in_features}));
      });
}

// Floats, as codes.
absl::Status ReadQuantizing(const Chunk& chunk, RowLoader& loader) {
  const SafetensorsTensor& tensor = *chunk.entry.tensor;
  const int64_t num_columns = chunk.weight->in_features;
  const int64_t size = chunk.num_rows * num_columns;
  const std::unique_ptr<char[]> stored(new char[chunk.Bytes()]);
  RETURN_IF_ERROR(chunk.entry.file->Read(tensor, chunk.source_row * chunk.RowBytes(), chunk.Bytes(),
                                         stored.get()));
  const std::unique_ptr<float[]> values(new float[size]);
  ConvertToFloat(stored.get(), *tensor.dtype, size, values.get());
  Float8Codes quantized;
  if (!QuantizeToFloat8(chunk.weight->format, values.get(), chunk.num_rows, num_columns,
                        &quantized)) {
    return absl::InvalidArgumentError(absl::StrCat(
        chunk.entry.file->name(), ": tensor ", tensor.name,
        " has a value that is no finite number, and cannot be quantized: leave --quantization out, "
        "or download the model again"));
  }
  return loader.LoadQuantized(*chunk.weight, chunk.weight_row,
                              {.num_rows = chunk.num_rows,
                               .codes = quantized.codes.data(),
                               .scales = quantized.scales.data()});
}

absl::Status ReadChunk(const Chunk& chunk, RowLoader& loader) {
  if (chunk.weight->format.quantized()) {
    return chunk.module ? ReadCodes(chunk, loader) : ReadQuantizing(chunk, loader);
  }
  if (chunk.module) return ReadValues(chunk, loader);
  ASSIGN_OR_RETURN(void* const staging, loader.Staging());
  RETURN_IF_ERROR(chunk.entry.file->Read(*chunk.entry.tensor, chunk.source_row * chunk.RowBytes(),
                                         chunk.Bytes(), staging));
  return loader.Load(
      *chunk.weight, chunk.weight_row,
      Tensor(staging, *chunk.entry.tensor->dtype, {chunk.num_rows, chunk.weight->in_features}));
}

// One thread's share: takes chunks until there are none or one has failed.
absl::Status ReadChunks(absl::Span<const Chunk> chunks, std::atomic<size_t>* next,
                        WeightStore& store, ProgressStage* stage) {
  int64_t staging_bytes = 0;
  for (const Chunk& chunk : chunks) staging_bytes = std::max(staging_bytes, chunk.StagingBytes());
  const auto read = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const std::unique_ptr<RowLoader> loader, store.CreateLoader(staging_bytes));
    for (size_t i = (*next)++; i < chunks.size(); i = (*next)++) {
      RETURN_IF_ERROR(ReadChunk(chunks[i], *loader));
      stage->Add(chunks[i].Bytes());
    }
    return loader->Finish();
  };
  absl::Status status = read();
  if (!status.ok()) *next = chunks.size();  // the others stop, too
  return status;
}

}  // namespace

absl::StatusOr<ColumnOrder> ReadOrder(const MatrixPlan& matrix, const WeightScheme& scheme,
                                      const Checkpoint& checkpoint) {
  std::optional<ColumnOrder> common;
  for (const WeightPart& part : matrix.parts) {
    ASSIGN_OR_RETURN(const QuantizedModule module, FindModule(scheme, matrix, part, checkpoint));
    ASSIGN_OR_RETURN(ColumnOrder order, module.ReadOrder());
    if (!common)
      common = std::move(order);
    else if (*common != order)
      return ColumnOrder{.even = false, .columns = {}};
  }
  return *std::move(common);
}

absl::Status ReadVector(const VectorPlan& plan, const Checkpoint& checkpoint, float* out) {
  for (const WeightPart& part : plan.parts) {
    const Checkpoint::Entry* entry = checkpoint.Find(part.name);
    const int64_t bytes = entry->tensor->end - entry->tensor->begin;
    const std::unique_ptr<char[]> buffer(new char[bytes]);
    RETURN_IF_ERROR(entry->file->Read(*entry->tensor, 0, bytes, buffer.get()));
    ConvertToFloat(buffer.get(), *entry->tensor->dtype, part.num_rows, out);
    for (int64_t i = 0; i < part.num_rows; ++i) out[i] += plan.offset;
    out += part.num_rows;
  }
  return absl::OkStatus();
}

absl::Status ReadScales(const ScalesPlan& plan, const Checkpoint& checkpoint, float* out) {
  std::fill_n(out, plan.size, 1.0f);
  const Checkpoint::Entry* entry = FindScales(plan, checkpoint);
  if (entry == nullptr) return absl::OkStatus();
  const SafetensorsTensor& tensor = *entry->tensor;
  std::vector<char> bytes(tensor.end - tensor.begin);
  const auto num_elements = static_cast<int64_t>(bytes.size()) / DTypeBytes(*tensor.dtype);
  RETURN_IF_ERROR(entry->file->Read(tensor, 0, tensor.end - tensor.begin, bytes.data()));
  ConvertToFloat(bytes.data(), *tensor.dtype, num_elements, out);
  if (num_elements == 1) std::fill_n(out, plan.size, out[0]);
  for (int64_t i = 0; i < plan.size; ++i) {
    if (std::isfinite(out[i]) && out[i] > 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(entry->file->name(), ": tensor ", tensor.name, " has a scale of ", out[i],
                     "; scales of a KV cache are finite and above 0: quantize the model again"));
  }
  return absl::OkStatus();
}

absl::Status ReadMatrices(const WeightPlan& plan, const QuantizationConfig& quantization,
                          const Checkpoint& checkpoint, int num_threads, WeightStore& store,
                          Progress* progress) {
  ASSIGN_OR_RETURN(const std::vector<Chunk> chunks,
                   SplitIntoChunks(plan, quantization, checkpoint));
  int64_t total_bytes = 0;
  for (const Chunk& chunk : chunks) total_bytes += chunk.Bytes();
  ProgressStage stage(progress, "loading weights", total_bytes, ProgressUnit::kBytes);
  std::atomic<size_t> next = 0;
  const size_t num_readers = std::min<size_t>(num_threads, chunks.size());
  std::vector<absl::Status> statuses(num_readers);
  std::vector<std::thread> threads;
  for (size_t i = 1; i < num_readers; ++i) {
    threads.emplace_back([&, i] { statuses[i] = ReadChunks(chunks, &next, store, &stage); });
  }
  statuses[0] = ReadChunks(chunks, &next, store, &stage);
  for (std::thread& thread : threads) thread.join();
  absl::Status status;
  for (const absl::Status& one : statuses) status.Update(one);
  return status;
}

}  // namespace quire
