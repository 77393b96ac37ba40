// Gemms of a warpgroup on sm_90 (wgmma), 64 rows x kColumns x 16, float32 sums of
// bfloat16 or float16; x 32 of e4m3. Operands lie in shared memory in rows of 128 bytes whose
// 16-byte splits are permuted by the row's number modulo 8 (128-byte swizzle), or the first in
// registers. The sums are in flight until WaitForGemms: nothing may touch them before. Device code
// only.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace quire::cuda {

// Describes a swizzled operand. Eight rows of 128 bytes make an atom. `group_bytes` is the distance
// between atoms along the rows; `block_bytes` that between blocks of 64 columns, which matters
// where the gemm's columns run along the memory rows.
__device__ __forceinline__ uint64_t DescribeMatrix(uint32_t address, uint32_t group_bytes,
                                                   uint32_t block_bytes) {
  return static_cast<uint64_t>((address & 0x3ffff) >> 4) |
         static_cast<uint64_t>(block_bytes >> 4) << 16 |
         static_cast<uint64_t>(group_bytes >> 4) << 32 | uint64_t{1} << 62;
}

// The description of what lies `bytes` further on.
__device__ __forceinline__ uint64_t Advance(uint64_t matrix, uint32_t bytes) {
  return matrix + (bytes >> 4);
}

// Orders earlier accesses to the registers of gemms before the next ones.
__device__ __forceinline__ void FenceGemms() {
  asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
}
__device__ __forceinline__ void CommitGemms() {
  asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
}

// Waits until at most kPending groups of gemms are in flight; `sums` are then those of a group
// that is done.
template <int kPending, int kFragments>
__device__ __forceinline__ void WaitForGemms(float (&sums)[1][kFragments][4]) {
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(kPending) : "memory");
#pragma unroll
  for (auto& fragment : sums[0]) {
#pragma unroll
    for (float& sum : fragment) asm volatile("" : "+f"(sum)::"memory");
  }
}

// The same of sums that the gemms still in flight add to: they are not to be touched yet.
template <int kPending>
__device__ __forceinline__ void WaitForGemmsBut() {
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(kPending) : "memory");
}

// Keeps the compiler from moving a wait that follows before what `value`, not negative, is made
// from.
__device__ __forceinline__ void HoldUntil(float value) {
  asm volatile("{\n.reg .pred p;\nsetp.lt.f32 p, %0, 0f00000000;\n@p trap;\n}\n" ::"f"(value));
}

#define QUIRE_SUMS4(n) "+f"(s[n][0]), "+f"(s[n][1]), "+f"(s[n][2]), "+f"(s[n][3])
#define QUIRE_SUMS8(n) QUIRE_SUMS4(n), QUIRE_SUMS4(n + 1)
#define QUIRE_SUMS16(n) QUIRE_SUMS8(n), QUIRE_SUMS8(n + 2)
#define QUIRE_SUMS24(n) QUIRE_SUMS16(n), QUIRE_SUMS8(n + 4)
#define QUIRE_SUMS32(n) QUIRE_SUMS16(n), QUIRE_SUMS16(n + 4)
#define QUIRE_SUMS40(n) QUIRE_SUMS32(n), QUIRE_SUMS8(n + 8)
#define QUIRE_SUMS48(n) QUIRE_SUMS32(n), QUIRE_SUMS16(n + 8)
#define QUIRE_SUMS56(n) QUIRE_SUMS48(n), QUIRE_SUMS8(n + 12)
#define QUIRE_SUMS64(n) QUIRE_SUMS32(n), QUIRE_SUMS32(n + 8)
#define QUIRE_SUMS96(n) QUIRE_SUMS64(n), QUIRE_SUMS32(n + 16)
#define QUIRE_SUMS112(n) QUIRE_SUMS96(n), QUIRE_SUMS16(n + 24)
#define QUIRE_SUMS128(n) QUIRE_SUMS64(n), QUIRE_SUMS64(n + 16)

#define QUIRE_NAMES16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define QUIRE_NAMES24 \
  QUIRE_NAMES16       \
  ", %16, %17, %18, %19, %20, %21, %22, %23"
#define QUIRE_NAMES32 \
  QUIRE_NAMES24       \
  ", %24, %25, %26, %27, %28, %29, %30, %31"
