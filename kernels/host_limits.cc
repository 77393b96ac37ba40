#include "kernels/host_limits.h"

#include <sched.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "kernels/base/types.h"

namespace quire {

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

// The process's path below a hierarchy's root, "/system.slice/quire.service"; version 2 has no name
// for its one hierarchy. In a container of its own namespace it is "/".
std::string OwnPath(const HostPaths& paths, const std::string& controller) {
  std::ifstream file(paths.proc + "/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3 || !absl::StartsWith(fields[2], "/")) continue;
    const std::vector<std::string> names = absl::StrSplit(fields[1], ',');
    if (std::find(names.begin(), names.end(), controller) != names.end()) return fields[2];
  }
  return "/";
}

// The folders of the process's cgroup and of all around it, each of which may have a limit. The
// reader of the limits skips folders that a container does not see.
std::vector<std::string> Folders(const HostPaths& paths, const std::string& controller) {
  const std::string root = controller.empty() ? paths.cgroup : paths.cgroup + "/" + controller;
  std::string path = OwnPath(paths, controller);
  std::vector<std::string> folders;
  for (; path.size() > 1; path.resize(path.rfind('/'))) folders.push_back(root + path);
  folders.push_back(root);
  return folders;
}

void Limit(std::optional<int64_t> limit, std::optional<int64_t> used, std::optional<int64_t> cache,
           MemoryInfo* info) {
  if (!limit.has_value() || !used.has_value()) return;
  const int64_t held_bytes = std::max<int64_t>(0, *used - cache.value_or(0));
  const int64_t free_bytes = std::max<int64_t>(0, *limit - held_bytes);
  info->free_bytes = std::min(info->free_bytes, free_bytes);
  info->total_bytes = std::min(info->total_bytes, *limit);
}

MemoryInfo MachineMemory(const HostPaths& paths) {
  const std::string meminfo = paths.proc + "/meminfo";
  const std::optional<int64_t> available = ReadField(meminfo, "MemAvailable:");
  const std::optional<int64_t> total = ReadField(meminfo, "MemTotal:");
  if (available.has_value() && total.has_value()) {
    return {.free_bytes = *available * 1024, .total_bytes = *total * 1024};
  }
  struct sysinfo info = {};
  sysinfo(&info);  // does not know how much of the page cache can be dropped
  const int64_t unit = info.mem_unit;
  return {.free_bytes = static_cast<int64_t>(info.freeram) * unit,
          .total_bytes = static_cast<int64_t>(info.totalram) * unit};
}

std::optional<int> Quota(std::optional<int64_t> quota, std::optional<int64_t> period) {
  if (quota.value_or(0) <= 0 || period.value_or(0) <= 0) return std::nullopt;
  return static_cast<int>(std::min<int64_t>(CeilDiv(*quota, *period), 1 << 20));
}

}  // namespace

int NumUsableCpus(const HostPaths& paths) {
  int num_cpus = static_cast<int>(std::thread::hardware_concurrency());
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof(mask), &mask) == 0) num_cpus = CPU_COUNT(&mask);
  for (const std::string& folder : Folders(paths, "")) {
    std::ifstream file(folder + "/cpu.max");
    int64_t quota, period;
    if (file >> quota >> period)
      num_cpus = std::min(num_cpus, Quota(quota, period).value_or(num_cpus));
  }
  for (const std::string& folder : Folders(paths, "cpu")) {
    num_cpus = std::min(num_cpus, Quota(ReadNumber(folder + "/cpu.cfs_quota_us"),
                                        ReadNumber(folder + "/cpu.cfs_period_us"))
                                      .value_or(num_cpus));
  }
  return std::max(num_cpus, 1);
}

MemoryInfo ReadMemoryInfo(const HostPaths& paths) {
  MemoryInfo info = MachineMemory(paths);
  for (const std::string& folder : Folders(paths, "")) {
    Limit(ReadNumber(folder + "/memory.max"), ReadNumber(folder + "/memory.current"),
          ReadField(folder + "/memory.stat", "inactive_file"), &info);
  }
  for (const std::string& folder : Folders(paths, "memory")) {
    Limit(ReadNumber(folder + "/memory.limit_in_bytes"),
          ReadNumber(folder + "/memory.usage_in_bytes"),
          ReadField(folder + "/memory.stat", "total_inactive_file"), &info);
  }
  return info;
}

}  // namespace quire
