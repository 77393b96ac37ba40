// Gemm: out = x * weight^T + bias over packed weights, one path for every number of rows. Each
// output is one chain of float32 multiply-adds over the input features in order, whatever the
// number of rows, so a row's bits never depend on its neighbours. Used by the stream's thread.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/gemm_kernel.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/op_args.h"

namespace quire::cpu {

class Gemm {
 public:
  explicit Gemm(Isa isa);
  ~Gemm();

  void Linear(const LinearArgs& args, ThreadPool& pool);

  // Whether weights may be compressed (compression.h).
  bool can_expand() const { return kernel_.compressed[1] != nullptr; }

 private:
  struct Block;
  struct Panel;
  struct Scratch;

  void PackActivations(const Block& block, ThreadPool& pool);
  void PackTile(const Block& block, int64_t tile);
  void Multiply(const Block& block, ThreadPool& pool);
  // next_panel: the panel to fetch meanwhile.
  void MultiplyPanel(const Block& block, int64_t panel, int64_t first_tile, int64_t last_tile,
                     int64_t next_panel, Scratch& scratch) const;
  Panel OpenPanel(const Block& block, int64_t panel, int64_t first_tile, int64_t last_tile,
                  int64_t next_panel) const;
  void MultiplyTile(const Block& block, int64_t tile, int64_t begin, int64_t end, bool is_first,
                    Panel& panel, float* sums) const;
  void StoreTile(const Block& block, int64_t tile, int64_t first_col, const float* bias,
                 const float* sums) const;

  const GemmKernel& kernel_;
  // Packed activations of one block of rows; grows to the largest shape seen.
  std::vector<uint32_t> packed_;
  std::vector<Scratch> scratch_;  // by thread
};

}  // namespace quire::cpu
