// GroupedLinearArgs: what both gemms compute: rows sorted by the matrix that each is multiplied
// with, one of several, as those of a mixture's experts are; or of the only one. Plain values; any
// thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/base/tensor.h"
#include "kernels/op_args.h"

namespace quire::cpu {

// out[i] = x[XRow(i)] * matrix^T + bias.
struct GroupedLinearArgs {
  Tensor x;                    // [num_x_rows, in_features]
  const LinearWeight* weight;  // num_experts of [out_features, in_features]
  Tensor bias = {};            // [num_experts, out_features] or empty
  Tensor out;                  // [num_rows, out_features]
  // Rows from offsets[e] to offsets[e + 1] have matrix e; null: there is only one.
  const int32_t* offsets = nullptr;  // [num_experts + 1]
  // Row i is of the token of pairs[i] (Routing); null: of row i of x.
  const int32_t* pairs = nullptr;  // [num_rows]
  int64_t top_k = 1;

  static GroupedLinearArgs Of(const LinearArgs& args) {
    return {.x = args.x, .weight = args.weight, .bias = args.bias, .out = args.out};
  }
  int64_t num_rows() const { return out.dim(0); }
  int64_t XRow(int64_t row) const { return pairs == nullptr ? row : pairs[row] / top_k; }
};

// Neighbouring rows of one matrix, which are multiplied together.
struct RowBlock {
  int64_t matrix;
  int64_t first_row;
  int64_t num_rows;
};

// Calls run(blocks) for some blocks of at most max_block_rows rows at a time, until all rows had
// their turn: for one block of an only matrix, which leaves the threads no time to wait; of several
// for as many as have kMaxRoundRows rows together, so that small ones share the threads.
template <typename Run>
void ForEachRound(const GroupedLinearArgs& args, int64_t max_block_rows, const Run& run) {
  constexpr int64_t kMaxRoundRows = 2048;  // bounds what is packed at a time
  const bool is_only = args.offsets == nullptr;
  std::vector<RowBlock> blocks;
  int64_t num_rows = 0;
  const auto flush = [&] {
    if (!blocks.empty()) run(blocks);
    blocks.clear();
    num_rows = 0;
  };
  for (int64_t matrix = 0; matrix < args.weight->num_experts; ++matrix) {
    const int64_t end = is_only ? args.num_rows() : args.offsets[matrix + 1];
    for (int64_t row = is_only ? 0 : args.offsets[matrix]; row < end;) {
      const int64_t count = std::min(max_block_rows, end - row);
      if (is_only || num_rows + count > kMaxRoundRows) flush();
      blocks.push_back({.matrix = matrix, .first_row = row, .num_rows = count});
      num_rows += count;
      row += count;
    }
  }
  flush();
}

// The block that has item i. `blocks` are in the order of their first items, and each has at least
// one item.
template <typename Block>
const Block& BlockWith(const std::vector<Block>& blocks, int64_t Block::*first_item, int64_t i) {
  const auto after =
      std::upper_bound(blocks.begin(), blocks.end(), i,
                       [&](int64_t i, const Block& block) { return i < block.*first_item; });
  return *(after - 1);
}

}  // namespace quire::cpu
