#include "engine/model/weights/weight_reader.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/model/weights/row_turns.h"
#include "engine/model/weights/tensor_check.h"
#include "engine/model/weights/weight_chunk.h"
#include "kernels/base/status_macros.h"

namespace quire {
namespace {

// One thread's share: takes chunks until there are none or one has failed.
absl::Status ReadChunks(absl::Span<const WeightChunk> chunks, std::atomic<size_t>* next,
                        WeightStore& store, ProgressStage* stage) {
  int64_t staging_bytes = 0;
  for (const WeightChunk& chunk : chunks)
    staging_bytes = std::max(staging_bytes, chunk.StagingBytes());
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

absl::StatusOr<ColumnOrder> ReadOrder(const MatrixPlan& matrix, const Checkpoint& checkpoint) {
  std::optional<ColumnOrder> common;
  const auto none = [] { return ColumnOrder{.even = false, .columns = {}}; };
  const bool has_experts = matrix.weight->num_experts > 1;
  for (const WeightPart& part : matrix.parts) {
    for (int64_t stacked = 0; stacked < std::max<int64_t>(1, part.num_experts); ++stacked) {
      ASSIGN_OR_RETURN(const QuantizedModule module, FindModule(matrix, part, checkpoint, stacked));
      ASSIGN_OR_RETURN(ColumnOrder order, module.ReadOrder());
      if (has_experts && !order.columns.empty()) return none();  // each has its own
      if (!common) {
        common = std::move(order);
      } else if (*common != order) {
        return none();
      }
    }
  }
  return *std::move(common);
}

absl::Status ReadVector(const VectorPlan& plan, const Checkpoint& checkpoint, float* out) {
  for (const WeightPart& part : plan.parts) {
    const Checkpoint::Entry* entry = checkpoint.Find(part.name);
    const int64_t bytes = entry->tensor->end - entry->tensor->begin;
    const std::unique_ptr<char[]> buffer(new char[bytes]);
    RETURN_IF_ERROR(entry->file->Read(*entry->tensor, 0, bytes, buffer.get()));
    const int64_t size = part.num_rows * std::max<int64_t>(1, part.num_experts);
    std::vector<float> values(size);
    ConvertToFloat(buffer.get(), *entry->tensor->dtype, size, values.data());
    for (int64_t first = 0; first < size; first += part.num_rows) {
      for (const RowRun& run : RunsOf(part, 0, part.num_rows)) {
        for (size_t i = 0; i < run.from.size(); ++i) {
          out[first + run.weight_row + i] = values[first + run.from[i]] * plan.factor + plan.offset;
        }
      }
    }
    out += size;
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

absl::Status ReadMatrices(const WeightPlan& plan, const Checkpoint& checkpoint, int num_threads,
                          WeightStore& store, Progress* progress) {
  ASSIGN_OR_RETURN(const std::vector<WeightChunk> chunks, SplitIntoChunks(plan, checkpoint));
  int64_t total_bytes = 0;
  for (const WeightChunk& chunk : chunks) total_bytes += chunk.Bytes();
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
