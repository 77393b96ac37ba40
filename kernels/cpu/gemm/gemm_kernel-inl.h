// Makes the TileSets of a vector type; see gemm_tile-inl.h. Included by one file per instruction
// set, after its target pragma.

#include "kernels/cpu/gemm/gemm_tile-inl.h"
// After the tile that it is like.
#include "kernels/cpu/gemm/gemm_compressed-inl.h"

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

template <class V, Elements kElements, int kRows>
constexpr void AddTiles(TileSet& set) {
  set.tiles[kRows] = Tile<V, kElements, kRows>;
  if constexpr (kElements == Elements::kBf16 && !std::is_void_v<typename V::Expander>) {
    set.compressed[kRows] = CompressedTile<V, kRows>;
  }
  set.num_columns[kRows] = kPanelFeatures;
  set.num_passes[kRows] = NumPasses<V>(kRows);
  if constexpr (kRows > 1) AddTiles<V, kElements, kRows - 1>(set);
}

template <class V, Elements kElements, int kMaxRows>
constexpr TileSet MakeTileSet() {
  static_assert(kMaxRows <= kMaxTileRows);
  // Where a tile is followed by others it has several passes, which leave packed steps for them.
  static_assert(NumPasses<V>((kMaxRows + 1) / 2) > 1 || std::is_void_v<typename V::Expander>);
  TileSet set = {};
  set.layout = kElements == Elements::kF32 ? ActivationLayout::kFloats
               : V::kBf16Pairs             ? ActivationLayout::kPairs
                                           : ActivationLayout::kWidened;
  set.max_rows = kMaxRows;
  set.row_multiple = 1;
  AddTiles<V, kElements, kMaxRows>(set);
  set.store_f32 = StoreTile<float>;
  set.store_bf16 = StoreTile<BFloat16>;
  return set;
}

}  // namespace
}  // namespace quire::cpu
