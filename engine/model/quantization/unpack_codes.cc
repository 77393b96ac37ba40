#include <algorithm>
#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/model/quantization/packed_fields.h"
#include "engine/model/quantization/unpack.h"
#include "kernels/base/check.h"
#include "kernels/base/float8.h"
#include "kernels/base/types.h"

namespace quire {
namespace {

// Columns that a stored row of a transposed packing holds.
int64_t ColumnsPerStoredRow(const WeightScheme& scheme) {
  return scheme.packing == WeightPacking::kGptq ? 32 / scheme.bits : 1;
}

std::array<float, 256> MakeE4M3Values() {
  std::array<float, 256> values = {};
  for (int code = 0; code < 256; ++code) {
    Float8E4M3 value;
    value.bits = static_cast<uint8_t>(code);
    values[code] = static_cast<float>(value);
  }
  return values;
}

const std::array<float, 256>& E4M3Values() {
  static const std::array<float, 256> kValues = MakeE4M3Values();
  return kValues;
}

// e4m3 has no infinity. In its NaN all bits are 1 except the sign. Returns the place of the first
// NaN, or `size`.
int64_t FindE4M3Nan(const uint8_t* codes, int64_t size) {
  constexpr uint64_t kMagnitudes = 0x7f7f7f7f7f7f7f7fu;
  int64_t i = 0;
  for (; i + 8 <= size; i += 8) {
    uint64_t word;
    std::memcpy(&word, codes + i, 8);
    // Only 0x7f + 1 reaches the uppermost bit.
    if ((((word & kMagnitudes) + 0x0101010101010101u) & ~kMagnitudes) != 0) break;
  }
  while (i < size && (codes[i] & 0x7f) != 0x7f) ++i;
  return i;
}

// The arguments that the unpacking of every packing takes.
struct CodeSource {
  const WeightScheme& scheme;
  const uint8_t* data;  // of the first stored row
  int64_t row_bytes;
  int64_t first_stored;
  const WeightRange& range;
  uint8_t* codes;

