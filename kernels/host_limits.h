// How many processors and how much memory the process may use, by the limits of the machine and of
// the container or service around it. Reads sched_getaffinity, /proc and /sys/fs/cgroup (both
// versions); if these are missing, it does without. Nothing is remembered; any thread.
#pragma once

#include <string>

#include "kernels/device.h"

namespace quire {

// Where to read; tests have folders of their own.
struct HostPaths {
  std::string proc = "/proc";
  std::string cgroup = "/sys/fs/cgroup";
};

// Processors that the affinity mask allows and the cgroups' quotas (rounded up); at least 1.
int NumUsableCpus(const HostPaths& paths = {});

// Total: the smallest of the machine's memory and the cgroups' limits. Free: what can still be used
// under all of them.
MemoryInfo ReadMemoryInfo(const HostPaths& paths = {});

}  // namespace quire
