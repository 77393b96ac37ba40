// AMX, a matrix unit beside the vector units of some x86 processors: eight registers of up to 16
// rows of 64 bytes, which hold sums in float32 or int32, pairs of bfloat16 or four bytes. Its
// instructions as functions; GCC's intrinsics want a register's number spelled out. Any thread,
// each with registers of its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace quire::cpu {

inline constexpr int kAmxRows = 16;
inline constexpr int kAmxColumns = 16;  // of 4 bytes: sums, or what they are sums of
inline constexpr int64_t kAmxRowBytes = 64;

// Intel's SDM, LDTILECFG. All registers whole.
struct alignas(64) AmxConfiguration {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t num_rows[16] = {};

  AmxConfiguration() {
    std::fill_n(row_bytes, 8, uint16_t{kAmxRowBytes});
    std::fill_n(num_rows, 8, uint8_t{kAmxRows});
  }
};
static_assert(sizeof(AmxConfiguration) == 64 && offsetof(AmxConfiguration, num_rows) == 48);

inline void AmxConfigure(const AmxConfiguration& configuration) {
  asm volatile("ldtilecfg %0" ::"m"(configuration));
}

// To be called when done, or the system saves the registers with the thread.
inline void AmxRelease() { asm volatile("tilerelease"); }

template <int kRegister>
inline void AmxZero() {
  asm volatile("tilezero %%tmm%c0" ::"i"(kRegister));
}

template <int kRegister>
inline void AmxLoad(const void* p, int64_t stride_bytes) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(p), "r"(stride_bytes), "i"(kRegister)
               : "memory");
}

template <int kRegister>
inline void AmxStore(void* p, int64_t stride_bytes) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(p), "r"(stride_bytes), "i"(kRegister)
               : "memory");
}

// sums[row][column] += sum over pairs of rows[row][pair] . columns[pair][column], in two chains of
// 16 multiply-adds, one over the first elements of pairs, one over the second. Numbers too small to
// be normal count as zeros.
template <int kSums, int kRows, int kColumns>
inline void AmxMulAdd() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kRows), "i"(kColumns));
}

// The same of uint8 in rows and int8 in columns, four a column: exact sums in int32, modulo 2^32.
template <int kSums, int kRows, int kColumns>
inline void AmxMulAddInt8() {
  asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kRows), "i"(kColumns));
}

}  // namespace quire::cpu
