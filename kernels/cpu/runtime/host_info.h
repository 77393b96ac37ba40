// The processor's name and habits; how much of the machine may be used says kernels/host_limits.h.
// Any thread.
#pragma once

#include <cstdint>
#include <string>

namespace quire::cpu {

// How many bytes ahead of itself a loop that reads memory in order should fetch into the L2 cache;
// 0 = not at all. An Intel core has more requests to memory on their way from its L2 cache than
// from its L1: compressed weights of one row at 26 to 42 instead of 12 to 23 GB/s with two cores of
// a Xeon. On an EPYC it costs a little.
int64_t ReadAheadBytes();

std::string CpuModelName();  // "AMD EPYC 9654 96-Core Processor", or "CPU" where unknown

}  // namespace quire::cpu
