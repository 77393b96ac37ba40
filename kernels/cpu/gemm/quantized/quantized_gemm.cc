#include "kernels/cpu/gemm/quantized/quantized_gemm.h"

#include <algorithm>

#include "kernels/base/check.h"
#include "kernels/base/types.h"
#include "kernels/cpu/gemm/quantized/activation_rows.h"
#include "kernels/cpu/gemm/quantized/pair_amx.h"
#include "kernels/cpu/runtime/amx.h"
#include "kernels/cpu/runtime/host_info.h"

namespace quire::cpu {

namespace {

constexpr int64_t kMaxBlockRows =
    224;  // bounds the packed activations; whole tiles of 14 or 32 rows
constexpr int64_t kSliceColumns = 64;        // expanded at a time: 16 KiB
constexpr int64_t kSliceBlocks = 8;          // of pairs, likewise: 32 KiB
constexpr int64_t kPairRows = 2 * kAmxRows;  // of a tile
constexpr int64_t kRangeBytes = 256 * 1024;

template <typename T>
void GrowTo(int64_t size, std::vector<T>& values) {
  if (std::ssize(values) < size) values.resize(size);
}

}  // namespace

// All blocks of a call share this.
struct QuantizedGemm::Call {
  const GroupedLinearArgs& args;
  const QuantizedLayout& layout;
  const PairSteps& pair_steps;
  Way way;

  // The lines of a packed row.
  int64_t RowLines() const {
    return way == Way::kPairs ? pair_steps.num_blocks : CeilDiv(layout.UnitsOf(0), kInt8BlockUnits);
  }
};

// Rows [first_row, first_row + num_rows) of a call, in tiles of one height except the last, and
// their matrix.
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
  int64_t TileLines(int64_t tile) const {
    return (first_packed_row + tile * height) * call.RowLines();
  }
  // The place of a row's sum over a span.
  int64_t SpanSum(int64_t span, int64_t row) const {
    return first_packed_row * call.pair_steps.num_spans + span * num_rows + row;
  }
  LinearWeight weight() const { return call.args.weight->Expert(matrix); }
  const char* PanelOf(int64_t panel) const {
    return static_cast<const char*>(weight().data) + panel * call.layout.panel_bytes;
  }
};

// Values from a cache line on: vectors and AMX take twice as long for what lies across two.
template <typename T>
class Lines {
 public:
  void GrowTo(int64_t size) {
    const int64_t num_lines = CeilDiv<int64_t>(size * sizeof(T), sizeof(CacheLine));
    if (std::ssize(lines_) < num_lines) lines_.resize(num_lines);
  }
  T* data() { return reinterpret_cast<T*>(lines_.data()); }

 private:
  std::vector<CacheLine> lines_;
};

// What a thread needs for a row or a panel.
struct QuantizedGemm::Scratch {
  std::vector<float> row;           // of x
  Lines<float> expanded;            // [kSliceColumns, kPanelFeatures]
  Lines<float> sums;                // [kMaxBlockRows, kPanelFeatures]
  std::vector<BFloat16> pairs_row;  // of x
  Lines<uint32_t> steps;            // [kSliceBlocks * kBlockSteps, kPanelFeatures] pairs
  Lines<float> sums_of_span;        // [kMaxBlockRows, kPanelFeatures]
  float bias[kPanelFeatures];       // of the panel
};

QuantizedGemm::QuantizedGemm(const TileSet& float_tiles, bool has_amx_pairs,
                             const Int8Kernel& int8_kernel)
    : float_tiles_(float_tiles), has_amx_pairs_(has_amx_pairs), int8_kernel_(int8_kernel) {}

// Vector units that multiply bfloat16 would need values of few rows, too, written to memory first:
// a row has the same bits in any batch.
QuantizedGemm::QuantizedGemm(Isa isa)
    : QuantizedGemm(*GemmKernelFor(isa).f32, isa == Isa::kAmxBf16, Int8KernelFor(isa)) {}
QuantizedGemm::~QuantizedGemm() = default;

QuantizedGemm::Way QuantizedGemm::WayOf(const GroupedLinearArgs& args) const {
  if (args.weight->activations.value == ActivationValue::kInt8) return Way::kInt8;
  return has_amx_pairs_ && args.x.dtype() == DType::kBF16 ? Way::kPairs : Way::kFloats;
}

