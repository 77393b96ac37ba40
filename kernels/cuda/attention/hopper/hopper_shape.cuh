// The compile-time shape of attention on sm_90a: one warpgroup that loads, kComputeGroups that
// compute 64 rows each, and how shared memory is laid out. A matrix in shared memory is kBlocks
// blocks of 64 columns one after another, each of rows of 128 bytes, swizzled as wgmma and the copy
// engine expect. Device code only.
#pragma once

#include <cstdint>

#include "kernels/cuda/attention/tiles/tile_rows.cuh"
#include "kernels/cuda/runtime/async.cuh"

namespace quire::cuda {

// An item that the scheduling warp hands to the other warps. Without has_item there are no more.
struct ScheduledItem {
  bool has_item;
  TileItem item;
};

// kNumRawStages > 0: the cache has 8-bit elements. They come to a ring of this many stages before
// they are widened (hopper_converter.cuh). kFloat8Gemms: gemms multiply the 8-bit elements as they
// are; then K needs no such ring, and V comes to it to be transposed.
template <typename ElementType, int kHeadDimension, int kKeys, int kGroups, int kNumStages,
          int kNumRawStages = 0, bool kFloat8Gemms = false>
struct HopperShape {
  using Element = ElementType;  // of operands, unless gemms multiply e4m3
  static constexpr bool kIsFloat8 = kNumRawStages > 0;
  static constexpr bool kHasFloat8Gemms = kFloat8Gemms;
  static constexpr bool kPairsColumns = false;
  static constexpr bool kExchangesColumns = !kFloat8Gemms;  // which has no registers left for it
  static constexpr int kHeadDim = kHeadDimension;
  static constexpr int kTileKeys = kKeys;
  static constexpr int kComputeGroups = kGroups;
  static constexpr int kTileRows = 64 * kGroups;
  static constexpr int kStages = kNumStages;
  static constexpr int kRawStages = kNumRawStages;

  static constexpr int kGroupThreads = 128;
  static constexpr int kThreads = kGroupThreads * (1 + kGroups);
  static constexpr int kComputeThreads = kGroupThreads * kGroups;
  static constexpr int kComputeWarps = kComputeThreads / 32;
  static constexpr int kQueryWarps = 2;  // that load queries; the two before load K and V
  // A thread, in multiples of 8: as many in all as the threads have at launch, or those that take
  // more would wait for ever.
  static constexpr int kLoadRegisters = kGroups == 3 ? 32 : kIsFloat8 && !kFloat8Gemms ? 56 : 40;
  static constexpr int kComputeRegisters = kGroups == 3                 ? 160
                                           : kIsFloat8 && !kFloat8Gemms ? 224
                                                                        : 232;
  static_assert(kLoadRegisters * kGroupThreads + kComputeRegisters * kComputeThreads <=
                65536 / kThreads / 8 * 8 * kThreads);

  // As tile_output.cuh counts warps: each has 16 rows.
  static constexpr int kWarpsM = kComputeWarps;
  static constexpr int kWarpsN = 1;
  static constexpr int kWarpsD = 1;
  static constexpr int kWarpColumns = kHeadDim;
  static constexpr int kRowTiles = 1;
  static __device__ int ComputeThread() { return static_cast<int>(threadIdx.x) - kGroupThreads; }
  static __device__ void SyncCompute() { SyncSome(1, kComputeThreads); }
  // Barriers at which the groups take turns, by group.
  static __device__ constexpr int TurnBarrier(int group) { return 2 + group; }

  static constexpr int kLineBytes = 128;                     // a row of a block
  static constexpr int kBlocks = kHeadDim * 2 / kLineBytes;  // of queries
  static constexpr int kOperandBytes = kFloat8Gemms ? 1 : 2;
  static constexpr int kKeyBlocks = kHeadDim * kOperandBytes / kLineBytes;
  static_assert(!kFloat8Gemms || (kHeadDim == kLineBytes && kKeys == kLineBytes));
  static constexpr int kQueryBytes = kTileRows * kHeadDim * 2;
  static constexpr int kKeyBytes = kTileKeys * kHeadDim * kOperandBytes;  // of K, of V, a stage
  static constexpr int kAlignment = 1024;                                 // of a swizzled matrix

  static constexpr int kRawBytes = kTileKeys * kHeadDim;  // of K, and of V, a stage of the raw ring
  // The next item's queries come while this one's are in use, where there is room for both.
  static constexpr int kRingBytes =
      2 * kStages * kKeyBytes + (kFloat8Gemms ? 1 : 2) * kRawStages * kRawBytes;
  static constexpr int kRoomBytes = 224 * 1024;
  static constexpr int kQueryStages =
      !kFloat8Gemms && 2 * kQueryBytes + kRingBytes <= kRoomBytes ? 2 : 1;

  static constexpr int kKeysAt = kQueryStages * kQueryBytes;
  static constexpr int kValuesAt = kKeysAt + kStages * kKeyBytes;
  static constexpr int kRawKeysAt = kValuesAt + kStages * kKeyBytes;
  static constexpr int kRawValuesAt = kRawKeysAt + (kFloat8Gemms ? 0 : kRawStages * kRawBytes);
  static constexpr int kMbarriersAt = kKeysAt + kRingBytes;
  static constexpr int kNumMbarriers = 4 * kStages + 4 * kRawStages + 2 * kQueryStages + 4;
  // Warps that transpose V: all warps that load, except the one that sends for K and V.
  static constexpr int kTransposers = 3;
  // Every lane of the warps that convert a tile tells that it has written. It also tells that it
  // has read, except in a warp that sends for tiles.
  static constexpr int kKeyFillers = kIsFloat8 && !kFloat8Gemms ? 64 : 1;
  static constexpr int kValueFillers = kFloat8Gemms ? 32 * kTransposers : kIsFloat8 ? 64 : 1;
  static constexpr int kRawReaders = kFloat8Gemms ? 32 * kTransposers : 32;
  static constexpr int kItemsAt = kMbarriersAt + 8 * kNumMbarriers;
  static constexpr int kSharedBytes = kItemsAt + 2 * sizeof(ScheduledItem) + kAlignment;

