// The compile-time shape of a decode kernel and its layout of shared memory: a ring of tiles of K
// and V as TMA leaves them, where warps combine their results, and the mbarriers. Device code only.
#pragma once

#include <cstdint>

#include "kernels/cuda/attention/trtllm/decode_kernel.h"
#include "kernels/cuda/runtime/async.cuh"

namespace quire::cuda::trtllm {

template <typename ElementType, int kHeadDimension, int kRowsOfWarp>
struct DecodeShape {
  using Element = ElementType;
  static constexpr int kHeadDim = kHeadDimension;
  static constexpr bool kIs8Bit = sizeof(Element) == 1;
  static constexpr int kWarpRows = kRowsOfWarp;
  static constexpr int kRowTiles = kWarpRows / 8;         // of 8 rows, a gemm's width
  static constexpr int kWarps = kHeadDim == 256 ? 4 : 8;  // that compute
  static constexpr int kComputeThreads = 32 * kWarps;
  // And four warps that load K, V and queries, and write results.
  static constexpr int kThreads = kComputeThreads + 128;
  // Of 65536 in multiples of 8 a thread; with four computing warps each may have what it wants.
  static constexpr bool kMovesRegisters = kWarps == 8;
  static constexpr int kLoadRegisters = 72;
  static constexpr int kComputeRegisters = 216;

  static constexpr int kRowBytes = kHeadDim * static_cast<int>(sizeof(Element));
  static constexpr int kLineBytes = LineBytes(kRowBytes);
  static constexpr int kLineBlocks = kRowBytes / kLineBytes;  // of kTileKeys lines each
  static constexpr int kBlockBytes = kTileKeys * kLineBytes;
  static constexpr int kStageBytes = kTileKeys * kRowBytes;  // a tile of K, or of V

  static constexpr int kPassStride = kHeadDim + 4;  // floats; lanes of a store fall in all banks

  // Byte offset of a 16-byte piece of a line.
  static __device__ constexpr uint32_t Swizzle(int line, int piece) {
    const int flip = kLineBytes == 128 ? line & 7 : (line >> 1) & 3;
    return line * kLineBytes + ((piece ^ flip) << 4);
  }

  // The sizes of the sections of shared memory after the tiles.
  static constexpr int kQueriesRing = 2;  // items that their queries may be ahead
  static constexpr int32_t PassBytes(const DecodeLayout& layout) {
    return kWarps * layout.pass_rows * kPassStride * 4;
  }
  static constexpr int32_t kStateBytes = kWarps * 8 * static_cast<int>(sizeof(float2));
  static constexpr int32_t kRowTileBytes = kHeadDim / 16 * 32 * 8;  // of queries, by lane
  static constexpr int32_t QueriesBytes(const DecodeLayout& layout) {
    return layout.row_splits * kRowTiles * (kRowTileBytes + 32);
  }
  static constexpr int32_t NumMbarriers(const DecodeLayout& layout) {
    return 2 * (layout.num_arrivals + layout.ring_tiles) + 2 * kQueriesRing + 4;
  }
  static constexpr int32_t OtherBytes(const DecodeLayout& layout) {
    return PassBytes(layout) + kStateBytes + kQueriesRing * QueriesBytes(layout) +
           8 * NumMbarriers(layout);
  }
};

// Shared memory by address.
template <typename Shape>
class DecodeShared {
 public:
  // `raw` lies on 1024 bytes, as swizzled boxes must.
  __device__ DecodeShared(uint8_t* raw, const DecodeLayout& layout)
      : raw_(raw), layout_(layout), base_(SharedAddress(raw)) {}

  __device__ const DecodeLayout& layout() const { return layout_; }

