#include "kernels/cpu/gemm/quantized/quantized_gemm.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/base/check.h"
#include "kernels/base/types.h"
#include "kernels/cpu/runtime/host_info.h"

namespace quire::cpu {

namespace {

constexpr int64_t kMaxBlockRows =
    224;  // bounds the packed activations; whole tiles of 14 or 32 rows
constexpr int64_t kSliceColumns = 64;  // expanded at a time: 16 KiB
constexpr int64_t kRangeBytes = 256 * 1024;

bool IsInt8(const LinearWeight& weight) {
  return weight.activations.value == ActivationValue::kInt8;
}

// A row of x as float32 in the weight's order of columns, each group padded with zeros.
void ReadRow(const Tensor& x, int64_t row, const QuantizedLayout& layout, const int32_t* order,
             float* out) {
  const auto read = [&](const auto* in) {
    int64_t column = 0;
    for (int64_t group = 0; group < layout.num_groups; ++group) {
      const int64_t num_columns = layout.ColumnsOf(group);
      const int64_t padded = layout.UnitsOf(group) * layout.unit_columns;
      for (int64_t i = 0; i < num_columns; ++i, ++column) {
        out[i] = static_cast<float>(in[order == nullptr ? column : order[column]]);
      }
      std::fill(out + num_columns, out + padded, 0.0f);
      out += padded;
    }
  };
  if (x.dtype() == DType::kF32) {
    read(x.as<float>() + row * x.row_stride());
  } else {
    read(x.as<BFloat16>() + row * x.row_stride());
  }
}

// Codes of a row, 128 more than their values, each kInt8BlockBytes of them `stride` bytes after
// those before; returns what they are multiplied with.
float RoundToInt8(const float* row, int64_t columns, int64_t stride, uint8_t* out) {
  float most = 0;
  bool is_finite = true;
  for (int64_t i = 0; i < columns; ++i) {
    most = std::max(most, std::abs(row[i]));
    is_finite = is_finite && std::isfinite(row[i]);
  }
  const bool has_only_zeros = !is_finite || most == 0;
  const float inverse = 127 / most;
  for (int64_t begin = 0; begin < columns; begin += kInt8BlockBytes, out += stride) {
    const int64_t count = std::min(kInt8BlockBytes, columns - begin);
    if (has_only_zeros) {
      std::fill_n(out, count, 128);
      continue;
    }
    for (int64_t i = 0; i < count; ++i) {
      const float code = std::clamp(std::nearbyint(row[begin + i] * inverse), -127.0f, 127.0f);
      out[i] = static_cast<uint8_t>(static_cast<int>(code) + 128);
    }
  }
  return is_finite ? most / 127 : std::numeric_limits<float>::quiet_NaN();  // so is each product
}

template <typename T>
void GrowTo(int64_t size, std::vector<T>& values) {
  if (std::ssize(values) < size) values.resize(size);
}

}  // namespace

// What all blocks of a call have in common.
struct QuantizedGemm::Call {
  const GroupedLinearArgs& args;
  const QuantizedLayout& layout;
  bool is_int8;

  int64_t Int8RowLines() const { return CeilDiv(layout.UnitsOf(0), kInt8BlockUnits); }
};

// Rows [first_row, first_row + num_rows) of a call, in tiles of one height but the last, and their
// matrix.
struct QuantizedGemm::Block {
  const Call& call;
  int64_t matrix;
  int64_t first_row;
  int64_t num_rows;
  int64_t height;
  int64_t num_tiles;
  int64_t first_packed_row;  // of all blocks' rows, tiles and panels
  int64_t first_tile;
  int64_t first_panel;