int64_t QuantizedGemm::TileHeight(Way way, int64_t num_rows) const {
  if (way == Way::kPairs) return kPairRows;
  const bool is_int8 = way == Way::kInt8;
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
  const PairSteps pair_steps(layout);
  const Call call = {.args = args, .layout = layout, .pair_steps = pair_steps, .way = WayOf(args)};
  CHECK(call.way != Way::kInt8 ||
        (layout.num_groups == 1 && args.weight->format.value == WeightValue::kInt8));
  if (std::ssize(scratch_) < pool.num_threads()) scratch_.resize(pool.num_threads());
  ForEachRound(args, kMaxBlockRows, [&](const std::vector<RowBlock>& blocks) {
    OpenBlocks(call, blocks);
    Pack(call, pool);
    Multiply(call, pool);
  });
}

void QuantizedGemm::OpenBlocks(const Call& call, const std::vector<RowBlock>& blocks) {
  blocks_.clear();
  int64_t num_rows = 0, num_tiles = 0, num_panels = 0;
  for (const RowBlock& rows : blocks) {
    const int64_t height = TileHeight(call.way, rows.num_rows);
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

// Calls run(block, item of the block, scratch) for all of the blocks' rows, tiles or panels.
template <typename Run>
void QuantizedGemm::ForEachItem(ThreadPool& pool, int64_t Block::*first_item, int64_t num_items,
                                int64_t grain, const Run& run) {
  pool.ParallelFor(num_items, grain, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t i = begin; i < end; ++i) {
      const Block& block = BlockWith(blocks_, first_item, i);
      run(block, i - block.*first_item, scratch_[thread]);
    }
  });
}

void QuantizedGemm::Pack(const Call& call, ThreadPool& pool) {
  switch (call.way) {
    case Way::kFloats:
      return PackFloats(call, pool);
    case Way::kPairs:
      return PackPairs(call, pool);
    case Way::kInt8:
      return PackInt8(call, pool);
  }
}

