// AMX: a matrix unit of its own, and AVX-512 beside it to expand weights.
#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/base/tensor.h"
#include "kernels/cpu/compression.h"
#include "kernels/cpu/gemm_kernel.h"
#include "kernels/cpu/packing.h"

#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,fma,amx-tile,amx-bf16")
#include "kernels/cpu/expand_avx512-inl.h"
#include "kernels/cpu/gemm_kernel-inl.h"
// After what it takes from these.
#include "kernels/cpu/gemm_amx-inl.h"

namespace quire::cpu {

namespace {

// GCC's intrinsics want a register's number spelled out, and do not tell the compiler that they
// read and write memory.
struct AmxUnit {
  // Intel's SDM, LDTILECFG.
  struct alignas(64) Configuration {
    uint8_t palette = 1;
    uint8_t start_row = 0;
    uint8_t reserved[14] = {};
    uint16_t row_bytes[16] = {};
    uint8_t num_rows[16] = {};
  };

  // kB registers of sums belong to each of activations; weights follow these.
  static void Configure(int a0, int a1, int num_b) {
    Configuration config;
    for (int i = 0; i < 8; ++i) {
      config.row_bytes[i] = 64;
      config.num_rows[i] = 16;
    }
    for (int i = 0; i < 4; ++i) {
      config.num_rows[i] = static_cast<uint8_t>(i < num_b || a1 == 0 ? a0 : a1);
    }
    config.num_rows[4] = static_cast<uint8_t>(a0);
    if (a1 > 0) config.num_rows[5] = static_cast<uint8_t>(a1);
    asm volatile("ldtilecfg %0" ::"m"(config));
  }
  static void Release() { asm volatile("tilerelease"); }

  template <int kTile>
  static void Zero() {
    asm volatile("tilezero %%tmm%c0" ::"i"(kTile));
  }
  template <int kTile>
  static void Load(const void* p, int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(p), "r"(stride), "i"(kTile) : "memory");
  }
  template <int kTile>
  static void Store(void* p, int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(p), "r"(stride), "i"(kTile) : "memory");
  }
  template <int kSums, int kX, int kWeights>
  static void MulAdd() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kX), "i"(kWeights));
  }
};

}  // namespace

constexpr TileSet kAmxBf16Tiles = MakeUnitTileSet<AmxUnit>();

}  // namespace quire::cpu
