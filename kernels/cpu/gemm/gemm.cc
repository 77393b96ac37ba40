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

// Rows [first_row, first_row + num_rows) of x, step by step. Some steps of each row at a time,
// which reads whole cache lines and keeps what is written in the L1 cache.
template <class Step>
void PackRowsOfTile(const Tensor& x, int64_t first_row, int64_t num_rows, uint32_t* out) {
  using Element = typename Step::Element;
  constexpr int64_t kGroup = StepFeatures(kDTypeOf<Element>);
  constexpr int64_t kStepsAtATime = 16;
  const Element* in = x.as<Element>() + first_row * x.row_stride();
  const int64_t num_whole = x.dim(1) / kGroup;
  const int64_t step_words = num_rows * Step::kWords;
  for (int64_t begin = 0; begin < num_whole; begin += kStepsAtATime) {
    const int64_t end = std::min(begin + kStepsAtATime, num_whole);
    for (int64_t r = 0; r < num_rows; ++r) {
      const Element* row = in + r * x.row_stride();
      uint32_t* row_out = out + r * Step::kWords;
#pragma GCC unroll 16
      for (int64_t s = begin; s < end; ++s) Step::Store(row + s * kGroup, row_out + s * step_words);
    }
  }
  if (num_whole * kGroup == x.dim(1)) return;
  for (int64_t r = 0; r < num_rows; ++r) {  // an odd last element makes a pair with zero
    const Element last[2] = {in[r * x.row_stride() + x.dim(1) - 1], Element(0.0f)};
    Step::Store(last, out + num_whole * step_words + r * Step::kWords);
  }
}