void QuantizedGemm::PackFloats(const Call& call, ThreadPool& pool) {
  const Block& last = blocks_.back();
  GrowTo((last.first_packed_row + last.num_rows) * call.layout.padded_columns(), packed_);
  ForEachItem(pool, &Block::first_tile, last.first_tile + last.num_tiles, 1,
              [this](const Block& block, int64_t tile, Scratch& scratch) {
                PackTile(block, tile, scratch);
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

void QuantizedGemm::PackPairs(const Call& call, ThreadPool& pool) {
  const Block& last = blocks_.back();
  const int64_t num_rows = last.first_packed_row + last.num_rows;
  GrowTo(num_rows * call.RowLines(), packed_lines_);
  if (call.layout.zero_bytes > 0) GrowTo(num_rows * call.pair_steps.num_spans, span_sums_);
  ForEachItem(pool, &Block::first_packed_row, num_rows, 1,
              [this](const Block& block, int64_t row, Scratch& scratch) {
                PackPairsRow(block, row, scratch);
              });
}

void QuantizedGemm::PackPairsRow(const Block& block, int64_t row, Scratch& scratch) {
  const GroupedLinearArgs& args = block.call.args;
  const QuantizedLayout& layout = block.call.layout;
  const PairSteps& steps = block.call.pair_steps;
  const int64_t tile = row / block.height;
  const auto* const x =
      args.x.as<BFloat16>() + args.XRow(block.first_row + row) * args.x.row_stride();
  GrowTo(2 * kBlockSteps * steps.num_blocks, scratch.pairs_row);
  PlaceColumns(layout, steps, x, layout.OrderOf(block.weight()), scratch.pairs_row.data());
  CacheLine* const out = packed_lines_.data() + block.TileLines(tile) + row % block.height;
  PackSteps({.steps = &steps,
             .row = scratch.pairs_row.data(),
             .block_stride = block.TileRows(tile) * int64_t{sizeof(CacheLine)},
             .out = reinterpret_cast<char*>(out),
             .sum_stride = block.num_rows,
             .span_sums = layout.zero_bytes > 0 ? &span_sums_[block.SpanSum(0, row)] : nullptr});
}

void QuantizedGemm::PackInt8(const Call& call, ThreadPool& pool) {
  const Block& last = blocks_.back();
  const int64_t num_rows = last.first_packed_row + last.num_rows;
  GrowTo(num_rows * call.RowLines(), packed_lines_);
  GrowTo(num_rows, x_scales_);
  ForEachItem(pool, &Block::first_packed_row, num_rows, 1,
              [this](const Block& block, int64_t row, Scratch& scratch) {
                PackInt8Row(block, row, scratch);
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
  CacheLine* const out = packed_lines_.data() + block.TileLines(tile) + row % block.height;
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
  ForEachItem(pool, &Block::first_panel, num_panels, grain,
              [this](const Block& block, int64_t panel, Scratch& scratch) {
                MultiplyPanel(block, panel, scratch);
              });
}

void QuantizedGemm::MultiplyPanel(const Block& block, int64_t panel, Scratch& scratch) const {
  const GroupedLinearArgs& args = block.call.args;
  const int64_t first_feature = panel * kPanelFeatures;
  BiasOfPanel(args.bias, block.matrix * args.weight->out_features + first_feature,
              std::min(kPanelFeatures, args.weight->out_features - first_feature), scratch.bias);
  if (block.call.way == Way::kInt8) return MultiplyInt8(block, panel, scratch);
  if (block.call.way == Way::kPairs) return MultiplyPairs(block, panel, scratch);
  if (block.num_rows <= kMaxFusedRows) return MultiplyFewRows(block, panel, scratch);
  MultiplyManyRows(block, panel, scratch);
}

void QuantizedGemm::MultiplyFewRows(const Block& block, int64_t panel, Scratch& scratch) const {
  scratch.sums.GrowTo(kMaxFusedRows * kPanelFeatures);
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
  scratch.expanded.GrowTo(kSliceColumns * kPanelFeatures);
  scratch.sums.GrowTo(kMaxBlockRows * kPanelFeatures);
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

#if defined(__x86_64__)

void QuantizedGemm::MultiplyPairs(const Block& block, int64_t panel, Scratch& scratch) const {
  const Call& call = block.call;
  scratch.sums.GrowTo(kMaxBlockRows * kPanelFeatures);
  const auto tile_rows = [&](int64_t tile) {
    const int64_t row = tile * block.height;
    const bool has_zeros = call.layout.zero_bytes > 0;
    return PairRows{.layout = &call.layout,
                    .steps = &call.pair_steps,
                    .panel = block.PanelOf(panel),
                    .x = packed_lines_.data() + block.TileLines(tile),
                    .num_rows = static_cast<int>(block.TileRows(tile)),
                    .span_sums = has_zeros ? &span_sums_[block.SpanSum(0, row)] : nullptr,
                    .span_sum_stride = block.num_rows,
                    .out = scratch.sums.data() + row * kPanelFeatures};
  };
  const int64_t num_blocks = call.pair_steps.num_blocks;
  if (block.num_rows <= kAmxRows) {
    PairAmxTile(tile_rows(0), ReadAheadBytes());
    return StoreRows(block, panel, 0, block.num_rows, scratch);
  }
  scratch.steps.GrowTo(kSliceBlocks * kBlockSteps * kPanelFeatures);
  scratch.sums_of_span.GrowTo(kMaxBlockRows * kPanelFeatures);
  for (int64_t first = 0; first < num_blocks; first += kSliceBlocks) {
    const int64_t count = std::min(kSliceBlocks, num_blocks - first);
    ExpandBlocks({.layout = &call.layout,
                  .steps = &call.pair_steps,
                  .panel = block.PanelOf(panel),
                  .first_block = first,
                  .num_blocks = count,
                  .read_ahead = ReadAheadBytes(),
                  .out = scratch.steps.data()});
    for (int64_t tile = 0; tile < block.num_tiles; ++tile) {
      PairAmxSlice(tile_rows(tile),
                   {.blocks = scratch.steps.data(), .first_block = first, .num_blocks = count},
                   scratch.sums_of_span.data() + tile * block.height * kPanelFeatures);
    }
  }
  StoreRows(block, panel, 0, block.num_rows, scratch);
}

#else

void QuantizedGemm::MultiplyPairs(const Block&, int64_t, Scratch&) const {
  CHECK(false) << "AMX is x86's";
}

#endif

void QuantizedGemm::MultiplyInt8(const Block& block, int64_t panel, Scratch& scratch) const {
  const QuantizedLayout& layout = block.call.layout;
  const char* const data = block.PanelOf(panel);
  const auto* scales = reinterpret_cast<const float*>(data);
  const auto* code_sums = reinterpret_cast<const int32_t*>(data + layout.scale_bytes);
  alignas(64) int32_t products[kInt8AmxRows * kPanelFeatures];
  scratch.sums.GrowTo(kInt8AmxRows * kPanelFeatures);
  const Int8TileFn multiply =
      block.height > kInt8VectorRows ? int8_kernel_.amx_tile : int8_kernel_.vector_tile;
  for (int64_t tile = 0; tile < block.num_tiles; ++tile) {
    const int64_t num_rows = block.TileRows(tile);
    const CacheLine* const x = packed_lines_.data() + block.TileLines(tile);
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
        scratch.sums.data()[r * kPanelFeatures + f] =
            x_scale * (scales[f] * static_cast<float>(sum));
      }
    }
    StoreRows(block, panel, tile * block.height, num_rows, scratch);
  }
}

void QuantizedGemm::StoreRows(const Block& block, int64_t panel, int64_t row, int64_t num_rows,
                              Scratch& scratch) const {
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
