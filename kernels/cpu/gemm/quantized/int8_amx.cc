// Int8 times int8 with AMX, by the tile that bfloat16 has (amx_tile-inl.h): 64 columns of x at a
// time.
#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/cpu/gemm/gemm_kernel.h"
#include "kernels/cpu/gemm/packing.h"
#include "kernels/cpu/gemm/quantized/int8_tile.h"
#include "kernels/cpu/gemm/quantized/quantized_panel.h"
#include "kernels/cpu/runtime/amx.h"

// After what it is written in.
#include "kernels/cpu/gemm/amx_tile-inl.h"

namespace quire::cpu {

static_assert(kUnitBytes == kStepBytes && kInt8BlockUnits == kBlockSteps);
static_assert(kInt8AmxRows == 2 * kAmxRows);

void Int8AmxTile(const Int8TileArgs& args) {
  const bool fetches = args.read_ahead > 0;
  Prefetch prefetch = {.next = reinterpret_cast<const char*>(args.words) + args.read_ahead,
                       .lines = fetches ? static_cast<int>(kUnitBytes / 64) : 0,
                       .num_passes = 1};
  const bool is_high = args.num_rows > kAmxRows;
  TileArgs tile = {.activations = args.x,
                   .weights = args.words,
                   .compressed = {},
                   .prefetch = &prefetch,
                   .num_steps = args.num_units,
                   .add = false,
                   .out = reinterpret_cast<float*>(args.out),  // only AMX writes there: int32
                   .num_rows = args.num_rows,
                   .first_column = 0,
                   .num_columns = static_cast<int>(is_high ? kPanelFeatures / 2 : kPanelFeatures)};
  if (!is_high) return MultiplyPacked<AmxStep::kInt8, 1, 4>(tile);
  MultiplyPacked<AmxStep::kInt8, 2, 2>(tile);
  prefetch.lines = 0;  // the first pass has fetched whole units
  tile.first_column = tile.num_columns;
  MultiplyPacked<AmxStep::kInt8, 2, 2>(tile);
}

}  // namespace quire::cpu
