#include "kernels/cpu/runtime/host_info.h"

#include <fstream>

namespace quire::cpu {

int64_t ReadAheadBytes() {
#if defined(__x86_64__)
  static const int64_t bytes = __builtin_cpu_is("intel") ? 8192 : 0;
  return bytes;
#else
  return 0;
#endif
}

std::string CpuModelName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "CPU";
}

}  // namespace quire::cpu
