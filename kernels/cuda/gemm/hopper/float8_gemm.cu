#include "kernels/cuda/gemm/hopper/float8_gemm.h"
#include "kernels/cuda/runtime/row_grid.cuh"
#include "kernels/cuda/runtime/tensor_map.h"
#include "kernels/cuda/runtime/vector.cuh"
#include "kernels/float8_rows.h"

namespace quire::cuda {

GemmMaps MapsOf(const LinearArgs& args, int weight_rows, int x_rows) {
  const LinearWeight& weight = *args.weight;
  if (HasFloat8Tiles(weight)) {
    const Float8Rows rows(args.x);
    return {.weight = {},
            .x = EncodeFloat8MatrixMap(rows.data, rows.num_rows, rows.row_bytes(), x_rows)};
  }
  return {.weight = EncodeMatrixMap(weight.data, weight.dtype, weight.out_features,
                                    weight.in_features, weight.in_features, weight_rows),
          .x = EncodeMatrixMap(args.x.data(), weight.dtype, args.x.dim(0), weight.in_features,
                               args.x.row_stride(), x_rows)};
}

Float8Matrices Float8MatricesOf(const LinearArgs& args) {
  const LinearWeight& weight = *args.weight;
  if (!HasFloat8Tiles(weight)) return {};
  const PackedLayout layout(weight);
  const Float8Rows rows(args.x);
  const auto* const data = static_cast<const uint8_t*>(weight.data);
  const bool has_groups = layout.groups_per_step > 0;
  const auto* const scales = reinterpret_cast<const float*>(
      data + (has_groups ? layout.tile_scales_at() : layout.row_scales_at));
  return {.tiles = data,
          .num_lines = static_cast<int>(layout.num_steps),
          .num_weight_rows = static_cast<int>(layout.num_rows()),
          .weight_scales = has_groups ? scales : nullptr,
          .weight_row_scales = has_groups ? nullptr : scales,
          .x_scales = rows.scales(),
          .x_stride = static_cast<int>(rows.scale_stride())};
}

int NumLines(const LinearWeight& weight) {
  return static_cast<int>(HasFloat8Tiles(weight) ? PackedLayout(weight).num_steps
                                                 : CeilDiv<int64_t>(weight.in_features, 64));
}

bool FitsTensorMaps(const LinearArgs& args) {
  const LinearWeight& weight = *args.weight;
  if (weight.format.quantized()) return HasFloat8Tiles(weight);
  const Tensor rows(weight.data, weight.dtype, {weight.out_features, weight.in_features});
  return weight.dtype != DType::kF32 && FitsVectors(weight.in_features, {&args.x, &rows});
}

}  // namespace quire::cuda