// The same in blocks of steps, whole cache lines of a row each.
void PackBlocksOfTile(const Tensor& x, int64_t first_row, int64_t num_rows, uint32_t* out) {
  constexpr int64_t kFeatures = 2 * kBlockSteps;
  const BFloat16* in = x.as<BFloat16>() + first_row * x.row_stride();
  for (int64_t begin = 0; begin < x.dim(1); begin += kFeatures) {
    const int64_t count = std::min(kFeatures, x.dim(1) - begin);
    for (int64_t r = 0; r < num_rows; ++r) {
      if (count < kFeatures) std::memset(out, 0, kFeatures * sizeof(*in));
      std::memcpy(out, in + r * x.row_stride() + begin, count * sizeof(*in));
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

// Rows [first_row, first_row + num_rows) of one call, in tiles of almost equal height.
struct Gemm::Block {
  const LinearArgs& args;
  const TileSet& set;
  int64_t first_row;
  int64_t num_rows;
  int64_t num_steps;
  int64_t row_words;       // 32-bit words of packed activations per row
  int64_t step_words;      // and per row and step
  int64_t num_row_groups;  // of TileSet::row_multiple rows
  int64_t num_tiles;

  int64_t TileBegin(int64_t tile) const {
    return std::min(tile * num_row_groups / num_tiles * set.row_multiple, num_rows);
  }
  int64_t TileRows(int64_t tile) const { return TileBegin(tile + 1) - TileBegin(tile); }
  int64_t TileOffset(int64_t tile) const { return TileBegin(tile) * row_words; }
};

// What a thread takes at a time: some tiles of rows with one panel.
struct Gemm::Item {
  int64_t panel;
  int64_t first_tile;
  int64_t last_tile;
  int64_t next_panel;  // that the thread takes then; may be beyond the last one
};

// A panel as the tiles of an item read it.
struct Gemm::Panel {
  const Item& item;
  const char* weights;         // packed, or
  CompressedSteps compressed;  // of a compressed panel
  // A single pass reads memory in order and fetches what it is about to read. Several passes would
  // leave the memory idle in all but the first, so they fetch the panel that this thread is to read
  // next.
  Prefetch prefetch;
  int num_columns;  // of a tile's calls
  // All tiles multiply some steps of some columns before the next ones, which the caches keep
  // meanwhile. Of a compressed panel the first tile leaves these as packed ones for the others.
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

void Gemm::Linear(const LinearArgs& args, ThreadPool& pool) {
  const int64_t num_rows = args.x.dim(0);
  const TileSet& set = args.weight->dtype == DType::kBF16 ? *kernel_.bf16 : *kernel_.f32;
  const int64_t num_steps = NumSteps(*args.weight);
  const int64_t step_words = set.layout == ActivationLayout::kWidened ? 2 : 1;
  const int64_t packed_steps =
      set.layout == ActivationLayout::kBlocks ? RoundUp(num_steps, kBlockSteps) : num_steps;
  for (int64_t row = 0; row < num_rows; row += kMaxBlockRows) {
    const int64_t block_rows = std::min(kMaxBlockRows, num_rows - row);
    const int64_t num_row_groups = CeilDiv<int64_t>(block_rows, set.row_multiple);
    const Block block = {
        .args = args,
        .set = set,
        .first_row = row,
        .num_rows = block_rows,
        .num_steps = num_steps,
        .row_words = packed_steps * step_words,
        .step_words = step_words,
        .num_row_groups = num_row_groups,
        .num_tiles = CeilDiv<int64_t>(num_row_groups, set.max_rows / set.row_multiple)};
    PackActivations(block, pool);
    Multiply(block, pool);
  }
}

void Gemm::PackActivations(const Block& block, ThreadPool& pool) {
  const int64_t num_words = block.num_rows * block.row_words;
  const int64_t num_lines = CeilDiv<int64_t>(num_words * sizeof(uint32_t), sizeof(CacheLine));
  if (std::ssize(packed_) < num_lines) packed_.resize(num_lines);
  const int64_t tile_bytes = 4 * num_words / block.num_tiles;
  const int64_t grain = std::max<int64_t>(1, kPackRangeBytes / tile_bytes);
  pool.ParallelFor(block.num_tiles, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t tile = begin; tile < end; ++tile) PackTile(block, tile);
  });
}

void Gemm::PackTile(const Block& block, int64_t tile) {
  const Tensor& x = block.args.x;
  const int64_t first_row = block.first_row + block.TileBegin(tile);
  const int64_t num_rows = block.TileRows(tile);
  uint32_t* out = reinterpret_cast<uint32_t*>(packed_.data()) + block.TileOffset(tile);
  switch (block.set.layout) {
    case ActivationLayout::kFloats:
      return PackRowsOfTile<F32Step>(x, first_row, num_rows, out);
    case ActivationLayout::kPairs:
      return PackRowsOfTile<Bf16PairStep>(x, first_row, num_rows, out);
    case ActivationLayout::kWidened:
      return PackRowsOfTile<Bf16WidenedStep>(x, first_row, num_rows, out);
    case ActivationLayout::kBlocks:
      return PackBlocksOfTile(x, first_row, num_rows, out);
  }
}

void Gemm::Multiply(const Block& block, ThreadPool& pool) {
  const auto num_threads = static_cast<size_t>(pool.num_threads());
  if (scratch_.size() < num_threads) scratch_.resize(num_threads);
  const LinearWeight& weight = *block.args.weight;
  const int64_t num_groups = CeilDiv(block.num_tiles, kMaxTilesPerItem);
  const int64_t tiles_per_group = CeilDiv(block.num_tiles, num_groups);
  const int64_t panel_bytes = block.num_steps * kStepBytes;
  const int64_t grain = std::max<int64_t>(1, kRangeBytes / (panel_bytes * tiles_per_group));
  // All groups of rows of a panel follow one another, while it is in the shared cache.
  pool.ParallelFor(
      NumPanels(weight) * num_groups, grain, [&](int64_t begin, int64_t end, int thread) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t first_tile = i % num_groups * tiles_per_group;
          // Threads take ranges in turn while none is held up.
          const int64_t next = i + 1 < end ? i + 1 : end + (pool.num_threads() - 1) * grain;
          MultiplyPanel(block,
                        {.panel = i / num_groups,
                         .first_tile = first_tile,
                         .last_tile = std::min(first_tile + tiles_per_group, block.num_tiles),
                         .next_panel = next / num_groups},
                        scratch_[thread]);
        }
      });
}

