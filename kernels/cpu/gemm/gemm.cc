#include "kernels/cpu/gemm/gemm.h"

#include <algorithm>
#include <cstring>

#include "kernels/base/check.h"
#include "kernels/base/types.h"
#include "kernels/cpu/runtime/host_info.h"

namespace quire::cpu {

namespace {

constexpr int64_t kMaxBlockRows = 512;          // bounds the packed activations
constexpr int64_t kMaxTilesPerItem = 19;        // a compressed panel is expanded once for these
constexpr int64_t kSliceSteps = 512;            // of a panel: 128 KiB, in the L2 cache
constexpr int64_t kPackRangeBytes = 32 * 1024;  // packed activations per range: some 3 us
constexpr int64_t kRangeBytes = 512 * 1024;  // weights per range, times tiles: some 15 us at least

// One row's value of a step as words of packed activations.
struct F32Step {
  using Element = float;
  static constexpr int kWords = 1;
  static void Store(const float* x, uint32_t* out) { std::memcpy(out, x, sizeof(float)); }
};
struct Bf16PairStep {
  using Element = BFloat16;
  static constexpr int kWords = 1;
  static void Store(const BFloat16* x, uint32_t* out) { std::memcpy(out, x, 2 * sizeof(*x)); }
};
struct Bf16WidenedStep {
  using Element = BFloat16;
  static constexpr int kWords = 2;
  static void Store(const BFloat16* x, uint32_t* out) {
    out[0] = static_cast<uint32_t>(x[0].bits) << 16;
    out[1] = static_cast<uint32_t>(x[1].bits) << 16;
  }
};

// A tile's rows of x, which may be anywhere.
template <typename Element>
struct TileOfX {
  TileOfX(const GroupedLinearArgs& args, int64_t first_row, int64_t num_rows)
      : num_rows(num_rows), num_features(args.x.dim(1)) {
    for (int64_t r = 0; r < num_rows; ++r) {
      rows[r] = args.x.as<Element>() + args.XRow(first_row + r) * args.x.row_stride();
    }
  }

