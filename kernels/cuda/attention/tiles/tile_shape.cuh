// The compile-time shape of tiled attention: how rows and keys are shared out over warps, and how
// shared memory is laid out: the tile's queries, then kStages of K and V, then where the keys of
// kStages tiles lie, then what warps that share out columns tell each other. Where the cache has
// 8-bit elements, queries are in registers (float8_operands.cuh). Device code only.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/base/types.h"
#include "kernels/cuda/runtime/float8.cuh"

namespace quire::cuda {

// ElementType: of the gemms' operands. KvType: of the cache. kWarpsInD: warps that share out the
// columns of the same rows and keys (column_warps.cuh).
template <typename ElementType, typename KvType, int kHeadDimension, int kWarpsInM, int kWarpsInN,
          int kRowTilesPerWarp, int kKeys, int kNumStages, int kCtasPerSm, int kWarpsInD = 1>
struct TileShape {
  using Element = ElementType;
  using Kv = KvType;
  static constexpr bool kIsFloat8 = std::is_same_v<Kv, Float8Bits>;
  static constexpr bool kPairsColumns = kIsFloat8;  // as float8_operands.cuh leaves them
  static constexpr int kHeadDim = kHeadDimension;
  static constexpr int kWarpsM = kWarpsInM;
  static constexpr int kWarpsN = kWarpsInN;
  static constexpr int kWarpsD = kWarpsInD;
  static constexpr int kWarpColumns = kHeadDim / kWarpsD;
  static constexpr bool kExchangesColumns = !kPairsColumns && kWarpsN == 1;  // TileOutput::StoreRow
  static constexpr int kRowTiles = kRowTilesPerWarp;                         // of 16 rows
  static constexpr int kStages = kNumStages;
  static constexpr int kMinCtas = kCtasPerSm;

  static constexpr int kTileKeys = kKeys;
  static constexpr int kWarpKeys = kTileKeys / kWarpsN;
  static constexpr int kTileRows = 16 * kRowTiles * kWarpsM;
  static constexpr int kThreads = 32 * kWarpsM * kWarpsN * kWarpsD;
  // All threads compute.
  static constexpr int kComputeThreads = kThreads;
  static __device__ int ComputeThread() { return threadIdx.x; }
  static __device__ void SyncCompute() { __syncthreads(); }

  static constexpr int kRowBytes = kHeadDim * sizeof(Kv);
  static constexpr int kRowPieces = kRowBytes / 16;
  static constexpr int kPieceElements = 16 / sizeof(Kv);
  static constexpr int kStageBytes = 2 * kTileKeys * kRowBytes;
  static constexpr int kStagesAt = kIsFloat8 ? 0 : kTileRows * kRowBytes;
  static constexpr int kOffsetsAt = kStagesAt + kStages * kStageBytes;
  static constexpr int kSumsAt = kOffsetsAt + kStages * kTileKeys * 8;
  static constexpr int kSumsBytes =
      kWarpsD == 1 ? 0
                   : kThreads * kRowTiles * (kWarpKeys / 8) * 4 * static_cast<int>(sizeof(float));
  static constexpr int kSharedBytes = kSumsAt + kSumsBytes;

  // Byte offset of a 16-byte piece of a row; eight rows' equal pieces fall into different banks.
  static __device__ constexpr uint32_t Swizzle(int row, int piece) {
    const int other = kRowBytes == 64 ? row / 2 % 4 : row % 8;
    return row * kRowBytes + ((piece ^ other) << 4);
  }
};

}  // namespace quire::cuda
