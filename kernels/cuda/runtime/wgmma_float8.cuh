// Gemms of a warpgroup on sm_90 (wgmma.cuh) of e4m3 by e4m3, both in shared memory with their depth
// along the rows: 64 rows x 32 to 192 columns x 32, float32 sums. Device code only.
#pragma once

#include <cstdint>

namespace quire::cuda {

#define QUIRE_SUMS4(n) "+f"(s[n][0]), "+f"(s[n][1]), "+f"(s[n][2]), "+f"(s[n][3])
#define QUIRE_SUMS8(n) QUIRE_SUMS4(n), QUIRE_SUMS4(n + 1)
#define QUIRE_SUMS16(n) QUIRE_SUMS8(n), QUIRE_SUMS8(n + 2)
#define QUIRE_SUMS32(n) QUIRE_SUMS16(n), QUIRE_SUMS16(n + 4)
#define QUIRE_SUMS48(n) QUIRE_SUMS32(n), QUIRE_SUMS16(n + 8)
#define QUIRE_SUMS64(n) QUIRE_SUMS32(n), QUIRE_SUMS32(n + 8)
#define QUIRE_SUMS80(n) QUIRE_SUMS64(n), QUIRE_SUMS16(n + 16)
#define QUIRE_SUMS96(n) QUIRE_SUMS64(n), QUIRE_SUMS32(n + 16)
#define QUIRE_NAMES16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define QUIRE_NAMES32 \
  QUIRE_NAMES16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define QUIRE_NAMES48 \
  QUIRE_NAMES32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define QUIRE_NAMES64 \
  QUIRE_NAMES48 ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define QUIRE_NAMES80 \
  QUIRE_NAMES64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define QUIRE_NAMES96 \
  QUIRE_NAMES80 ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"

#define QUIRE_LINES_DOT(columns, count, a, b, accumulates)              \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " accumulates          \
               ", 0;\nwgmma.mma_async.sync.aligned.m64n" columns        \
               "k32.f32.e4m3.e4m3"                                      \
               " {" QUIRE_NAMES##count "}, " a ", " b ", p, 1, 1;\n}\n" \
               : QUIRE_SUMS##count(0)                                   \
               : "l"(first), "l"(second), "r"(static_cast<int>(accumulate)))

// sums [64, kFragments * 8] = first [64, 32] * second [kFragments * 8, 32]^T, plus sums if
// `accumulate`.
template <int kFragments>
__device__ __forceinline__ void StartFloat8LinesDot(uint64_t first, uint64_t second,
                                                    bool accumulate,
                                                    float (&sums)[1][kFragments][4]) {
  auto& s = sums[0];
  static_assert(kFragments == 4 || kFragments == 8 || kFragments == 12 || kFragments == 16 ||
                kFragments == 20 || kFragments == 24);
  if constexpr (kFragments == 4) {
    QUIRE_LINES_DOT("32", 16, "%16", "%17", "%18");
  } else if constexpr (kFragments == 8) {
    QUIRE_LINES_DOT("64", 32, "%32", "%33", "%34");
  } else if constexpr (kFragments == 12) {
    QUIRE_LINES_DOT("96", 48, "%48", "%49", "%50");
  } else if constexpr (kFragments == 16) {
    QUIRE_LINES_DOT("128", 64, "%64", "%65", "%66");
  } else if constexpr (kFragments == 20) {
    QUIRE_LINES_DOT("160", 80, "%80", "%81", "%82");
  } else {
    QUIRE_LINES_DOT("192", 96, "%96", "%97", "%98");
  }
}

#undef QUIRE_LINES_DOT
#undef QUIRE_NAMES16
#undef QUIRE_NAMES32
#undef QUIRE_NAMES48
#undef QUIRE_NAMES64
#undef QUIRE_NAMES80
#undef QUIRE_NAMES96
#undef QUIRE_SUMS4
#undef QUIRE_SUMS8
#undef QUIRE_SUMS16
#undef QUIRE_SUMS32
#undef QUIRE_SUMS48
#undef QUIRE_SUMS64
#undef QUIRE_SUMS80
#undef QUIRE_SUMS96

}  // namespace quire::cuda
