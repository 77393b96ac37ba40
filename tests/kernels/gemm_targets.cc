#include "tests/kernels/gemm_targets.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/base/check.h"
#include "kernels/base/tensor.h"
#include "kernels/cpu/compression.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/packing.h"

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,fma")
#include "kernels/cpu/expand_avx512-inl.h"
#include "kernels/cpu/gemm_kernel-inl.h"
// After what it takes from these.
#include "kernels/cpu/gemm_amx-inl.h"

namespace quire::cpu {
namespace {

// What Intel's SDM says of AMX's registers and TDPBF16PS (but for numbers too small to be normal,
// which it takes for zeros), with a check of what the processor would refuse.
struct EmulatedUnit {
  struct Register {
    int num_rows = 0;  // 0: not configured
    alignas(64) char rows[16][64];
  };
  static thread_local Register registers[8];

  static void Configure(int a0, int a1, int num_b) {
    for (int i = 0; i < 8; ++i) {
      registers[i].num_rows = i >= 4 ? 16 : i < num_b || a1 == 0 ? a0 : a1;
      std::memset(registers[i].rows, 0, sizeof(registers[i].rows));
    }
    registers[4].num_rows = a0;
    if (a1 > 0) registers[5].num_rows = a1;
  }
  static void Release() {
    for (Register& r : registers) r.num_rows = 0;
  }

  static Register& Configured(int i) {
    CHECK_GT(registers[i].num_rows, 0) << "register " << i;
    return registers[i];
  }
  template <int kTile>
  static void Zero() {
    std::memset(Configured(kTile).rows, 0, sizeof(Register::rows));
  }
  template <int kTile>
  static void Load(const void* p, int64_t stride) {
    Zero<kTile>();
    for (int i = 0; i < registers[kTile].num_rows; ++i) {
      std::memcpy(registers[kTile].rows[i], static_cast<const char*>(p) + i * stride, 64);
    }
  }
  template <int kTile>
  static void Store(void* p, int64_t stride) {
    for (int i = 0; i < Configured(kTile).num_rows; ++i) {
      std::memcpy(static_cast<char*>(p) + i * stride, registers[kTile].rows[i], 64);
    }
  }
  template <int kSums, int kX, int kWeights>
  static void MulAdd() {
    const Register& x = Configured(kX);
    const Register& weights = Configured(kWeights);
    Register& sums = Configured(kSums);
    CHECK_EQ(sums.num_rows, x.num_rows);
    CHECK_EQ(weights.num_rows, 16);
    for (int row = 0; row < x.num_rows; ++row) {
      float chains[2][16] = {};
      for (int k = 0; k < 16; ++k) {
        BFloat16 pair[2], columns[32];
        std::memcpy(pair, x.rows[row] + k * sizeof(pair), sizeof(pair));
        std::memcpy(columns, weights.rows[k], sizeof(columns));
        for (int i = 0; i < 32; ++i) {
          float& sum = chains[i % 2][i / 2];
          sum = std::fma(static_cast<float>(pair[i % 2]), static_cast<float>(columns[i]), sum);
        }
      }
      float row_sums[16];
      std::memcpy(row_sums, sums.rows[row], sizeof(row_sums));
      for (int i = 0; i < 16; ++i) row_sums[i] += chains[0][i] + chains[1][i];
      std::memcpy(sums.rows[row], row_sums, sizeof(row_sums));
    }
  }
};

thread_local EmulatedUnit::Register EmulatedUnit::registers[8];

constexpr TileSet kEmulatedTiles = MakeUnitTileSet<EmulatedUnit>();

}  // namespace
}  // namespace quire::cpu
#pragma GCC pop_options
#endif

namespace quire::cpu {

std::vector<GemmTarget> GemmTargets() {
  std::vector<GemmTarget> targets;
  for (const Isa isa : kAllIsas) {
    if (IsaSupported(isa)) targets.push_back({IsaName(isa), GemmKernelFor(isa)});
  }
#if defined(__x86_64__)
  if (IsaSupported(Isa::kAvx512)) {
    targets.push_back({"emulated_amx_bf16", {.f32 = &kAvx512F32Tiles, .bf16 = &kEmulatedTiles}});
  }
#endif
  return targets;
}

}  // namespace quire::cpu