Gemm::Panel Gemm::OpenPanel(const Block& block, const Item& item, Scratch& scratch) const {
  const LinearWeight& weight = *block.args.weight;
  const bool is_compressed = weight.is_compressed();
  const int64_t panel_bytes =
      is_compressed ? CompressedPanelBytes(weight) : block.num_steps * kStepBytes;
  const char* const data = static_cast<const char*>(weight.data);
  const char* const weights = data + item.panel * panel_bytes;
  int num_passes = 0;
  int64_t highest = 0;
  for (int64_t tile = item.first_tile; tile < item.last_tile; ++tile) {
    num_passes += block.set.num_passes[block.TileRows(tile)];
    highest = std::max(highest, block.TileRows(tile));
  }
  const int num_columns = block.set.num_columns[highest];
  num_passes *= static_cast<int>(kPanelFeatures) / num_columns;
  const bool reads_ahead = num_passes == 1;
  const bool fetches = reads_ahead
                           ? ReadAheadBytes() > 0
                           : item.next_panel != item.panel && item.next_panel < NumPanels(weight);
  const int64_t step_bytes = is_compressed ? kCompressedStepBytes : kStepBytes;
  Panel panel = {.item = item,
                 .weights = weights,
                 .compressed = {},
                 .prefetch = {.next = reads_ahead ? weights + ReadAheadBytes()
                                                  : data + item.next_panel * panel_bytes,
                              .lines = fetches ? static_cast<int>(step_bytes / 64) : 0,
                              .num_passes = num_passes},
                 .num_columns = num_columns,
                 .in_slices = num_columns < kPanelFeatures || (is_compressed && num_passes > 1)};
  if (is_compressed) {
    const CompressedPanel& compressed = CompressedPanelOf(weight, item.panel);
    panel.compressed = {.panel = &compressed,
                        .first = 0,
                        .exceptions = compressed.Exceptions(block.num_steps),
                        .expanded = scratch.expanded};
    // Further tiles need what the first one leaves.
    CHECK(panel.in_slices || item.last_tile - item.first_tile == 1);
  }
  return panel;
}

void Gemm::MultiplyPanel(const Block& block, const Item& item, Scratch& scratch) const {
  alignas(64) float bias[kPanelFeatures];
  const int64_t first_col = item.panel * kPanelFeatures;
  BiasOfPanel(block.args.bias, first_col,
              std::min(kPanelFeatures, block.args.weight->out_features - first_col), bias);
  Panel panel = OpenPanel(block, item, scratch);
  const int64_t slice_steps = panel.in_slices ? kSliceSteps : block.num_steps;
  // A tile that is done in one go needs no place of its own.
  const int64_t sums_stride = panel.in_slices ? block.set.max_rows * kPanelFeatures : 0;
  for (int64_t begin = 0; begin < block.num_steps; begin += slice_steps) {
    const int64_t end = std::min(begin + slice_steps, block.num_steps);
    panel.compressed.first = begin;
    for (int column = 0; column < kPanelFeatures; column += panel.num_columns) {
      const Slice slice = {.begin = begin, .end = end, .first_column = column};
      const bool is_last = end == block.num_steps && column + panel.num_columns == kPanelFeatures;
      for (int64_t tile = item.first_tile; tile < item.last_tile; ++tile) {
        float* const sums = scratch.sums + (tile - item.first_tile) * sums_stride;
        MultiplyTile(block, panel, slice, tile, sums);
        if (is_last) StoreTile(block, tile, first_col, bias, sums);
      }
    }
    ExceptionRange& exceptions = panel.compressed.exceptions;  // those of the next steps
    while (exceptions.NextStep(end) < end) ++exceptions.next;
  }
}

// Adds the products with a slice of the panel to the tile's sums.
void Gemm::MultiplyTile(const Block& block, Panel& panel, const Slice& slice, int64_t tile,
                        float* sums) const {
  const int64_t num_rows = block.TileRows(tile);
  const bool is_compressed = panel.compressed.panel != nullptr;
  const bool expands = is_compressed && tile == panel.item.first_tile;
  const TileFn* const tiles = expands ? block.set.compressed : block.set.tiles;
  const char* weights =
      is_compressed ? panel.compressed.expanded : panel.weights + slice.begin * kStepBytes;
  const auto* activations =
      reinterpret_cast<const uint32_t*>(packed_.data()) + block.TileOffset(tile);
  tiles[num_rows]({.activations = activations + slice.begin * num_rows * block.step_words,
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

void Gemm::StoreTile(const Block& block, int64_t tile, int64_t first_col, const float* bias,
                     const float* sums) const {
  const LinearArgs& args = block.args;
  const int64_t num_cols = std::min(kPanelFeatures, args.weight->out_features - first_col);
  const bool to_f32 = args.out.dtype() == DType::kF32;
  const StoreFn store = to_f32 ? block.set.store_f32 : block.set.store_bf16;
  const int64_t out_offset =
      (block.first_row + block.TileBegin(tile)) * args.out.row_stride() + first_col;
  store({.tile = sums,
         .bias = bias,
         .num_rows = static_cast<int>(block.TileRows(tile)),
         .num_cols = static_cast<int>(num_cols),
         .out = static_cast<char*>(args.out.data()) + out_offset * DTypeBytes(args.out.dtype()),
         .row_stride = args.out.row_stride()});
}

}  // namespace quire::cpu
