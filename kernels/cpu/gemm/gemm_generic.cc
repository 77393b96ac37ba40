// Any processor: vectors of four floats (SSE2, NEON), no fused multiply-add assumed.
#include <cstring>
#include <type_traits>

#include "kernels/base/tensor.h"
#include "kernels/cpu/gemm/compression.h"
#include "kernels/cpu/gemm/gemm_kernel.h"
#include "kernels/cpu/gemm/packing.h"

// After the others, as where a target pragma precedes it.
#include "kernels/cpu/gemm/gemm_kernel-inl.h"

namespace quire::cpu {

namespace {

struct Vector4 {
  typedef float Floats __attribute__((vector_size(16)));
  typedef uint32_t Bits __attribute__((vector_size(16)));
  using Expander = void;  // weights stay as they are
  static constexpr int kLanes = 4;
  static constexpr int kNumRegisters = 16;
  static constexpr bool kBf16Pairs = false;

  static Floats Zero() { return Floats{}; }
  static Floats Load(const void* p) {
    Floats v;
    std::memcpy(&v, p, sizeof(v));
    return v;
  }
  static void Store(float* p, Floats v) { std::memcpy(p, &v, sizeof(v)); }
  static Floats Broadcast(const void* p) {
    float x;
    std::memcpy(&x, p, sizeof(x));
    return Floats{x, x, x, x};
  }
  static Floats MulAdd(Floats a, Floats b, Floats c) { return a * b + c; }
  static Floats LoadEven(const void* p) { return (Floats)((Bits)Load(p) << 16); }
  static Floats LoadOdd(const void* p) { return (Floats)((Bits)Load(p) & 0xffff0000u); }
};

}  // namespace

constexpr TileSet kGenericF32Tiles = MakeTileSet<Vector4, Elements::kF32, 4>();
constexpr TileSet kGenericBf16Tiles = MakeTileSet<Vector4, Elements::kBf16, 4>();

}  // namespace quire::cpu
