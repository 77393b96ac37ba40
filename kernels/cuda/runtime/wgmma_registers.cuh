// Gemms of a warpgroup on sm_90 (wgmma.cuh) whose first operand is in registers and whose second
// has its depth along the rows: 64 rows x 8 to 256 columns x 16, float32 sums of bfloat16 or
// float16. Device code only.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace quire::cuda {

#define QUIRE_SUMS4(n) "+f"(s[n][0]), "+f"(s[n][1]), "+f"(s[n][2]), "+f"(s[n][3])
#define QUIRE_SUMS8(n) QUIRE_SUMS4(n), QUIRE_SUMS4(n + 1)
#define QUIRE_SUMS16(n) QUIRE_SUMS8(n), QUIRE_SUMS8(n + 2)
#define QUIRE_SUMS32(n) QUIRE_SUMS16(n), QUIRE_SUMS16(n + 4)
#define QUIRE_SUMS64(n) QUIRE_SUMS32(n), QUIRE_SUMS32(n + 8)
#define QUIRE_SUMS128(n) QUIRE_SUMS64(n), QUIRE_SUMS64(n + 16)

#define QUIRE_NAMES4 "%0, %1, %2, %3"
#define QUIRE_NAMES8 QUIRE_NAMES4 ", %4, %5, %6, %7"
#define QUIRE_NAMES16 QUIRE_NAMES8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define QUIRE_NAMES32 \
  QUIRE_NAMES16       \
  ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define QUIRE_NAMES64                                                                \
  QUIRE_NAMES32                                                                      \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47" \
  ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define QUIRE_NAMES96                                                                \
  QUIRE_NAMES64                                                                      \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79" \
  ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define QUIRE_NAMES128                                                                           \
  QUIRE_NAMES96                                                                                  \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111" \
  ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, " \
  "%127"

#define QUIRE_ROWS_DOT_OF(type, columns, count, a0, a1, a2, a3, b, accumulates)           \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " accumulates                            \
               ", 0;\nwgmma.mma_async.sync.aligned.m64n" columns "k16.f32." type "." type \
               " {" QUIRE_NAMES##count "}, {" a0 ", " a1 ", " a2 ", " a3 "}, " b          \
                                       ", p, 1, 1, 0;\n}\n"                               \
               : QUIRE_SUMS##count(0)                                                     \
               : "r"(first[0]), "r"(first[1]), "r"(first[2]), "r"(first[3]), "l"(second), \
                 "r"(static_cast<int>(accumulate)))
#define QUIRE_ROWS_DOT(columns, count, a0, a1, a2, a3, b, accumulates)         \
  if constexpr (std::is_same_v<T, __half>) {                                   \
    QUIRE_ROWS_DOT_OF("f16", columns, count, a0, a1, a2, a3, b, accumulates);  \
  } else {                                                                     \
    QUIRE_ROWS_DOT_OF("bf16", columns, count, a0, a1, a2, a3, b, accumulates); \
  }

// sums [64, kFragments * 8] = first [64, 16] * second [kFragments * 8, 16]^T, plus sums if
// `accumulate`.
template <typename T, int kFragments>
__device__ __forceinline__ void StartRowsDot(const uint32_t (&first)[4], uint64_t second,
                                             bool accumulate, float (&sums)[1][kFragments][4]) {
  auto& s = sums[0];
  static_assert(kFragments == 1 || kFragments == 2 || kFragments == 4 || kFragments == 8 ||
                kFragments == 16 || kFragments == 32);
  if constexpr (kFragments == 1) {
    QUIRE_ROWS_DOT("8", 4, "%4", "%5", "%6", "%7", "%8", "%9")
  } else if constexpr (kFragments == 2) {
    QUIRE_ROWS_DOT("16", 8, "%8", "%9", "%10", "%11", "%12", "%13")
  } else if constexpr (kFragments == 4) {
    QUIRE_ROWS_DOT("32", 16, "%16", "%17", "%18", "%19", "%20", "%21")
  } else if constexpr (kFragments == 8) {
    QUIRE_ROWS_DOT("64", 32, "%32", "%33", "%34", "%35", "%36", "%37")
  } else if constexpr (kFragments == 16) {
    QUIRE_ROWS_DOT("128", 64, "%64", "%65", "%66", "%67", "%68", "%69")
  } else {
    QUIRE_ROWS_DOT("256", 128, "%128", "%129", "%130", "%131", "%132", "%133")
  }
}

#undef QUIRE_ROWS_DOT
#undef QUIRE_ROWS_DOT_OF
#undef QUIRE_NAMES4
#undef QUIRE_NAMES8
#undef QUIRE_NAMES16
#undef QUIRE_NAMES32
#undef QUIRE_NAMES64
#undef QUIRE_NAMES96
#undef QUIRE_NAMES128
#undef QUIRE_SUMS4
#undef QUIRE_SUMS8
#undef QUIRE_SUMS16
#undef QUIRE_SUMS32
#undef QUIRE_SUMS64
#undef QUIRE_SUMS128

}  // namespace quire::cuda