#define QUIRE_NAMES40 \
  QUIRE_NAMES32       \
  ", %32, %33, %34, %35, %36, %37, %38, %39"
#define QUIRE_NAMES48 \
  QUIRE_NAMES40       \
  ", %40, %41, %42, %43, %44, %45, %46, %47"
#define QUIRE_NAMES56 \
  QUIRE_NAMES48       \
  ", %48, %49, %50, %51, %52, %53, %54, %55"
#define QUIRE_NAMES64 \
  QUIRE_NAMES56       \
  ", %56, %57, %58, %59, %60, %61, %62, %63"
#define QUIRE_NAMES96                                                                \
  QUIRE_NAMES64                                                                      \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79" \
  ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define QUIRE_NAMES112 \
  QUIRE_NAMES96        \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111"
#define QUIRE_NAMES128                                                                           \
  QUIRE_NAMES112                                                                                 \
  ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, " \
  "%127"

// Both operands in shared memory, their 16 elements of depth along the rows.
#define QUIRE_PRODUCT_SHARED_OF(type, columns, count, a, b, accumulates)                  \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " accumulates                            \
               ", 0;\nwgmma.mma_async.sync.aligned.m64n" columns "k16.f32." type "." type \
               " {" QUIRE_NAMES##count "}, " a ", " b ", p, 1, 1, 0, 0;\n}\n"             \
               : QUIRE_SUMS##count(0)                                                     \
               : "l"(first), "l"(second), "r"(static_cast<int>(accumulate)))
#define QUIRE_PRODUCT_SHARED(columns, count, a, b, accumulates)         \
  if constexpr (kHalf) {                                                \
    QUIRE_PRODUCT_SHARED_OF("f16", columns, count, a, b, accumulates);  \
  } else {                                                              \
    QUIRE_PRODUCT_SHARED_OF("bf16", columns, count, a, b, accumulates); \
  }

// The first operand in registers; the second's columns along the rows.
#define QUIRE_PRODUCT_REGISTERS(type, columns, count, a0, a1, a2, a3, b)                           \
  asm volatile(                                                                                    \
      "{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"                                                   \
      "wgmma.mma_async.sync.aligned.m64n" columns "k16.f32." type "." type " {" QUIRE_NAMES##count \
      "}, {" a0 ", " a1 ", " a2 ", " a3 "}, " b ", p, 1, 1, 1;\n}\n"                               \
      : QUIRE_SUMS##count(0)                                                                       \
      : "r"(first[0]), "r"(first[1]), "r"(first[2]), "r"(first[3]), "l"(second))

// sums [64, kFragments * 8] = first [64, 16] * second [kFragments * 8, 16]^T, plus sums if
// `accumulate`.
template <typename T, int kFragments>
__device__ __forceinline__ void StartDot(uint64_t first, uint64_t second, bool accumulate,
                                         float (&sums)[1][kFragments][4]) {
  auto& s = sums[0];
  constexpr bool kHalf = std::is_same_v<T, __half>;
  static_assert(kFragments == 4 || kFragments == 6 || kFragments == 8 || kFragments == 10 ||
                kFragments == 12 || kFragments == 14 || kFragments == 16 || kFragments == 24 ||
                kFragments == 28 || kFragments == 32);
  if constexpr (kFragments == 4) {
    QUIRE_PRODUCT_SHARED("32", 16, "%16", "%17", "%18")
  } else if constexpr (kFragments == 6) {
    QUIRE_PRODUCT_SHARED("48", 24, "%24", "%25", "%26")
  } else if constexpr (kFragments == 8) {
    QUIRE_PRODUCT_SHARED("64", 32, "%32", "%33", "%34")
  } else if constexpr (kFragments == 10) {
    QUIRE_PRODUCT_SHARED("80", 40, "%40", "%41", "%42")
  } else if constexpr (kFragments == 12) {
    QUIRE_PRODUCT_SHARED("96", 48, "%48", "%49", "%50")
  } else if constexpr (kFragments == 14) {
    QUIRE_PRODUCT_SHARED("112", 56, "%56", "%57", "%58")
  } else if constexpr (kFragments == 16) {
    QUIRE_PRODUCT_SHARED("128", 64, "%64", "%65", "%66")
  } else if constexpr (kFragments == 24) {
    QUIRE_PRODUCT_SHARED("192", 96, "%96", "%97", "%98")
  } else if constexpr (kFragments == 28) {
    QUIRE_PRODUCT_SHARED("224", 112, "%112", "%113", "%114")
  } else {
    QUIRE_PRODUCT_SHARED("256", 128, "%128", "%129", "%130")
  }
}