  // By all threads, before all else.
  __device__ void InitMbarriers() const {
    const int num_arrivals = 2 * layout_.num_arrivals;
    const int num_tiles = num_arrivals + 2 * layout_.ring_tiles;
    // Lanes of a warp initialise one after another: so each warp has a few.
    constexpr int kAllWarps = Shape::kThreads / 32;
    const int i = static_cast<int>(threadIdx.x) % 32 * kAllWarps + threadIdx.x / 32;
    // Every lane frees or hands over what it used in shared memory: compute-sanitizer's racecheck
    // does not follow what a lane reads or writes through __syncwarp to another lane's arrival.
    int count = 1;
    if (i >= num_arrivals && i < num_tiles) count = 32 * layout_.row_splits;
    if (i >= num_tiles) count = 32;
    if (i >= num_tiles + Shape::kQueriesRing) count = 32 * Shape::kWarps;
    if (i >= num_tiles + 2 * Shape::kQueriesRing + 2) count = Shape::kWarps;
    if (i == Shape::NumMbarriers(layout_) - 1) count = 1;
    if (i < Shape::NumMbarriers(layout_)) InitMbarrier(mbarrier(i), count);
    PublishMbarriers();
  }

  // kind: 0 for K, 1 for V.
  __device__ uint32_t tile(int kind, int stage) const {
    return base_ + (2 * stage + kind) * Shape::kStageBytes;
  }
  __device__ uint8_t* values_data(int stage) const {
    return raw_ + (2 * stage + 1) * Shape::kStageBytes;
  }
  // The mbarrier of a tile that has come, by its place among num_arrivals.
  __device__ uint32_t arrived(int kind, int i) const { return mbarrier(2 * i + kind); }
  // The mbarrier of a stage that has been read.
  __device__ uint32_t free(int kind, int stage) const {
    return mbarrier(2 * (layout_.num_arrivals + stage) + kind);
  }
  // The n-th item's queries: [row tiles, head_dim / 16, 32] pairs of registers, by lane.
  __device__ uint2* queries(uint32_t n) const {
    return reinterpret_cast<uint2*>(raw_ + queries_at() +
                                    n % Shape::kQueriesRing * Shape::QueriesBytes(layout_));
  }
  // [row tiles, 8]
  __device__ float* scales(uint32_t n) const {
    return reinterpret_cast<float*>(queries(n)) +
           layout_.row_splits * Shape::kRowTiles * Shape::kRowTileBytes / 4;
  }
  __device__ uint32_t queries_full(uint32_t n) const {
    return mbarrier(Shape::NumMbarriers(layout_) - 4 - 2 * Shape::kQueriesRing +
                    n % Shape::kQueriesRing);
  }
  __device__ uint32_t queries_free(uint32_t n) const {
    return queries_full(n) + 8 * Shape::kQueriesRing;
  }
  static __device__ uint32_t queries_parity(uint32_t n) { return n / Shape::kQueriesRing & 1; }

  // Where warps leave their results, 8 rows of each at a time: [kWarps, pass_rows, kPassStride] and
  // [kWarps, 8].
  __device__ float* pass_out() const { return reinterpret_cast<float*>(raw_ + pass_at()); }
  __device__ float2* pass_state() const {
    return reinterpret_cast<float2*>(raw_ + pass_at() + Shape::PassBytes(layout_));
  }

  // The mbarriers of these results: all warps have left theirs; all warps have read them.
  __device__ uint32_t pass_full() const { return mbarrier(Shape::NumMbarriers(layout_) - 4); }
  __device__ uint32_t pass_free() const { return mbarrier(Shape::NumMbarriers(layout_) - 3); }

  // The mbarriers of parts of units that are cut, in global memory: this CTA's part of the first
  // item is there; the other CTAs' parts of the last item are there.
  __device__ uint32_t part_left() const { return mbarrier(Shape::NumMbarriers(layout_) - 2); }
  __device__ uint32_t others_left() const { return mbarrier(Shape::NumMbarriers(layout_) - 1); }

 private:
  __device__ int32_t pass_at() const { return 2 * layout_.ring_tiles * Shape::kStageBytes; }
  __device__ int32_t queries_at() const {
    return pass_at() + Shape::PassBytes(layout_) + Shape::kStateBytes;
  }
  __device__ int32_t mbarriers_at() const {
    return queries_at() + Shape::kQueriesRing * Shape::QueriesBytes(layout_);
  }
  __device__ uint32_t mbarrier(int i) const { return base_ + mbarriers_at() + 8 * i; }

  uint8_t* const raw_;
  const DecodeLayout& layout_;
  const uint32_t base_;
};

}  // namespace quire::cuda::trtllm