  // Byte offset of a 16-byte piece of a row in a block.
  static __device__ constexpr uint32_t Swizzle(int row, int piece) {
    return row * kLineBytes + ((piece ^ (row & 7)) << 4);
  }
};

// Shared memory by address.
template <typename Shape>
class HopperShared {
 public:
  __device__ explicit HopperShared(uint8_t* raw)
      : base_(raw +
              (Shape::kAlignment - SharedAddress(raw) % Shape::kAlignment) % Shape::kAlignment) {}

  // One thread, before all else.
  __device__ void InitMbarriers() const {
    for (int stage = 0; stage < Shape::kStages; ++stage) {
      InitMbarrier(keys_full(stage), Shape::kKeyFillers);
      InitMbarrier(values_full(stage), Shape::kValueFillers);
      InitMbarrier(keys_free(stage), Shape::kComputeWarps);
      InitMbarrier(values_free(stage), Shape::kComputeWarps);
    }
    for (int stage = 0; stage < Shape::kRawStages; ++stage) {
      InitMbarrier(raw_keys_full(stage), 1);
      InitMbarrier(raw_values_full(stage), 1);
      InitMbarrier(raw_keys_free(stage), Shape::kRawReaders);
      InitMbarrier(raw_values_free(stage), Shape::kRawReaders);
    }
    for (int stage = 0; stage < Shape::kQueryStages; ++stage) {
      InitMbarrier(queries_full(stage), 32 * Shape::kQueryWarps);
      InitMbarrier(queries_free(stage), Shape::kComputeWarps);
    }
    for (int stage = 0; stage < 2; ++stage) {
      InitMbarrier(item_full(stage), 1);
      // Every lane that reads the item arrives: compute-sanitizer's racecheck does not follow a
      // lane's reads through __syncwarp to another lane's arrival, and an item is long.
      InitMbarrier(item_free(stage), 32 * (1 + Shape::kQueryWarps + Shape::kComputeWarps));
    }
    PublishMbarriers();
  }

  __device__ uint32_t queries(int stage) const {
    return SharedAddress(base_) + stage * Shape::kQueryBytes;
  }
  __device__ uint32_t keys(int stage) const {
    return SharedAddress(base_) + Shape::kKeysAt + stage * Shape::kKeyBytes;
  }
  __device__ uint32_t values(int stage) const {
    return SharedAddress(base_) + Shape::kValuesAt + stage * Shape::kKeyBytes;
  }
  __device__ uint32_t raw_keys() const { return SharedAddress(base_) + Shape::kRawKeysAt; }
  __device__ uint32_t raw_values() const { return SharedAddress(base_) + Shape::kRawValuesAt; }
  __device__ uint8_t* values_data(int stage) const {
    return base_ + Shape::kValuesAt + stage * Shape::kKeyBytes;
  }
  __device__ ScheduledItem& item(int stage) const {
    return reinterpret_cast<ScheduledItem*>(base_ + Shape::kItemsAt)[stage];
  }

  __device__ uint32_t keys_full(int stage) const { return mbarrier(stage); }
  __device__ uint32_t keys_free(int stage) const { return mbarrier(Shape::kStages + stage); }
  __device__ uint32_t values_full(int stage) const { return mbarrier(2 * Shape::kStages + stage); }
  __device__ uint32_t values_free(int stage) const { return mbarrier(3 * Shape::kStages + stage); }
  __device__ uint32_t raw_keys_full(int stage) const {
    return mbarrier(4 * Shape::kStages + stage);
  }
  __device__ uint32_t raw_values_full(int stage) const {
    return mbarrier(4 * Shape::kStages + Shape::kRawStages + stage);
  }
  // By the warps that do not send.
  __device__ uint32_t raw_keys_free(int stage) const {
    return mbarrier(4 * Shape::kStages + 2 * Shape::kRawStages + stage);
  }
  __device__ uint32_t raw_values_free(int stage) const {
    return mbarrier(4 * Shape::kStages + 3 * Shape::kRawStages + stage);
  }
  __device__ uint32_t queries_full(int stage) const { return mbarrier(kFirstOfItems + stage); }
  __device__ uint32_t queries_free(int stage) const {
    return mbarrier(kFirstOfItems + Shape::kQueryStages + stage);
  }
  __device__ uint32_t item_full(int stage) const {
    return mbarrier(kFirstOfItems + 2 * Shape::kQueryStages + stage);
  }
  __device__ uint32_t item_free(int stage) const {
    return mbarrier(kFirstOfItems + 2 * Shape::kQueryStages + 2 + stage);
  }

 private:
  static constexpr int kFirstOfItems = 4 * Shape::kStages + 4 * Shape::kRawStages;
  __device__ uint32_t mbarrier(int index) const {
    return SharedAddress(base_) + Shape::kMbarriersAt + 8 * index;
  }

  uint8_t* const base_;
};

// A value that all lanes of the warp have, made known to the compiler as such: descriptions of
// matrices and boxes are then computed once for the warp.
__device__ __forceinline__ int Uniform(int value) { return __shfl_sync(0xffffffff, value, 0); }

// The n-th use of a ring of kStages: its stage, and the parity of the phase that fills it.
template <int kStages>
struct RingUse {
  __device__ explicit RingUse(uint32_t n) : stage(n % kStages), parity(n / kStages & 1) {}
  int stage;
  uint32_t parity;
};

}  // namespace quire::cuda
