#include "kernels/cpu/runtime/host_info.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <thread>

#include "kernels/base/types.h"

namespace quire::cpu {

namespace {

// The first number in a file; nothing for a missing file or "max".
std::optional<int64_t> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  int64_t value;
  if (file >> value) return value;
  return std::nullopt;
}

// The value of a "key value" or "key: value kB" line, unscaled.
std::optional<int64_t> ReadField(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string word;
  while (file >> word) {
    int64_t value;
    if (word == key && file >> value) return value;
  }
  return std::nullopt;
}

// The cgroup's limit and what it has used, page cache that can be dropped not counted. Version 2
// first, then version 1; a limit of "max" or of version 1's huge number is no limit.
std::optional<MemoryInfo> ReadCgroupMemory(const std::string& root) {
  std::optional<int64_t> limit = ReadNumber(root + "/memory.max");
  std::optional<int64_t> used = ReadNumber(root + "/memory.current");
  std::optional<int64_t> cache = ReadField(root + "/memory.stat", "inactive_file");
  if (!used.has_value()) {
    limit = ReadNumber(root + "/memory/memory.limit_in_bytes");
    used = ReadNumber(root + "/memory/memory.usage_in_bytes");
    cache = ReadField(root + "/memory/memory.stat", "total_inactive_file");
  }
  if (!limit.has_value() || !used.has_value()) return std::nullopt;
  const int64_t held_bytes = std::max<int64_t>(0, *used - cache.value_or(0));
  return MemoryInfo{.free_bytes = std::max<int64_t>(0, *limit - held_bytes), .total_bytes = *limit};
}

// Processors' worth of time per period; nothing without a quota.
std::optional<int> ReadCgroupCpus(const std::string& root) {
  std::ifstream file(root + "/cpu.max");
  int64_t quota, period;
  if (!(file >> quota >> period)) {
    quota = ReadNumber(root + "/cpu/cpu.cfs_quota_us").value_or(-1);
    period = ReadNumber(root + "/cpu/cpu.cfs_period_us").value_or(0);
  }
  if (quota <= 0 || period <= 0) return std::nullopt;
  return static_cast<int>(CeilDiv(quota, period));
}

}  // namespace

int NumUsableCpus(const std::string& cgroup_root) {
  int num_cpus = static_cast<int>(std::thread::hardware_concurrency());
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof(mask), &mask) == 0) num_cpus = CPU_COUNT(&mask);
  if (std::optional<int> quota = ReadCgroupCpus(cgroup_root)) {
    num_cpus = std::min(num_cpus, *quota);
  }
  return std::max(num_cpus, 1);
}

MemoryInfo ReadMemoryInfo(const std::string& cgroup_root, const std::string& meminfo) {
  MemoryInfo info{.free_bytes = ReadField(meminfo, "MemAvailable:").value_or(0) * 1024,
                  .total_bytes = ReadField(meminfo, "MemTotal:").value_or(0) * 1024};
  if (std::optional<MemoryInfo> cgroup = ReadCgroupMemory(cgroup_root)) {
    info.free_bytes = std::min(info.free_bytes, cgroup->free_bytes);
    info.total_bytes = std::min(info.total_bytes, cgroup->total_bytes);
  }
  return info;
}

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