  const int64_t num_rows;
  const int64_t num_features;
  const Element* rows[kMaxTileRows];
};

// The rows, step by step. Some steps of each row at a time, which reads whole cache lines and keeps
// what is written in the L1 cache.
template <class Step>
void PackSteps(const TileOfX<typename Step::Element>& x, uint32_t* out) {
  using Element = typename Step::Element;
  constexpr int64_t kGroup = StepFeatures(kDTypeOf<Element>);
  constexpr int64_t kStepsAtATime = 16;
  const int64_t num_whole = x.num_features / kGroup;
  const int64_t step_words = x.num_rows * Step::kWords;
  for (int64_t begin = 0; begin < num_whole; begin += kStepsAtATime) {
    const int64_t end = std::min(begin + kStepsAtATime, num_whole);
    for (int64_t r = 0; r < x.num_rows; ++r) {
      const Element* row = x.rows[r];
      uint32_t* row_out = out + r * Step::kWords;
#pragma GCC unroll 16
      for (int64_t s = begin; s < end; ++s) Step::Store(row + s * kGroup, row_out + s * step_words);
    }
  }
  if (num_whole * kGroup == x.num_features) return;
  for (int64_t r = 0; r < x.num_rows; ++r) {  // an odd last element makes a pair with zero
    const Element last[2] = {x.rows[r][x.num_features - 1], Element(0.0f)};
    Step::Store(last, out + num_whole * step_words + r * Step::kWords);
  }
}

// The same in blocks of steps, whole cache lines of a row each.
void PackBlocks(const TileOfX<BFloat16>& x, uint32_t* out) {
  constexpr int64_t kFeatures = 2 * kBlockSteps;
  for (int64_t begin = 0; begin < x.num_features; begin += kFeatures) {
    const int64_t count = std::min(kFeatures, x.num_features - begin);
    for (int64_t r = 0; r < x.num_rows; ++r) {
      if (count < kFeatures) std::memset(out, 0, kFeatures * sizeof(BFloat16));
      std::memcpy(out, x.rows[r] + begin, count * sizeof(BFloat16));
      out += kBlockSteps;
    }
  }
}

}  // namespace

void BiasOfPanel(const Tensor& bias, int64_t first, int64_t num_cols, float* out) {
  std::fill_n(out, kPanelFeatures, 0.0f);
  if (bias.empty()) return;
  for (int64_t c = 0; c < num_cols; ++c) {
    out[c] = bias.dtype() == DType::kF32 ? bias.as<float>()[first + c]
                                         : static_cast<float>(bias.as<BFloat16>()[first + c]);
  }
}

GemmKernel GemmKernelFor(Isa isa) {
  CHECK(IsaSupported(isa)) << IsaName(isa) << " is not available here";
  switch (isa) {
    case Isa::kGeneric:
      break;
#if defined(__x86_64__)
    case Isa::kAvx2:
      return {.f32 = &kAvx2F32Tiles, .bf16 = &kAvx2Bf16Tiles};
    case Isa::kAvx512:
      return {.f32 = &kAvx512F32Tiles, .bf16 = &kAvx512Bf16Tiles};
    case Isa::kAvx512Bf16:
      return {.f32 = &kAvx512F32Tiles, .bf16 = &kAvx512PairsBf16Tiles};
    case Isa::kAmxBf16:
      return {.f32 = &kAvx512F32Tiles, .bf16 = &kAmxBf16Tiles};
#else
    default:
      break;
#endif
  }
  return {.f32 = &kGenericF32Tiles, .bf16 = &kGenericBf16Tiles};
}

// All blocks of a call share this.
struct Gemm::Call {
  const GroupedLinearArgs& args;
  const TileSet& set;
  int64_t num_steps;
  int64_t row_words;   // 32-bit words of packed activations per row
  int64_t step_words;  // and per row and step

  int64_t panel_bytes() const {
    return args.weight->is_compressed() ? CompressedPanelBytes(*args.weight)
                                        : num_steps * kStepBytes;
  }
};

// Rows [first_row, first_row + num_rows) of a call, in tiles of almost equal height, and their
// matrix.
struct Gemm::Block {
  const Call& call;
  int64_t matrix;
  int64_t first_row;
  int64_t num_rows;
  int64_t num_row_groups;  // of TileSet::row_multiple rows
  int64_t num_tiles;
  int64_t num_parts;   // of its tiles: an item has a part of them
  int64_t first_word;  // of its packed activations
  int64_t first_tile;  // of all blocks' tiles, and of their items
  int64_t first_item;

  int64_t TileBegin(int64_t tile) const {
    return std::min(tile * num_row_groups / num_tiles * call.set.row_multiple, num_rows);
  }
  int64_t TileRows(int64_t tile) const { return TileBegin(tile + 1) - TileBegin(tile); }
  int64_t TileOffset(int64_t tile) const { return first_word + TileBegin(tile) * call.row_words; }
  int64_t tiles_per_part() const { return CeilDiv(num_tiles, num_parts); }
  int64_t num_items() const { return NumPanels(*call.args.weight) * num_parts; }
  const char* weights() const {
    const LinearWeight& weight = *call.args.weight;
    return static_cast<const char*>(weight.data) + matrix * weight.expert_bytes;
  }
};

// What a thread takes at a time: some tiles of rows with one panel.
struct Gemm::Item {
  const Block& block;
  int64_t panel;
  int64_t first_tile;
  int64_t last_tile;

