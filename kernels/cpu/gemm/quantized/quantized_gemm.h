// QuantizedGemm: out = x * weight^T + bias over quantized weights, in their own format. A row's
// bits do not depend on the rows beside it, nor on the number of threads. Used by the stream's
// thread.
#pragma once

#include <vector>

#include "kernels/cpu/gemm/gemm_kernel.h"
#include "kernels/cpu/gemm/grouped_linear.h"
#include "kernels/cpu/gemm/quantized/int8_tile.h"
#include "kernels/cpu/gemm/quantized/pair_steps.h"
#include "kernels/cpu/gemm/quantized/quantized_panel.h"
#include "kernels/cpu/gemm/quantized/quantized_tile.h"
#include "kernels/cpu/runtime/thread_pool.h"
#include "kernels/op_args.h"

namespace quire::cpu {

class QuantizedGemm {
 public:
  // Without AMX's pairs bfloat16 is multiplied as float32.
  QuantizedGemm(const TileSet& float_tiles, bool has_amx_pairs, const Int8Kernel& int8_kernel);
  explicit QuantizedGemm(Isa isa);
  ~QuantizedGemm();

  // x and out are float32 or bfloat16.
  void Linear(const LinearArgs& args, ThreadPool& pool) {
    GroupedLinear(GroupedLinearArgs::Of(args), pool);
  }
  void GroupedLinear(const GroupedLinearArgs& args, ThreadPool& pool);

 private:
  // How x is multiplied: as float32; in bfloat16 by AMX; rounded to int8.
  enum class Way : uint8_t { kFloats, kPairs, kInt8 };
  struct Call;
  struct Block;
  struct Scratch;

  Way WayOf(const GroupedLinearArgs& args) const;
  int64_t TileHeight(Way way, int64_t num_rows) const;
  void OpenBlocks(const Call& call, const std::vector<RowBlock>& blocks);
  template <typename Run>
  void ForEachItem(ThreadPool& pool, int64_t Block::*first_item, int64_t num_items, int64_t grain,
                   const Run& run);
  void Pack(const Call& call, ThreadPool& pool);
  void PackFloats(const Call& call, ThreadPool& pool);
  void PackTile(const Block& block, int64_t tile, Scratch& scratch);
  void PackPairs(const Call& call, ThreadPool& pool);
  void PackPairsRow(const Block& block, int64_t row, Scratch& scratch);
  void PackInt8(const Call& call, ThreadPool& pool);
  void PackInt8Row(const Block& block, int64_t row, Scratch& scratch);
  void Multiply(const Call& call, ThreadPool& pool);
  void MultiplyPanel(const Block& block, int64_t panel, Scratch& scratch) const;
  void MultiplyFewRows(const Block& block, int64_t panel, Scratch& scratch) const;
  void MultiplyManyRows(const Block& block, int64_t panel, Scratch& scratch) const;
  void MultiplyPairs(const Block& block, int64_t panel, Scratch& scratch) const;
  void MultiplyInt8(const Block& block, int64_t panel, Scratch& scratch) const;
  // The sums of rows of the block, from the first one in `scratch` on, with their bias, to out.
  void StoreRows(const Block& block, int64_t panel, int64_t row, int64_t num_rows,
                 Scratch& scratch) const;

  const TileSet& float_tiles_;
  const bool has_amx_pairs_;
  const Int8Kernel int8_kernel_;
  // The blocks that are multiplied now, and their rows by tile; they grow to the largest shape
  // seen.
  std::vector<Block> blocks_;
  std::vector<float> packed_;
  std::vector<CacheLine> packed_lines_;  // pairs or int8; AMX loads whole lines
  std::vector<float> x_scales_;          // of int8 rows
  std::vector<float> span_sums_;         // of blocks' rows in pairs, by span
  std::vector<Scratch> scratch_;         // by thread
};

}  // namespace quire::cpu