  // The bytes of a row of the weight, and where its codes go.
  const uint8_t* Row(int64_t row) const {
    return data + (range.first_row + row - first_stored) * row_bytes;
  }
  uint8_t* CodesOf(int64_t row) const { return codes + row * range.num_columns; }
};

void UnpackBytes(const CodeSource& source) {
  for (int64_t row = 0; row < source.range.num_rows; ++row) {
    std::memcpy(source.CodesOf(row), source.Row(row) + source.range.first_column,
                source.range.num_columns);
  }
}

// Signed to unsigned: -128 becomes 0.
void UnpackInt8(const CodeSource& source) {
  UnpackBytes(source);
  const int64_t size = source.range.num_rows * source.range.num_columns;
  int64_t i = 0;
  for (; i + 8 <= size; i += 8) {
    uint64_t word;
    std::memcpy(&word, source.codes + i, 8);
    word ^= 0x8080808080808080u;
    std::memcpy(source.codes + i, &word, 8);
  }
  for (; i < size; ++i) source.codes[i] ^= 0x80;
}

// Fields of a row, low bits first; e2m1 is one of four bits.
void UnpackFields(const CodeSource& source) {
  const int bits = source.scheme.bits;
  for (int64_t row = 0; row < source.range.num_rows; ++row) {
    const uint8_t* bytes = source.Row(row);
    uint8_t* codes = source.CodesOf(row);
    int64_t column = source.range.first_column;
    const int64_t end = column + source.range.num_columns;
    if (bits == 4) {
      if (column % 2 != 0 && column < end) *codes++ = bytes[column++ / 2] >> 4;
      for (; column + 8 <= end; column += 8, codes += 8) {
        uint32_t word;
        std::memcpy(&word, bytes + column / 2, 4);
        const uint64_t eight = BytesOfNibbles(word);
        std::memcpy(codes, &eight, 8);
      }
    }
    for (; column < end; ++column) {
      *codes++ = static_cast<uint8_t>(FieldAlong(bytes, column, bits));
    }
  }
}

// A word of some columns of a row, from `first` on.
void UnpackGptqWord(uint32_t word, int bits, int64_t num_columns, uint8_t* codes) {
  if (bits == 4 && num_columns == 8) {
    const uint64_t eight = BytesOfNibbles(word);
    std::memcpy(codes, &eight, 8);
    return;
  }
  const uint32_t mask = (1u << bits) - 1;
  for (int64_t column = 0; column < num_columns; ++column, word >>= bits) {
    *codes++ = static_cast<uint8_t>(word & mask);
  }
}

// A stored row has a word for each row of the weight, with some of its columns. A few rows at a
// time: what is written of more would push each other out of the cache.
void UnpackGptq(const CodeSource& source) {
  constexpr int64_t kRows = 8;
  const int bits = source.scheme.bits;
  const int64_t per_word = ColumnsPerStoredRow(source.scheme);
  const WeightRange& range = source.range;
  const int64_t end = range.first_column + range.num_columns;
  for (int64_t begin_row = 0; begin_row < range.num_rows; begin_row += kRows) {
    const int64_t end_row = std::min(begin_row + kRows, range.num_rows);
    for (int64_t word_row = range.first_column / per_word; word_row * per_word < end; ++word_row) {
      const int64_t first = std::max(range.first_column, word_row * per_word);
      const int64_t last = std::min(end, (word_row + 1) * per_word);
      const uint8_t* words = source.data + (word_row - source.first_stored) * source.row_bytes;
      for (int64_t row = begin_row; row < end_row; ++row) {
        uint32_t word;
        std::memcpy(&word, words + (range.first_row + row) * 4, 4);
        word >>= (first - word_row * per_word) * bits;
        UnpackGptqWord(word, bits, last - first,
                       source.CodesOf(row) + (first - range.first_column));
      }
    }
  }
}

// A stored row is a column of the weight. By blocks, so that what is written stays in the cache.
void UnpackAwq(const CodeSource& source) {
  constexpr int64_t kBlockColumns = 64;
  const WeightRange& range = source.range;
  for (int64_t begin = 0; begin < range.num_columns; begin += kBlockColumns) {
    const int64_t end = std::min(begin + kBlockColumns, range.num_columns);
    for (int64_t row = 0; row < range.num_rows; ++row) {
      const int64_t field = AwqField(range.first_row + row);
      const int shift = field % 2 != 0 ? 4 : 0;
      uint8_t* codes = source.CodesOf(row);
      for (int64_t column = begin; column < end; ++column) {
        const int64_t stored = range.first_column + column - source.first_stored;
        codes[column] = source.data[stored * source.row_bytes + field / 2] >> shift & 0xf;
      }
    }
  }
}

}  // namespace

float E4M3Value(uint8_t code) { return E4M3Values()[code]; }

int64_t NumStoredRows(const WeightScheme& scheme, const ModuleShape& shape) {
  if (!IsTransposed(scheme.packing)) return shape.rows;
  return CeilDiv(shape.columns, ColumnsPerStoredRow(scheme));
}

int64_t StoredRowBytes(const WeightScheme& scheme, const ModuleShape& shape) {
  switch (scheme.packing) {
    case WeightPacking::kFloat8:
    case WeightPacking::kInt8:
      return shape.columns;
    case WeightPacking::kFloat4:
      return shape.columns / 2;
    case WeightPacking::kPackedRows:
      return CeilDiv<int64_t>(shape.columns * scheme.bits, 32) * 4;
    case WeightPacking::kGptq:
      return shape.rows * 4;
    case WeightPacking::kAwq:
      return shape.rows * scheme.bits / 8;
    case WeightPacking::kFloat:
      break;
  }
  CHECK(false) << "not quantized";
  return 0;
}

WeightRange RangeOf(const WeightScheme& scheme, const ModuleShape& shape, StoredRows stored) {
  if (!IsTransposed(scheme.packing)) return {stored.first, stored.count, 0, shape.columns};
  const int64_t per_row = ColumnsPerStoredRow(scheme);
  const int64_t first = stored.first * per_row;
  const int64_t end = std::min((stored.first + stored.count) * per_row, shape.columns);
  return {0, shape.rows, first, end - first};
}

absl::Status UnpackCodes(const WeightScheme& scheme, const ModuleShape& shape, StoredRows stored,
                         const PlaneBytes& values, const WeightRange& range, uint8_t* codes) {
  const WeightRange held = RangeOf(scheme, shape, stored);
  const int64_t row_bytes = StoredRowBytes(scheme, shape);
  CHECK_EQ(static_cast<int64_t>(values.data.size()), stored.count * row_bytes);
  CHECK(range.first_row >= held.first_row && range.first_column >= held.first_column &&
        range.first_row + range.num_rows <= held.first_row + held.num_rows &&
        range.first_column + range.num_columns <= held.first_column + held.num_columns);
  const CodeSource source = {scheme, values.data.data(), row_bytes, stored.first, range, codes};
  switch (scheme.packing) {
    case WeightPacking::kFloat:
      CHECK(false) << "not quantized";
      break;
    case WeightPacking::kFloat8: {
      UnpackBytes(source);
      const int64_t size = range.num_rows * range.num_columns;
      const int64_t nan = FindE4M3Nan(codes, size);
      if (nan == size) break;
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor ", values.name, " is NaN at row ", range.first_row + nan / range.num_columns,
          ", column ", range.first_column + nan % range.num_columns,
          ": download or quantize the model again"));
    }
    case WeightPacking::kInt8:
      UnpackInt8(source);
      break;
    case WeightPacking::kFloat4:
    case WeightPacking::kPackedRows:
      if (scheme.bits == 8) {
        UnpackBytes(source);
      } else {
        UnpackFields(source);
      }
      break;
    case WeightPacking::kGptq:
      UnpackGptq(source);
      break;
    case WeightPacking::kAwq:
      UnpackAwq(source);
      break;
  }
  return absl::OkStatus();
}

void Dequantize(const WeightScheme& scheme, const WeightGroups& groups, const WeightRange& range,
                const uint8_t* codes, float* out) {
  const bool is_integer = scheme.IsInteger();
  const std::array<float, 256>& e4m3 = E4M3Values();
  for (int64_t row = range.first_row; row < range.first_row + range.num_rows; ++row) {
    for (int64_t column = range.first_column; column < range.first_column + range.num_columns;
         ++column) {
      const size_t group = groups.GroupOf(row, column);
      const uint8_t code = *codes++;
      float value;
      if (is_integer) {
        value = static_cast<float>(static_cast<int>(code) - groups.zero_points[group]);
      } else {
        value = scheme.packing == WeightPacking::kFloat8 ? e4m3[code] : E2M1Value(code);
      }
      *out++ = value * groups.scales[group];
    }
  }
}

}  // namespace quire