  const char* weights() const { return block.weights() + panel * block.call.panel_bytes(); }
  int64_t first_column() const { return panel * kPanelFeatures; }
  int64_t num_columns() const {
    return std::min(kPanelFeatures, block.call.args.weight->out_features - first_column());
  }
};

// A panel as the tiles of an item read it.
struct Gemm::Panel {
  const Item& item;
  const char* weights;         // packed, or
  CompressedSteps compressed;  // of a compressed panel
  // A single pass reads memory in order and fetches what it is about to read. Several passes would
  // use the memory only in the first one, so they fetch the panel that this thread will read next.
  Prefetch prefetch;
  int num_columns;  // of a tile's calls
  // All tiles multiply some steps of some columns before they go on to the next ones, so the caches
  // keep these steps meanwhile. In a compressed panel, the first tile leaves them as packed steps
  // for the other tiles.
  bool in_slices;
};

struct Gemm::Slice {
  int64_t begin;  // steps
  int64_t end;
  int first_column;
};

// What a thread needs for a panel. Too large for a stack frame that every panel opens.
struct Gemm::Scratch {
  alignas(64) char expanded[kSliceSteps * kStepBytes];
  alignas(64) float sums[kMaxTilesPerItem * kMaxTileRows * kPanelFeatures];
};

Gemm::Gemm(const GemmKernel& kernel) : kernel_(kernel) {}
Gemm::~Gemm() = default;

void Gemm::GroupedLinear(const GroupedLinearArgs& args, ThreadPool& pool) {
  const TileSet& set = args.weight->dtype == DType::kBF16 ? *kernel_.bf16 : *kernel_.f32;
  const int64_t num_steps = NumSteps(*args.weight);
  const int64_t step_words = set.layout == ActivationLayout::kWidened ? 2 : 1;
  const int64_t packed_steps =
      set.layout == ActivationLayout::kBlocks ? RoundUp(num_steps, kBlockSteps) : num_steps;
  const Call call = {.args = args,
                     .set = set,
                     .num_steps = num_steps,
                     .row_words = packed_steps * step_words,
                     .step_words = step_words};
  ForEachRound(args, kMaxBlockRows, [&](const std::vector<RowBlock>& blocks) {
    OpenBlocks(call, blocks);
    PackActivations(call, pool);
    Multiply(call, pool);
  });
}

void Gemm::OpenBlocks(const Call& call, const std::vector<RowBlock>& blocks) {
  const TileSet& set = call.set;
  blocks_.clear();
  int64_t num_words = 0, num_tiles = 0, num_items = 0;
  for (const RowBlock& rows : blocks) {
    const int64_t num_row_groups = CeilDiv<int64_t>(rows.num_rows, set.row_multiple);
    const int64_t block_tiles = CeilDiv<int64_t>(num_row_groups, set.max_rows / set.row_multiple);
    blocks_.push_back({.call = call,
                       .matrix = rows.matrix,
                       .first_row = rows.first_row,
                       .num_rows = rows.num_rows,
                       .num_row_groups = num_row_groups,
                       .num_tiles = block_tiles,
                       .num_parts = CeilDiv(block_tiles, kMaxTilesPerItem),
                       .first_word = num_words,
                       .first_tile = num_tiles,
                       .first_item = num_items});
    num_words += rows.num_rows * call.row_words;
    num_tiles += block_tiles;
    num_items += blocks_.back().num_items();
  }
  const int64_t num_lines = CeilDiv<int64_t>(num_words * sizeof(uint32_t), sizeof(CacheLine));
  if (std::ssize(packed_) < num_lines) packed_.resize(num_lines);
}

void Gemm::PackActivations(const Call& call, ThreadPool& pool) {
  const Block& last = blocks_.back();
  const int64_t num_tiles = last.first_tile + last.num_tiles;
  const int64_t num_words = last.first_word + last.num_rows * call.row_words;
  const int64_t tile_bytes = std::max<int64_t>(1, 4 * num_words / num_tiles);
  const int64_t grain = std::max<int64_t>(1, kPackRangeBytes / tile_bytes);
  pool.ParallelFor(num_tiles, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const Block& block = BlockWith(blocks_, &Block::first_tile, i);
      PackTile(block, i - block.first_tile);
    }
  });
}

