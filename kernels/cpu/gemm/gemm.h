// Gemm: out = x * weight^T + bias over packed weights, one path for every number of rows. Each
// output is one chain of float32 multiply-adds over the input features in order (with AMX: over
// blocks of them), whatever the number of rows, so a row's bits never depend on its neighbours.
// Used by the stream's thread.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/gemm/gemm_kernel.h"
#include "kernels/cpu/gemm/grouped_linear.h"
#include "kernels/cpu/gemm/packing.h"
#include "kernels/cpu/runtime/isa.h"
#include "kernels/cpu/runtime/thread_pool.h"
#include "kernels/op_args.h"

namespace quire::cpu {

class Gemm {
 public:
  explicit Gemm(const GemmKernel& kernel);
  explicit Gemm(Isa isa) : Gemm(GemmKernelFor(isa)) {}
  ~Gemm();

  void Linear(const LinearArgs& args, ThreadPool& pool) {
    GroupedLinear(GroupedLinearArgs::Of(args), pool);
  }
  void GroupedLinear(const GroupedLinearArgs& args, ThreadPool& pool);

  // Whether weights may be compressed (compression.h).
  bool can_expand() const { return kernel_.bf16->compressed[1] != nullptr; }

 private:
  struct Call;
  struct Block;
  struct Item;
  struct Panel;
  struct Slice;
  struct Scratch;

  void OpenBlocks(const Call& call, const std::vector<RowBlock>& blocks);
  void PackActivations(const Call& call, ThreadPool& pool);
  void PackTile(const Block& block, int64_t tile);
  void Multiply(const Call& call, ThreadPool& pool);
  Item ItemAt(int64_t i) const;
  void MultiplyPanel(const Item& item, const char* next_panel, Scratch& scratch) const;
  Panel OpenPanel(const Item& item, const char* next_panel, Scratch& scratch) const;
  void MultiplyTile(Panel& panel, const Slice& slice, int64_t tile, float* sums) const;
  void StoreTile(const Item& item, int64_t tile, const float* bias, const float* sums) const;

  const GemmKernel kernel_;
  // The blocks that are multiplied now, and their packed activations. Both grow to the largest
  // shape seen. AMX loads whole lines.
  std::vector<Block> blocks_;
  std::vector<CacheLine> packed_;
  std::vector<Scratch> scratch_;  // by thread
};

}  // namespace quire::cpu