// sums [64, kFragments * 8] += first [64, 16] * second [16, kFragments * 8].
template <typename T, int kFragments>
__device__ __forceinline__ void StartDot(const uint32_t (&first)[4], uint64_t second,
                                         float (&sums)[1][kFragments][4]) {
  auto& s = sums[0];
  constexpr bool kHalf = std::is_same_v<T, __half>;
  static_assert(kFragments == 8 || kFragments == 16 || kFragments == 32);
  if constexpr (kFragments == 8 && kHalf) {
    QUIRE_PRODUCT_REGISTERS("f16", "64", 32, "%32", "%33", "%34", "%35", "%36");
  } else if constexpr (kFragments == 8) {
    QUIRE_PRODUCT_REGISTERS("bf16", "64", 32, "%32", "%33", "%34", "%35", "%36");
  } else if constexpr (kFragments == 16 && kHalf) {
    QUIRE_PRODUCT_REGISTERS("f16", "128", 64, "%64", "%65", "%66", "%67", "%68");
  } else if constexpr (kFragments == 16) {
    QUIRE_PRODUCT_REGISTERS("bf16", "128", 64, "%64", "%65", "%66", "%67", "%68");
  } else if constexpr (kHalf) {
    QUIRE_PRODUCT_REGISTERS("f16", "256", 128, "%128", "%129", "%130", "%131", "%132");
  } else {
    QUIRE_PRODUCT_REGISTERS("bf16", "256", 128, "%128", "%129", "%130", "%131", "%132");
  }
}

// Of e4m3, depth 32: both operands have it along the rows.
#define QUIRE_PRODUCT_FLOAT8(a, b, accumulates)                                                \
  "{\n.reg .pred p;\nsetp.ne.b32 p, " accumulates                                              \
  ", 0;\nwgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 {" QUIRE_NAMES64 "}, " a ", " b \
  ", p, 1, 1;\n}\n"

// sums [64, 128] = first [64, 32] * second [128, 32]^T, plus sums if `accumulate`.
__device__ __forceinline__ void StartFloat8Dot(uint64_t first, uint64_t second, bool accumulate,
                                               float (&sums)[1][16][4]) {
  auto& s = sums[0];
  asm volatile(QUIRE_PRODUCT_FLOAT8("%64", "%65", "%66")
               : QUIRE_SUMS64(0)
               : "l"(first), "l"(second), "r"(static_cast<int>(accumulate)));
}
__device__ __forceinline__ void StartFloat8Dot(const uint32_t (&first)[4], uint64_t second,
                                               bool accumulate, float (&sums)[1][16][4]) {
  auto& s = sums[0];
  asm volatile(QUIRE_PRODUCT_FLOAT8("{%64, %65, %66, %67}", "%68", "%69")
               : QUIRE_SUMS64(0)
               : "r"(first[0]), "r"(first[1]), "r"(first[2]), "r"(first[3]), "l"(second),
                 "r"(static_cast<int>(accumulate)));
}

#undef QUIRE_PRODUCT_FLOAT8
#undef QUIRE_PRODUCT_SHARED
#undef QUIRE_PRODUCT_SHARED_OF
#undef QUIRE_PRODUCT_REGISTERS
#undef QUIRE_NAMES16
#undef QUIRE_NAMES32
#undef QUIRE_NAMES64
#undef QUIRE_NAMES96
#undef QUIRE_SUMS96
#undef QUIRE_NAMES112
#undef QUIRE_SUMS112
#undef QUIRE_NAMES128
#undef QUIRE_NAMES24
#undef QUIRE_SUMS24
#undef QUIRE_NAMES40
#undef QUIRE_SUMS40
#undef QUIRE_NAMES48
#undef QUIRE_SUMS48
#undef QUIRE_NAMES56
#undef QUIRE_SUMS56
#undef QUIRE_SUMS4
#undef QUIRE_SUMS8
#undef QUIRE_SUMS16
#undef QUIRE_SUMS32
#undef QUIRE_SUMS64
#undef QUIRE_SUMS128

}  // namespace quire::cuda
