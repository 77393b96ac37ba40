// Makes the GemmKernel of a vector type; see gemm_tile-inl.h. Included by one file per instruction
// set, after its target pragma.

#include "kernels/cpu/gemm_tile-inl.h"
// After the tile that it is like.
#include "kernels/cpu/gemm_compressed-inl.h"

namespace quire::cpu {
namespace {  // NOLINT(google-build-namespaces): one copy per instruction set, see gemm_tile-inl.h

template <typename Out>
void StoreTile(const StoreArgs& args) {
  for (int r = 0; r < args.num_rows; ++r) {
    const float* tile = args.tile + r * kPanelFeatures;
    Out* out = static_cast<Out*>(args.out) + r * args.row_stride;
    for (int c = 0; c < args.num_cols; ++c) out[c] = Out(tile[c] + args.bias[c]);
  }
}

template <class V, int kRows>
constexpr void AddTiles(GemmKernel& kernel) {
  kernel.f32[kRows] = Tile<V, Elements::kF32, kRows>;
  kernel.bf16[kRows] = Tile<V, Elements::kBf16, kRows>;
  kernel.num_passes[kRows] = NumPasses<V>(kRows);
  if constexpr (!std::is_void_v<typename V::Expander>) {
    kernel.compressed[kRows] = CompressedTile<V, kRows>;
  }
  if constexpr (kRows > 1) AddTiles<V, kRows - 1>(kernel);
}

template <class V, int kMaxRows>
constexpr GemmKernel MakeGemmKernel() {
  static_assert(kMaxRows <= kMaxTileRows);
  // Where a tile is followed by others it has several passes, which leave packed steps for them.
  static_assert(NumPasses<V>((kMaxRows + 1) / 2) > 1 || std::is_void_v<typename V::Expander>);
  GemmKernel kernel = {};
  kernel.max_rows = kMaxRows;
  kernel.bf16_pairs = V::kBf16Pairs;
  AddTiles<V, kMaxRows>(kernel);
  kernel.store_f32 = StoreTile<float>;
  kernel.store_bf16 = StoreTile<BFloat16>;
  return kernel;
}

}  // namespace
}  // namespace quire::cpu