  int64_t TileRows(int64_t tile) const { return std::min(height, num_rows - tile * height); }
  int64_t TileValues(int64_t tile) const {
    return (first_packed_row + tile * height) * call.layout.padded_columns();
  }
  int64_t Int8TileLines(int64_t tile) const {
    return (first_packed_row + tile * height) * call.Int8RowLines();
  }
  LinearWeight weight() const { return call.args.weight->Expert(matrix); }
  const char* PanelOf(int64_t panel) const {
    return static_cast<const char*>(weight().data) + panel * call.layout.panel_bytes;
  }
};

// What a thread needs for a row or a panel.
struct QuantizedGemm::Scratch {
  std::vector<float> row;       // of x
  std::vector<float> expanded;  // [kSliceColumns, kPanelFeatures]
  std::vector<float> sums;      // [kMaxBlockRows, kPanelFeatures]
  float bias[kPanelFeatures];   // of the panel
};

QuantizedGemm::QuantizedGemm(const TileSet& float_tiles, const Int8Kernel& int8_kernel)
    : float_tiles_(float_tiles), int8_kernel_(int8_kernel) {}
QuantizedGemm::~QuantizedGemm() = default;

int64_t QuantizedGemm::TileHeight(bool is_int8, int64_t num_rows) const {
  if (is_int8 && num_rows > kInt8VectorRows && int8_kernel_.amx_tile != nullptr) {
    return kInt8AmxRows;  // a last tile of fewer rows takes less time, by 16 rows
  }
  const int64_t max_height = is_int8                     ? kInt8VectorRows
                             : num_rows <= kMaxFusedRows ? kMaxFusedRows
                                                         : float_tiles_.max_rows;
  // Tiles of about one height: the last rows of a block cost as little as the others.
  return CeilDiv(num_rows, CeilDiv(num_rows, max_height));
}

void QuantizedGemm::GroupedLinear(const GroupedLinearArgs& args, ThreadPool& pool) {
  const QuantizedLayout layout(*args.weight);
  const Call call = {.args = args, .layout = layout, .is_int8 = IsInt8(*args.weight)};
  CHECK(!call.is_int8 ||
        (layout.num_groups == 1 && args.weight->format.value == WeightValue::kInt8));
  if (std::ssize(scratch_) < pool.num_threads()) scratch_.resize(pool.num_threads());
  ForEachRound(args, kMaxBlockRows, [&](const std::vector<RowBlock>& blocks) {
    OpenBlocks(call, blocks);
    call.is_int8 ? PackInt8(call, pool) : PackFloats(call, pool);
    Multiply(call, pool);
  });
}

void QuantizedGemm::OpenBlocks(const Call& call, const std::vector<RowBlock>& blocks) {
  blocks_.clear();
  int64_t num_rows = 0, num_tiles = 0, num_panels = 0;
  for (const RowBlock& rows : blocks) {
    const int64_t height = TileHeight(call.is_int8, rows.num_rows);
    blocks_.push_back({.call = call,
                       .matrix = rows.matrix,
                       .first_row = rows.first_row,
                       .num_rows = rows.num_rows,
                       .height = height,
                       .num_tiles = CeilDiv(rows.num_rows, height),
                       .first_packed_row = num_rows,
                       .first_tile = num_tiles,
                       .first_panel = num_panels});
    num_rows += rows.num_rows;
    num_tiles += blocks_.back().num_tiles;
    num_panels += call.layout.num_panels;
  }
}

void QuantizedGemm::PackFloats(const Call& call, ThreadPool& pool) {
  const Block& last = blocks_.back();
  GrowTo((last.first_packed_row + last.num_rows) * call.layout.padded_columns(), packed_);
  pool.ParallelFor(last.first_tile + last.num_tiles, 1,
                   [&](int64_t begin, int64_t end, int thread) {
                     for (int64_t i = begin; i < end; ++i) {
                       const Block& block = BlockWith(blocks_, &Block::first_tile, i);
                       PackTile(block, i - block.first_tile, scratch_[thread]);
                     }
                   });
}

void QuantizedGemm::PackTile(const Block& block, int64_t tile, Scratch& scratch) {
  const QuantizedLayout& layout = block.call.layout;
  const GroupedLinearArgs& args = block.call.args;
  const LinearWeight weight = block.weight();
  const int64_t columns = layout.padded_columns();
  const int64_t num_rows = block.TileRows(tile);
  float* const out = packed_.data() + block.TileValues(tile);
  GrowTo(columns, scratch.row);
  for (int64_t r = 0; r < num_rows; ++r) {
    ReadRow(args.x, args.XRow(block.first_row + tile * block.height + r), layout,
            layout.OrderOf(weight), scratch.row.data());
    for (int64_t i = 0; i < columns; ++i) out[i * num_rows + r] = scratch.row[i];
  }
}

void QuantizedGemm::PackInt8(const Call& call, ThreadPool& pool) {
  const Block& last = blocks_.back();
  const int64_t num_rows = last.first_packed_row + last.num_rows;
  GrowTo(num_rows * call.Int8RowLines(), packed_int8_);
  GrowTo(num_rows, x_scales_);
  pool.ParallelFor(num_rows, 1, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t i = begin; i < end; ++i) {
      const Block& block = BlockWith(blocks_, &Block::first_packed_row, i);
      PackInt8Row(block, i - block.first_packed_row, scratch_[thread]);
    }
  });
}

