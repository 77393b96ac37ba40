#include "engine/model/weights/weight_chunk.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/model/weights/device_format.h"
#include "engine/model/weights/quantize_rows.h"
#include "engine/model/weights/row_turns.h"
#include "engine/model/weights/tensor_check.h"
#include "kernels/base/half.h"
#include "kernels/base/status_macros.h"
#include "kernels/base/types.h"
#include "kernels/packed_codes.h"

namespace quire {
namespace {

// The bytes of one read, and of each of a reader's two pieces of staging memory. They are enough to
// keep a disk and the bus busy, and so few that pinning them for all readers takes no time that
// counts.
constexpr int64_t kChunkBytes = 2 << 20;
// Chunks begin at multiples of this many rows, so that backends whose layout interleaves rows
// convert whole tiles.
constexpr int64_t kChunkRowMultiple = 64;

// out[i, column] = in[column, rows[i]], of elements of T.
template <typename T>
void GatherColumns(const T* in, int64_t num_columns, int64_t in_stride,
                   absl::Span<const int64_t> rows, T* out) {
  constexpr int64_t kTile = 32;  // of both in the nearest cache
  const auto num_rows = static_cast<int64_t>(rows.size());
  for (int64_t first = 0; first < num_rows; first += kTile) {
    for (int64_t tile = 0; tile < num_columns; tile += kTile) {
      for (int64_t i = first; i < std::min(first + kTile, num_rows); ++i) {
        for (int64_t column = tile; column < std::min(tile + kTile, num_columns); ++column) {
          out[i * num_columns + column] = in[column * in_stride + rows[i]];
        }
      }
    }
  }
}

std::vector<char> GatherRows(const void* in, int64_t row_bytes, absl::Span<const int64_t> rows) {
  std::vector<char> out(in == nullptr ? 0 : rows.size() * row_bytes);
  for (size_t i = 0; i < rows.size() && in != nullptr; ++i) {
    std::memcpy(out.data() + i * row_bytes, static_cast<const char*>(in) + rows[i] * row_bytes,
                row_bytes);
  }
  return out;
}

// These rows of the chunk's, of which `stored` has all as they are in the file.
void Gather(const WeightChunk& chunk, const char* stored, absl::Span<const int64_t> rows,
            void* out) {
  const int64_t num_columns = chunk.weight.in_features;
  if (!chunk.part->transposed) {
    const std::vector<char> gathered = GatherRows(stored, chunk.RowBytes(), rows);
    std::memcpy(out, gathered.data(), gathered.size());
  } else if (DTypeBytes(*chunk.entry.tensor->dtype) == 2) {
    GatherColumns(reinterpret_cast<const uint16_t*>(stored), num_columns, chunk.part->num_rows,
                  rows, static_cast<uint16_t*>(out));
  } else {
    GatherColumns(reinterpret_cast<const uint32_t*>(stored), num_columns, chunk.part->num_rows,
                  rows, static_cast<uint32_t*>(out));
  }
}

using Room = absl::FunctionRef<absl::StatusOr<void*>(int64_t num_rows)>;
using TakeRows = absl::FunctionRef<absl::Status(int64_t weight_row, const Tensor& rows)>;

// Reads floats into memory of room(), and hands over rows that follow one another in the weight.
absl::Status ReadRows(const WeightChunk& chunk, Room room, TakeRows take) {
  const SafetensorsTensor& tensor = *chunk.entry.tensor;
  const int64_t in_features = chunk.weight.in_features;
  const int64_t offset =
      (chunk.expert * chunk.part->num_rows + chunk.source_row) * chunk.RowBytes();
  if (!chunk.IsRearranged()) {
    ASSIGN_OR_RETURN(void* const rows, room(chunk.num_rows));
    RETURN_IF_ERROR(chunk.entry.file->Read(tensor, offset, chunk.Bytes(), rows));
    return take(chunk.first_row + chunk.source_row,
                Tensor(rows, *tensor.dtype, {chunk.num_rows, in_features}));
  }
  const std::unique_ptr<char[]> stored(new char[chunk.Bytes()]);
  RETURN_IF_ERROR(chunk.entry.file->Read(tensor, offset, chunk.Bytes(), stored.get()));
  for (const RowRun& run : RunsOf(*chunk.part, chunk.source_row, chunk.num_rows)) {
    const auto size = static_cast<int64_t>(run.from.size());
    for (int64_t first = 0; first < size; first += chunk.RowsAtOnce()) {
      const int64_t num_rows = std::min(chunk.RowsAtOnce(), size - first);
      ASSIGN_OR_RETURN(void* const rows, room(num_rows));
      Gather(chunk, stored.get(), absl::MakeSpan(run.from).subspan(first, num_rows), rows);
      RETURN_IF_ERROR(take(chunk.first_row + run.weight_row + first,
                           Tensor(rows, *tensor.dtype, {num_rows, in_features})));
    }
  }
  return absl::OkStatus();
}

absl::Status LoadCodes(const WeightChunk& chunk, int64_t first_row, const QuantizedRows& rows,
                       RowLoader& loader) {
  if (!chunk.IsRearranged()) {
    return loader.LoadQuantized(chunk.weight, chunk.first_row + first_row, rows);
  }
  const WeightFormat& format = chunk.weight.format;
  const int64_t num_groups = NumGroups(format, chunk.weight.in_features);
  for (const RowRun& run : RunsOf(*chunk.part, first_row, rows.num_rows)) {
    const auto gather = [&](const void* plane, int64_t row_bytes) {
      return GatherRows(plane, row_bytes, run.from);
    };
    const std::vector<char> codes =
        gather(rows.codes, CodeRowBytes(format.value, chunk.weight.in_features));
    const std::vector<char> scales = gather(rows.scales, num_groups * BytesOf(format.scale));
    const std::vector<char> row_scales = gather(rows.row_scales, sizeof(float));
    const std::vector<char> zero_points = gather(rows.zero_points, num_groups);
    QuantizedRows part = {.num_rows = static_cast<int64_t>(run.from.size()),
                          .codes = reinterpret_cast<const uint8_t*>(codes.data()),
                          .scales = scales.data(),
                          .order = rows.order};
    if (rows.row_scales != nullptr) {
      part.row_scales = reinterpret_cast<const float*>(row_scales.data());
    }
    if (rows.zero_points != nullptr) {
      part.zero_points = reinterpret_cast<const uint8_t*>(zero_points.data());
    }
    RETURN_IF_ERROR(loader.LoadQuantized(chunk.weight, chunk.first_row + run.weight_row, part));
  }
  return absl::OkStatus();
}

absl::Status ReadCodes(const WeightChunk& chunk, RowLoader& loader) {
  return chunk.module->ReadCodes(chunk.weight.format, chunk.RowsAtOnce(),
                                 [&](int64_t first_row, const QuantizedRows& rows) {
                                   return LoadCodes(chunk, first_row, rows, loader);
                                 });
}

// As float32, which the loader rounds to the weight's dtype.
absl::Status ReadValues(const WeightChunk& chunk, RowLoader& loader) {
  const int64_t in_features = chunk.weight.in_features;
  std::vector<float> values(chunk.RowsAtOnce() * in_features);
  return chunk.module->Read(
      chunk.RowsAtOnce(), [&]() -> absl::StatusOr<float*> { return values.data(); },
      [&](int64_t first_row, int64_t num_rows) -> absl::Status {
        for (const RowRun& run : RunsOf(*chunk.part, first_row, num_rows)) {
          ASSIGN_OR_RETURN(void* const staging, loader.Staging());
          const std::vector<char> rows =
              GatherRows(values.data(), in_features * int64_t{sizeof(float)}, run.from);
          std::memcpy(staging, rows.data(), rows.size());
          const auto size = static_cast<int64_t>(run.from.size());
          RETURN_IF_ERROR(loader.Load(chunk.weight, chunk.first_row + run.weight_row,
                                      Tensor(staging, DType::kF32, {size, in_features})));
        }
        return absl::OkStatus();
      });
}

// Floats, as codes.
absl::Status ReadQuantizing(const WeightChunk& chunk, RowLoader& loader) {
  const int64_t in_features = chunk.weight.in_features;
  std::vector<char> stored;
  std::vector<float> values;
  return ReadRows(
      chunk,
      [&](int64_t num_rows) -> absl::StatusOr<void*> {
        stored.resize(num_rows * chunk.RowBytes());
        return stored.data();
      },
      [&](int64_t weight_row, const Tensor& rows) -> absl::Status {
        values.resize(rows.num_elements());
        ConvertToFloat(rows.data(), rows.dtype(), rows.num_elements(), values.data());
        Float8Codes quantized;
        if (!QuantizeToFloat8(chunk.weight.format, values.data(), rows.dim(0), in_features,
                              &quantized)) {
          return absl::InvalidArgumentError(
              absl::StrCat(chunk.entry.file->name(), ": tensor ", chunk.entry.tensor->name,
                           " has a value that is no finite number, and cannot be quantized: leave "
                           "--quantization out, or download the model again"));
        }
        return loader.LoadQuantized(chunk.weight, weight_row,
                                    {.num_rows = rows.dim(0),
                                     .codes = quantized.codes.data(),
                                     .scales = quantized.scales.data()});
      });
}

// The chunks of a part, of the expert that the weight is.
void SplitFloats(WeightChunk chunk, std::vector<WeightChunk>* chunks) {
  const WeightPart& part = *chunk.part;
  int64_t max_rows = RoundUp(CeilDiv(kChunkBytes, chunk.RowBytes()), kChunkRowMultiple);
  int64_t round = 1;
  for (const int64_t rows : part.turns) round += rows;
  if (!part.turns.empty()) --round;
  max_rows = part.transposed ? part.num_rows : RoundUp(max_rows, round);
  for (int64_t row = 0; row < part.num_rows; row += max_rows) {
    chunk.source_row = row;
    chunk.num_rows = std::min(max_rows, part.num_rows - row);
    chunks->push_back(chunk);
  }
}

}  // namespace

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

int64_t WeightChunk::Bytes() const {
  return module ? module->StoredBytes() : num_rows * RowBytes();
}

int64_t WeightChunk::RowsAtOnce() const {
  const int64_t row_bytes = weight.in_features * int64_t{sizeof(float)};
  return RoundUp(CeilDiv(kChunkBytes, row_bytes), kChunkRowMultiple);
}

// The bytes of the rows as they are in the file or as they become, whichever is more.
int64_t WeightChunk::StagingBytes() const {
  if (weight.format.quantized()) return 0;
  if (module || IsRearranged()) return RowsAtOnce() * weight.in_features * int64_t{sizeof(float)};
  return std::max(Bytes(), num_rows * weight.in_features * DTypeBytes(weight.dtype));
}

absl::StatusOr<std::vector<WeightChunk>> SplitIntoChunks(const WeightPlan& plan,
                                                         const Checkpoint& checkpoint) {
  std::vector<WeightChunk> chunks;
  for (const MatrixPlan& matrix : plan.matrices) {
    const std::vector<int64_t> first_rows = FirstRows(matrix.parts);
    for (size_t i = 0; i < matrix.parts.size(); ++i) {
      const WeightPart& part = matrix.parts[i];
      for (int64_t stacked = 0; stacked < std::max<int64_t>(1, part.num_experts); ++stacked) {
        WeightChunk chunk = {.weight = matrix.weight->Expert(part.expert + stacked),
                             .part = &part,
                             .first_row = first_rows[i],
                             .num_rows = part.num_rows,
                             .expert = stacked,
                             .entry = {}};
        if (matrix.scheme.quantized()) {
          ASSIGN_OR_RETURN(chunk.module, FindModule(matrix, part, checkpoint, stacked));
          chunks.push_back(chunk);
        } else {
          chunk.entry = *checkpoint.Find(part.name);
          SplitFloats(chunk, &chunks);
        }
      }
    }
  }
  return chunks;
}

absl::Status ReadChunk(const WeightChunk& chunk, RowLoader& loader) {
  if (chunk.weight.format.quantized()) {
    return chunk.module ? ReadCodes(chunk, loader) : ReadQuantizing(chunk, loader);
  }
  if (chunk.module) return ReadValues(chunk, loader);
  return ReadRows(
      chunk, [&](int64_t) { return loader.Staging(); },
      [&](int64_t weight_row, const Tensor& rows) {
        return loader.Load(chunk.weight, weight_row, rows);
      });
}

}  // namespace quire
