#include "tests/kernels/amx_emulator.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <signal.h>
#include <ucontext.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/base/check.h"
#include "kernels/cpu/runtime/isa.h"

#pragma GCC target("avx2,fma")

namespace quire {
namespace {

constexpr int kMaxRows = 16;
constexpr int kRowBytes = 64;

struct Register {
  int num_rows;  // 0: not configured
  int row_bytes;
  alignas(64) float rows[kMaxRows][kRowBytes / 4];
};

// The first or second bfloat16 of a pair.
float Element(const Register& r, int row, int pair, int half) {
  const auto bits = std::bit_cast<uint32_t>(r.rows[row][pair]);
  return std::bit_cast<float>(half == 0 ? bits << 16 : bits & 0xFFFF0000u);
}

thread_local Register registers[8];

Register& Configured(int i) {
  CHECK(i < 8 && registers[i].num_rows > 0) << "register " << i << " is not configured";
  return registers[i];
}

// An instruction with a three-byte VEX prefix and operands as AMX has them.
struct Instruction {
  uint8_t prefix;  // 0: none, 1: 66, 2: F3, 3: F2
  uint8_t opcode;
  uint8_t mod, reg, rm;  // reg and rm with their upper bits
  uint8_t vvvv;
  int length;
  char* address;  // of the operand in memory
  int64_t index;  // the register that SIB adds to it
};

int64_t GeneralRegister(const ucontext_t& context, int i) {
  constexpr int kPlaces[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                               REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                               REG_R12, REG_R13, REG_R14, REG_R15};
  return context.uc_mcontext.gregs[kPlaces[i]];
}

// SDM, volume 2, 2.1.5 (ModRM and SIB) and 2.3.5 (VEX). `at` is behind ModRM.
void DecodeAddress(const ucontext_t& context, const uint8_t* at, int x_bit, int b_bit,
                   Instruction* out) {
  const uint8_t* const start = at;
  int base = out->rm;
  int scale = 0, index = 4;
  if ((out->rm & 7) == 4) {
    scale = *at >> 6;
    index = (*at >> 3 & 7) | x_bit << 3;
    base = (*at & 7) | b_bit << 3;
    ++at;
  }
  int64_t address = 0;
  int displacement_bytes = out->mod == 1 ? 1 : out->mod == 2 ? 4 : 0;
  if (out->mod == 0 && (base & 7) == 5) {
    displacement_bytes = 4;  // and no base
    CHECK_EQ(out->rm & 7, 4) << "addresses relative to the instruction are not emulated";
  } else {
    address = GeneralRegister(context, base);
  }
  if (displacement_bytes == 1) address += static_cast<int8_t>(*at);
  if (displacement_bytes == 4) {
    int32_t displacement;
    std::memcpy(&displacement, at, sizeof(displacement));
    address += displacement;
  }
  out->address = reinterpret_cast<char*>(address);
  out->index = index == 4 ? 0 : GeneralRegister(context, index) << scale;
  out->length += static_cast<int>(at - start) + displacement_bytes;
}

// False for what is not one of AMX's.
bool Decode(const ucontext_t& context, Instruction* out) {
  const auto* code = reinterpret_cast<const uint8_t*>(context.uc_mcontext.gregs[REG_RIP]);
  if (code[0] != 0xC4 || (code[1] & 0x1F) != 2) return false;  // VEX, map 0F38
  const int r_bit = ~code[1] >> 7 & 1, x_bit = ~code[1] >> 6 & 1, b_bit = ~code[1] >> 5 & 1;
  *out = {.prefix = static_cast<uint8_t>(code[2] & 3),
          .opcode = code[3],
          .mod = static_cast<uint8_t>(code[4] >> 6),
          .reg = static_cast<uint8_t>((code[4] >> 3 & 7) | r_bit << 3),
          .rm = static_cast<uint8_t>((code[4] & 7) | b_bit << 3),
          .vvvv = static_cast<uint8_t>(~code[2] >> 3 & 15),
          .length = 5,
          .address = nullptr,
          .index = 0};
  const bool is_int8 = out->opcode == 0x5E && out->prefix == 1;  // unsigned times signed bytes
  if (out->opcode != 0x49 && out->opcode != 0x4B && out->opcode != 0x5C && !is_int8) return false;
  if (out->mod != 3) DecodeAddress(context, code + 5, x_bit, b_bit, out);
  return true;
}

void LoadConfiguration(const char* config) {
  CHECK_EQ(config[0], 1) << "palette";
  for (int i = 0; i < 8; ++i) {
    uint16_t row_bytes;
    std::memcpy(&row_bytes, config + 16 + 2 * i, sizeof(row_bytes));
    const int num_rows = config[48 + i];
    CHECK(num_rows <= kMaxRows && row_bytes <= kRowBytes && (num_rows == 0) == (row_bytes == 0));
    registers[i] = {.num_rows = num_rows, .row_bytes = row_bytes, .rows = {}};
  }
}

void LoadRegister(Register& to, const Instruction& from) {
  std::memset(to.rows, 0, sizeof(to.rows));
  for (int i = 0; i < to.num_rows; ++i) {
    std::memcpy(to.rows[i], from.address + i * from.index, to.row_bytes);
  }
}

void StoreRegister(const Register& from, const Instruction& to) {
  for (int i = 0; i < from.num_rows; ++i) {
    std::memcpy(to.address + i * to.index, from.rows[i], from.row_bytes);
  }
}

void CheckShapes(const Register& sums, const Register& x, const Register& weights) {
  CHECK_EQ(sums.num_rows, x.num_rows);
  CHECK_EQ(sums.row_bytes, weights.row_bytes);
  CHECK_EQ(x.row_bytes / 4, weights.num_rows);
}

// TDPBF16PS. Numbers too small to be normal are zeros, read or written.
void MulAdd(Register& sums, const Register& x, const Register& weights) {
  constexpr unsigned kFlushAndDenormalsAreZeros = 0x8040;
  CheckShapes(sums, x, weights);
  const unsigned mode = _mm_getcsr();
  _mm_setcsr(mode | kFlushAndDenormalsAreZeros);
  for (int row = 0; row < x.num_rows; ++row) {
    float chains[2][kRowBytes / 4] = {};
    for (int half = 0; half < 2; ++half) {
      for (int k = 0; k < weights.num_rows; ++k) {
        const float xk = Element(x, row, k, half);
        for (int c = 0; c < kRowBytes / 4; ++c) {
          chains[half][c] = std::fma(xk, Element(weights, k, c, half), chains[half][c]);
        }
      }
    }
    for (int c = 0; c < kRowBytes / 4; ++c) sums.rows[row][c] += chains[0][c] + chains[1][c];
  }
  _mm_setcsr(mode);
}

// TDPBUSD.
void MulAddInt8(Register& sums, const Register& x, const Register& weights) {
  CheckShapes(sums, x, weights);
  for (int row = 0; row < x.num_rows; ++row) {
    uint8_t x_bytes[kRowBytes];
    std::memcpy(x_bytes, x.rows[row], sizeof(x_bytes));
    for (int c = 0; c < sums.row_bytes / 4; ++c) {
      auto sum = std::bit_cast<uint32_t>(sums.rows[row][c]);
      for (int k = 0; k < weights.num_rows; ++k) {
        int8_t column[4];
        std::memcpy(column, &weights.rows[k][c], sizeof(column));
        for (int i = 0; i < 4; ++i) sum += x_bytes[4 * k + i] * column[i];
      }
      sums.rows[row][c] = std::bit_cast<float>(sum);
    }
  }
}

void Execute(const Instruction& in) {
  if (in.opcode == 0x5C) return MulAdd(Configured(in.reg), Configured(in.rm), Configured(in.vvvv));
  if (in.opcode == 0x5E) {
    return MulAddInt8(Configured(in.reg), Configured(in.rm), Configured(in.vvvv));
  }
  if (in.opcode == 0x4B) {
    if (in.prefix == 3) return LoadRegister(Configured(in.reg), in);
    return StoreRegister(Configured(in.reg), in);
  }
  if (in.mod != 3) return LoadConfiguration(in.address);
  if (in.prefix == 3) {
    std::memset(Configured(in.reg).rows, 0, sizeof(Register::rows));
  } else {
    for (Register& r : registers) r.num_rows = 0;  // TILERELEASE
  }
}

void OnIllegalInstruction(int signal_number, siginfo_t*, void* context) {
  auto* thread = static_cast<ucontext_t*>(context);
  Instruction instruction;
  if (!Decode(*thread, &instruction)) {
    signal(signal_number, SIG_DFL);  // and the instruction is tried again
    return;
  }
  Execute(instruction);
  thread->uc_mcontext.gregs[REG_RIP] += instruction.length;
}

}  // namespace

bool EmulateAmxWhereMissing() {
  if (!cpu::IsaSupported(cpu::Isa::kAvx2) || cpu::IsaSupported(cpu::Isa::kAmxBf16)) return false;
  struct sigaction action = {};
  action.sa_sigaction = OnIllegalInstruction;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  CHECK_EQ(sigaction(SIGILL, &action, nullptr), 0);
  return true;
}

}  // namespace quire

#else

namespace quire {
bool EmulateAmxWhereMissing() { return false; }
}  // namespace quire

#endif