void QuantizedGemm::PackInt8Row(const Block& block, int64_t row, Scratch& scratch) {
  const QuantizedLayout& layout = block.call.layout;
  const GroupedLinearArgs& args = block.call.args;
  const int64_t columns = layout.padded_columns();
  const int64_t tile = row / block.height;
  GrowTo(columns, scratch.row);
  ReadRow(args.x, args.XRow(block.first_row + row), layout, layout.OrderOf(block.weight()),
          scratch.row.data());
  CacheLine* const out = packed_int8_.data() + block.Int8TileLines(tile) + row % block.height;
  x_scales_[block.first_packed_row + row] =
      RoundToInt8(scratch.row.data(), columns, block.TileRows(tile) * kInt8BlockBytes,
                  reinterpret_cast<uint8_t*>(out));
}

void QuantizedGemm::Multiply(const Call& call, ThreadPool& pool) {
  const Block& last = blocks_.back();
  const int64_t num_panels = last.first_panel + call.layout.num_panels;
  const int64_t rows_per_block =
      CeilDiv(last.first_packed_row + last.num_rows, std::ssize(blocks_));
  const int64_t grain =
      std::max<int64_t>(1, kRangeBytes / (call.layout.panel_bytes * rows_per_block));
  pool.ParallelFor(num_panels, grain, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t i = begin; i < end; ++i) {
      const Block& block = BlockWith(blocks_, &Block::first_panel, i);
      MultiplyPanel(block, i - block.first_panel, scratch_[thread]);
    }
  });
}

void QuantizedGemm::MultiplyPanel(const Block& block, int64_t panel, Scratch& scratch) const {
  const GroupedLinearArgs& args = block.call.args;
  const int64_t first_feature = panel * kPanelFeatures;
  BiasOfPanel(args.bias, block.matrix * args.weight->out_features + first_feature,
              std::min(kPanelFeatures, args.weight->out_features - first_feature), scratch.bias);
  if (block.call.is_int8) return MultiplyInt8(block, panel, scratch);
  if (block.num_rows <= kMaxFusedRows) return MultiplyFewRows(block, panel, scratch);
  MultiplyManyRows(block, panel, scratch);
}

void QuantizedGemm::MultiplyFewRows(const Block& block, int64_t panel, Scratch& scratch) const {
  GrowTo(kMaxFusedRows * kPanelFeatures, scratch.sums);
  RunQuantizedTile({.layout = &block.call.layout,
                    .panel = block.PanelOf(panel),
                    .x = packed_.data() + block.TileValues(0),
                    .num_rows = static_cast<int>(block.num_rows),
                    .read_ahead = ReadAheadBytes(),
                    .out = scratch.sums.data()});
  StoreRows(block, panel, 0, block.num_rows, scratch);
}

