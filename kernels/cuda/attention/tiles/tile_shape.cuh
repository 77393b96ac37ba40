// The compile-time shape of tiled attention: how rows and keys are shared out over warps, and how
// shared memory is laid out: the tile's queries, then kStages of K and V, then where the keys of
// kStages tiles lie. Device code only.
#pragma once

#include <cstdint>

#include "kernels/base/types.h"

namespace quire::cuda {

template <typename ElementType, int kHeadDimension, int kWarpsInM, int kWarpsInN,
          int kRowTilesPerWarp, int kNumStages, int kCtasPerSm>
struct TileShape {
  using Element = ElementType;
  static constexpr int kHeadDim = kHeadDimension;
  static constexpr int kWarpsM = kWarpsInM;
  static constexpr int kWarpsN = kWarpsInN;
  static constexpr int kRowTiles = kRowTilesPerWarp;  // of 16 rows
  static constexpr int kStages = kNumStages;
  static constexpr int kMinCtas = kCtasPerSm;

  static constexpr int kTileKeys = 64;
  static constexpr int kWarpKeys = kTileKeys / kWarpsN;
  static constexpr int kTileRows = 16 * kRowTiles * kWarpsM;
  static constexpr int kThreads = 32 * kWarpsM * kWarpsN;
  // All threads compute.
  static constexpr int kComputeThreads = kThreads;
  static __device__ int ComputeThread() { return threadIdx.x; }
  static __device__ void SyncCompute() { __syncthreads(); }

  static constexpr int kRowBytes = kHeadDim * 2;
  static constexpr int kRowPieces = kRowBytes / 16;
  static constexpr int kStageBytes = 2 * kTileKeys * kRowBytes;
  static constexpr int kStagesAt = kTileRows * kRowBytes;
  static constexpr int kOffsetsAt = kStagesAt + kStages * kStageBytes;
  static constexpr int kSharedBytes = kOffsetsAt + kStages * kTileKeys * 8;

  // Byte offset of a 16-byte piece of a row; eight rows' equal pieces fall into different banks.
  static __device__ constexpr uint32_t Swizzle(int row, int piece) {
    return row * kRowBytes + ((piece ^ (row & 7)) << 4);
  }
};

}  // namespace quire::cuda
