// The matrix products to test: one for every instruction set this machine has, and the AMX one over
// an emulated matrix unit, which runs where there is AVX-512.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "kernels/cpu/gemm_kernel.h"

namespace quire::cpu {

struct GemmTarget {
  std::string name;
  GemmKernel kernel;
};

std::vector<GemmTarget> GemmTargets();

inline void PrintTo(const GemmTarget& target, std::ostream* out) { *out << target.name; }

}  // namespace quire::cpu