void QuantizedGemm::MultiplyManyRows(const Block& block, int64_t panel, Scratch& scratch) const {
  const QuantizedLayout& layout = block.call.layout;
  const int64_t slice_units = kSliceColumns / layout.unit_columns;
  GrowTo(kSliceColumns * kPanelFeatures, scratch.expanded);
  GrowTo(kMaxBlockRows * kPanelFeatures, scratch.sums);
  Prefetch no_prefetch = {.next = nullptr, .lines = 0, .num_passes = 1};
  int64_t column = 0;
  for (int64_t group = 0; group < layout.num_groups; ++group) {
    const int64_t num_units = layout.UnitsOf(group);
    for (int64_t unit = 0; unit < num_units; unit += slice_units) {
      const int64_t count = std::min(slice_units, num_units - unit);
      ExpandUnits({.layout = &layout,
                   .panel = block.PanelOf(panel),
                   .group = group,
                   .first_unit = unit,
                   .num_units = count,
                   .read_ahead = ReadAheadBytes(),
                   .out = scratch.expanded.data()});
      for (int64_t tile = 0; tile < block.num_tiles; ++tile) {
        const int64_t num_rows = block.TileRows(tile);
        float_tiles_.tiles[num_rows](
            {.activations = packed_.data() + block.TileValues(tile) + column * num_rows,
             .weights = scratch.expanded.data(),
             .compressed = {},
             .prefetch = &no_prefetch,
             .num_steps = count * layout.unit_columns,
             .add = column > 0,
             .out = scratch.sums.data() + tile * block.height * kPanelFeatures,
             .num_rows = static_cast<int>(num_rows),
             .first_column = 0,
             .num_columns = kPanelFeatures});
      }
      column += count * layout.unit_columns;
    }
  }
  StoreRows(block, panel, 0, block.num_rows, scratch);
}

void QuantizedGemm::MultiplyInt8(const Block& block, int64_t panel, Scratch& scratch) const {
  const QuantizedLayout& layout = block.call.layout;
  const char* const data = block.PanelOf(panel);
  const auto* scales = reinterpret_cast<const float*>(data);
  const auto* code_sums = reinterpret_cast<const int32_t*>(data + layout.scale_bytes);
  alignas(64) int32_t products[kInt8AmxRows * kPanelFeatures];
  GrowTo(kInt8AmxRows * kPanelFeatures, scratch.sums);
  const Int8TileFn multiply =
      block.height > kInt8VectorRows ? int8_kernel_.amx_tile : int8_kernel_.vector_tile;
  for (int64_t tile = 0; tile < block.num_tiles; ++tile) {
    const int64_t num_rows = block.TileRows(tile);
    const CacheLine* const x = packed_int8_.data() + block.Int8TileLines(tile);
    multiply({.words = layout.WordsOf(data, 0),
              .num_units = layout.UnitsOf(0),
              .x = reinterpret_cast<const uint8_t*>(x),
              .num_rows = static_cast<int>(num_rows),
              .read_ahead = tile == 0 ? ReadAheadBytes() : 0,
              .out = products});
    for (int64_t r = 0; r < num_rows; ++r) {
      const float x_scale = x_scales_[block.first_packed_row + tile * block.height + r];
      for (int64_t f = 0; f < kPanelFeatures; ++f) {
        const int32_t sum = products[r * kPanelFeatures + f] - 128 * code_sums[f];
        scratch.sums[r * kPanelFeatures + f] = x_scale * (scales[f] * static_cast<float>(sum));
      }
    }
    StoreRows(block, panel, tile * block.height, num_rows, scratch);
  }
}

void QuantizedGemm::StoreRows(const Block& block, int64_t panel, int64_t row, int64_t num_rows,
                              const Scratch& scratch) const {
  const GroupedLinearArgs& args = block.call.args;
  const int64_t first_feature = panel * kPanelFeatures;
  const int64_t num_features = std::min(kPanelFeatures, args.weight->out_features - first_feature);
  const int64_t at = (block.first_row + row) * args.out.row_stride() + first_feature;
  const bool in_float = args.out.dtype() == DType::kF32;
  const StoreFn store = in_float ? float_tiles_.store_f32 : float_tiles_.store_bf16;
  store({.tile = scratch.sums.data(),
         .bias = scratch.bias,
         .num_rows = static_cast<int>(num_rows),
         .num_cols = static_cast<int>(num_features),
         .out = static_cast<char*>(args.out.data()) + at * DTypeBytes(args.out.dtype()),
         .row_stride = args.out.row_stride()});
}

}  // namespace quire::cpu