void Gemm::PackTile(const Block& block, int64_t tile) {
  const GroupedLinearArgs& args = block.call.args;
  const int64_t first_row = block.first_row + block.TileBegin(tile);
  const int64_t num_rows = block.TileRows(tile);
  uint32_t* out = reinterpret_cast<uint32_t*>(packed_.data()) + block.TileOffset(tile);
  switch (block.call.set.layout) {
    case ActivationLayout::kFloats:
      return PackSteps<F32Step>({args, first_row, num_rows}, out);
    case ActivationLayout::kPairs:
      return PackSteps<Bf16PairStep>({args, first_row, num_rows}, out);
    case ActivationLayout::kWidened:
      return PackSteps<Bf16WidenedStep>({args, first_row, num_rows}, out);
    case ActivationLayout::kBlocks:
      return PackBlocks({args, first_row, num_rows}, out);
  }
}

void Gemm::Multiply(const Call& call, ThreadPool& pool) {
  const auto num_threads = static_cast<size_t>(pool.num_threads());
  if (scratch_.size() < num_threads) scratch_.resize(num_threads);
  const Block& last = blocks_.back();
  const int64_t num_items = last.first_item + last.num_items();
  int64_t num_parts = 0;
  for (const Block& block : blocks_) num_parts += block.num_parts;
  const int64_t tiles_per_part = CeilDiv(last.first_tile + last.num_tiles, num_parts);
  const int64_t packed_bytes = call.num_steps * kStepBytes * tiles_per_part;
  const int64_t grain = std::max<int64_t>(1, kRangeBytes / packed_bytes);
  pool.ParallelFor(num_items, grain, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t i = begin; i < end; ++i) {
      const Item item = ItemAt(i);
      // Threads take ranges in turn while none is held up.
      const int64_t next = i + 1 < end ? i + 1 : end + (pool.num_threads() - 1) * grain;
      MultiplyPanel(item, next < num_items ? ItemAt(next).weights() : nullptr, scratch_[thread]);
    }
  });
}

// All parts of a panel follow one another, while it is in the shared cache.
Gemm::Item Gemm::ItemAt(int64_t i) const {
  const Block& block = BlockWith(blocks_, &Block::first_item, i);
  const int64_t within = i - block.first_item;
  const int64_t first_tile = within % block.num_parts * block.tiles_per_part();
  return {.block = block,
          .panel = within / block.num_parts,
          .first_tile = first_tile,
          .last_tile = std::min(first_tile + block.tiles_per_part(), block.num_tiles)};
}

Gemm::Panel Gemm::OpenPanel(const Item& item, const char* next_panel, Scratch& scratch) const {
  const Call& call = item.block.call;
  const LinearWeight& weight = *call.args.weight;
  const bool is_compressed = weight.is_compressed();
  const char* const weights = item.weights();
  int num_passes = 0;
  int64_t highest = 0;
  for (int64_t tile = item.first_tile; tile < item.last_tile; ++tile) {
    num_passes += call.set.num_passes[item.block.TileRows(tile)];
    highest = std::max(highest, item.block.TileRows(tile));
  }
  const int num_columns = call.set.num_columns[highest];
  num_passes *= static_cast<int>(kPanelFeatures) / num_columns;
  const bool reads_ahead = num_passes == 1;
  const bool fetches =
      reads_ahead ? ReadAheadBytes() > 0 : next_panel != nullptr && next_panel != weights;
  const int64_t step_bytes = is_compressed ? kCompressedStepBytes : kStepBytes;
  Panel panel = {.item = item,
                 .weights = weights,
                 .compressed = {},
                 .prefetch = {.next = reads_ahead ? weights + ReadAheadBytes() : next_panel,
                              .lines = fetches ? static_cast<int>(step_bytes / 64) : 0,
                              .num_passes = num_passes},
                 .num_columns = num_columns,
                 .in_slices = num_columns < kPanelFeatures || (is_compressed && num_passes > 1)};
  if (is_compressed) {
    const CompressedPanel& compressed = CompressedPanelOf(weight, item.panel);
    panel.compressed = {.panel = &compressed,
                        .first = 0,
                        .exceptions = compressed.Exceptions(call.num_steps),
                        .expanded = scratch.expanded};
    // Further tiles need what the first one leaves.
    CHECK(panel.in_slices || item.last_tile - item.first_tile == 1);
  }
  return panel;
}

