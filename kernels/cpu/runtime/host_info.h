// What this machine, or the container around us, lets the process use: processors, memory, the
// processor's name and habits. Reads /proc and /sys/fs/cgroup (both versions; tests pass other
// paths); any thread.
#pragma once

#include <string>

#include "kernels/device.h"

namespace quire::cpu {

// Processors that the affinity mask and the cgroup's quota (rounded up) allow; at least 1.
int NumUsableCpus(const std::string& cgroup_root = "/sys/fs/cgroup");

// Total: the smaller of the machine's memory and the cgroup's limit. Free: what can still be used
// under both.
MemoryInfo ReadMemoryInfo(const std::string& cgroup_root = "/sys/fs/cgroup",
                          const std::string& meminfo = "/proc/meminfo");

// How many bytes ahead of itself a loop that reads memory in order should fetch into the L2 cache;
// 0 = not at all. An Intel core has more requests to memory on their way from its L2 cache than
// from its L1: compressed weights of one row at 26 to 42 instead of 12 to 23 GB/s with two cores of
// a Xeon. On an EPYC it costs a little.
int64_t ReadAheadBytes();

std::string CpuModelName();  // "AMD EPYC 9654 96-Core Processor", or "CPU" where unknown

}  // namespace quire::cpu
