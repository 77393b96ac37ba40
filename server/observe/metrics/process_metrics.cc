#include "server/observe/metrics/process_metrics.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <utility>

namespace quire {

namespace {

double Seconds(const timeval& time) {
  constexpr double kMicrosecond = 1e-6;
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * kMicrosecond;
}

int64_t CountOpenFiles() {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/fd"), &closedir);
  if (folder == nullptr) return -1;
  int64_t count = -3;  // ".", ".." and the folder itself
  while (readdir(folder.get()) != nullptr) ++count;
  return count;
}

// Of virtual memory, and of what is in RAM.
std::optional<std::pair<int64_t, int64_t>> MemoryBytes() {
  int64_t virtual_pages = 0;
  int64_t resident_pages = 0;
  if (!(std::ifstream("/proc/self/statm") >> virtual_pages >> resident_pages)) return std::nullopt;
  const int64_t page_bytes = sysconf(_SC_PAGESIZE);
  return std::pair(virtual_pages * page_bytes, resident_pages * page_bytes);
}

}  // namespace

int64_t ResidentBytes() {
  const auto bytes = MemoryBytes();
  return bytes.has_value() ? bytes->second : 0;
}

void AddProcessMetrics(absl::Time start_time, MetricText* text) {
  const auto add = [text](const char* name, MetricType type, const char* help, double value) {
    text->Begin(name, type, help);
    text->AddPlain(value, {});
  };
  rusage usage = {};
  if (getrusage(RUSAGE_SELF, &usage) == 0) {
    add("process_cpu_seconds_total", MetricType::kCounter,
        "Total user and system CPU time spent in seconds.",
        Seconds(usage.ru_utime) + Seconds(usage.ru_stime));
  }
  if (const auto bytes = MemoryBytes(); bytes.has_value()) {
    add("process_virtual_memory_bytes", MetricType::kGauge, "Virtual memory size in bytes.",
        static_cast<double>(bytes->first));
    add("process_resident_memory_bytes", MetricType::kGauge, "Resident memory size in bytes.",
        static_cast<double>(bytes->second));
  }
  if (const int64_t num_files = CountOpenFiles(); num_files >= 0) {
    add("process_open_fds", MetricType::kGauge, "Number of open file descriptors.",
        static_cast<double>(num_files));
  }
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    add("process_max_fds", MetricType::kGauge, "Maximum number of open file descriptors.",
        static_cast<double>(limit.rlim_cur));
  }
  add("process_start_time_seconds", MetricType::kGauge,
      "Start time of the process since unix epoch in seconds.",
      absl::ToDoubleSeconds(start_time - absl::UnixEpoch()));
}

}  // namespace quire
