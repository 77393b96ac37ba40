// The compile-time shape of a decode kernel and its layout of shared memory: a ring of tiles of K
// and V as TMA leaves them, where warps combine their results, and the mbarriers. Device code only.
#pragma once

#include <cstdint>

#include "kernels/cuda/attention/tiles/async.cuh"
#include "kernels/cuda/attention/trtllm/decode_kernel.h"

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
  // And a group of four warps, of which one loads K and one V.
  static constexpr int kThreads = kComputeThreads + 128;
  // Of 65536 in multiples of 8 a thread; with four computing warps each may have what it wants.
  static constexpr bool kMovesRegisters = kWarps == 8;
  static constexpr int kLoadRegisters = 56;
  static constexpr int kComputeRegisters = 224;

  static constexpr int kRowBytes = kHeadDim * static_cast<int>(sizeof(Element));
  static constexpr int kLineBytes = LineBytes(kRowBytes);
  static constexpr int kLineBlocks = kRowBytes / kLineBytes;  // of kTileKeys lines each
  static constexpr int kBlockBytes = kTileKeys * kLineBytes;
  static constexpr int kSlotBytes = kTileKeys * kRowBytes;  // a tile of K, or of V

  static constexpr int kPassStride = kHeadDim + 4;  // floats; lanes of a store fall in all banks

  // Byte offset of a 16-byte piece of a line.
  static __device__ constexpr uint32_t Swizzle(int line, int piece) {
    const int flip = kLineBytes == 128 ? line & 7 : (line >> 1) & 3;
    return line * kLineBytes + ((piece ^ flip) << 4);
  }

  static constexpr int32_t PassBytes(const DecodeLayout& layout) {
    return kWarps * layout.pass_rows * kPassStride * 4;
  }
  static constexpr int32_t kStateBytes = kWarps * 8 * static_cast<int>(sizeof(float2));
  static constexpr int32_t MbarrierBytes(const DecodeLayout& layout) {
    return 2 * 8 * (layout.num_arrivals + layout.ring_tiles);
  }
  static int32_t OtherBytes(const DecodeLayout& layout) {
    return PassBytes(layout) + kStateBytes + MbarrierBytes(layout) + 16;
  }
};

// A place in a ring and the parity of its phase.
struct RingPlace {
  int32_t index = 0;
  uint32_t parity = 0;

  __device__ void Advance(int32_t by, int32_t size) {
    index += by;
    while (index >= size) {
      index -= size;
      parity ^= 1;
    }
  }
};

// Shared memory by address.
template <typename Shape>
class DecodeShared {
 public:
  // `raw` lies on 1024 bytes, as swizzled boxes must.
  __device__ DecodeShared(uint8_t* raw, const DecodeLayout& layout)
      : raw_(raw), layout_(layout), base_(SharedAddress(raw)) {}

  __device__ void InitMbarriers() const {
    for (int kind = 0; kind < 2; ++kind) {
      for (int i = 0; i < layout_.num_arrivals; ++i) InitMbarrier(arrived(kind, i), 1);
      for (int slot = 0; slot < layout_.ring_tiles; ++slot) {
        InitMbarrier(free(kind, slot), layout_.row_splits);
      }
    }
    PublishMbarriers();
  }

  // kind: 0 for K, 1 for V.
  __device__ uint32_t tile(int kind, int slot) const {
    return base_ + (2 * slot + kind) * Shape::kSlotBytes;
  }
  __device__ uint8_t* values_data(int slot) const {
    return raw_ + (2 * slot + 1) * Shape::kSlotBytes;
  }
  // Of a tile that has come, by its place among num_arrivals.
  __device__ uint32_t arrived(int kind, int i) const { return mbarriers() + 8 * (2 * i + kind); }
  // Of a slot that has been read.
  __device__ uint32_t free(int kind, int slot) const {
    return arrived(kind, slot + layout_.num_arrivals);
  }
  // [kWarps, pass_rows, kPassStride]
  __device__ float* pass_out() const { return reinterpret_cast<float*>(raw_ + pass_at()); }
  // [kWarps, 8]
  __device__ float2* pass_state() const {
    return reinterpret_cast<float2*>(raw_ + pass_at() + Shape::PassBytes(layout_));
  }
  __device__ int32_t& flag() const {
    return *reinterpret_cast<int32_t*>(raw_ + mbarriers_at() + Shape::MbarrierBytes(layout_));
  }

 private:
  __device__ int32_t pass_at() const { return 2 * layout_.ring_tiles * Shape::kSlotBytes; }
  __device__ int32_t mbarriers_at() const {
    return pass_at() + Shape::PassBytes(layout_) + Shape::kStateBytes;
  }
  __device__ uint32_t mbarriers() const { return base_ + mbarriers_at(); }

  uint8_t* const raw_;
  const DecodeLayout& layout_;
  const uint32_t base_;
};

}  // namespace quire::cuda::trtllm