void Gemm::MultiplyPanel(const Item& item, const char* next_panel, Scratch& scratch) const {
  const Call& call = item.block.call;
  alignas(64) float bias[kPanelFeatures];
  BiasOfPanel(call.args.bias,
              item.block.matrix * call.args.weight->out_features + item.first_column(),
              item.num_columns(), bias);
  Panel panel = OpenPanel(item, next_panel, scratch);
  const int64_t slice_steps = panel.in_slices ? kSliceSteps : call.num_steps;
  // A tile that is done in one go needs no place of its own.
  const int64_t sums_stride = panel.in_slices ? call.set.max_rows * kPanelFeatures : 0;
  for (int64_t begin = 0; begin < call.num_steps; begin += slice_steps) {
    const int64_t end = std::min(begin + slice_steps, call.num_steps);
    panel.compressed.first = begin;
    for (int column = 0; column < kPanelFeatures; column += panel.num_columns) {
      const Slice slice = {.begin = begin, .end = end, .first_column = column};
      const bool is_last = end == call.num_steps && column + panel.num_columns == kPanelFeatures;
      for (int64_t tile = item.first_tile; tile < item.last_tile; ++tile) {
        float* const sums = scratch.sums + (tile - item.first_tile) * sums_stride;
        MultiplyTile(panel, slice, tile, sums);
        if (is_last) StoreTile(item, tile, bias, sums);
      }
    }
    ExceptionRange& exceptions = panel.compressed.exceptions;  // those of the next steps
    while (exceptions.NextStep(end) < end) ++exceptions.next;
  }
}

// Adds the products with a slice of the panel to the tile's sums.
void Gemm::MultiplyTile(Panel& panel, const Slice& slice, int64_t tile, float* sums) const {
  const Block& block = panel.item.block;
  const int64_t num_rows = block.TileRows(tile);
  const bool is_compressed = panel.compressed.panel != nullptr;
  const bool expands = is_compressed && tile == panel.item.first_tile;
  const TileFn* const tiles = expands ? block.call.set.compressed : block.call.set.tiles;
  const char* weights =
      is_compressed ? panel.compressed.expanded : panel.weights + slice.begin * kStepBytes;
  const auto* activations =
      reinterpret_cast<const uint32_t*>(packed_.data()) + block.TileOffset(tile);
  tiles[num_rows]({.activations = activations + slice.begin * num_rows * block.call.step_words,
                   .weights = weights,
                   .compressed = panel.compressed,
                   .prefetch = &panel.prefetch,
                   .num_steps = slice.end - slice.begin,
                   .add = slice.begin > 0,
                   .out = sums,
                   .num_rows = static_cast<int>(num_rows),
                   .first_column = slice.first_column,
                   .num_columns = panel.num_columns});
}

void Gemm::StoreTile(const Item& item, int64_t tile, const float* bias, const float* sums) const {
  const Block& block = item.block;
  const Tensor& out = block.call.args.out;
  const bool to_f32 = out.dtype() == DType::kF32;
  const StoreFn store = to_f32 ? block.call.set.store_f32 : block.call.set.store_bf16;
  const int64_t out_offset =
      (block.first_row + block.TileBegin(tile)) * out.row_stride() + item.first_column();
  store({.tile = sums,
         .bias = bias,
         .num_rows = static_cast<int>(block.TileRows(tile)),
         .num_cols = static_cast<int>(item.num_columns()),
         .out = static_cast<char*>(out.data()) + out_offset * DTypeBytes(out.dtype()),
         .row_stride = out.row_stride()});
}

}  // namespace quire::cpu
