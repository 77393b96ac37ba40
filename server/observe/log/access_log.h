// AccessLog: one line for each call that has ended. Its own thread puts the lines together, so no
// call waits for the log. Each address has its own rate, so that one client's flood of calls does
// not hide the lines of others. Any thread adds.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "kernels/base/clock.h"
#include "server/observe/log/access_entry.h"
#include "server/observe/log/log_setup.h"

namespace quire {

class AccessLog {
 public:
  // Lines for calls of one address within a second; further calls are counted in one line. Calls
  // that ended with an error get fewer lines, so that nobody fills the log with refusals.
  static constexpr int64_t kMaxLinesPerSecond = 1000;
  static constexpr int64_t kMaxErrorsPerSecond = 20;
  // Addresses with a rate of their own; all further ones of a second share one.
  static constexpr size_t kMaxAddresses = 1024;
  // Entries that wait for the thread; further ones are counted in one line.
  static constexpr size_t kMaxWaiting = 8192;

  // Writes to the logger kAccessLogger of SetUpLog.
  explicit AccessLog(LogFormat format);
  // Gives each line, without its end, to `write`, on the log's thread.
  AccessLog(LogFormat format, std::function<void(const std::string& line)> write);
  // Writes the entries that wait.
  ~AccessLog();
  AccessLog(const AccessLog&) = delete;
  AccessLog& operator=(const AccessLog&) = delete;

  // `now` is when the call ended.
  void Add(AccessEntry entry, absl::Time now);

 private:
  // Lines of one address within the second.
  struct Rate {
    int64_t num_lines = 0;
    int64_t num_errors = 0;
    int64_t num_omitted = 0;
  };
  // The counts that are written instead of lines.
  struct Omitted {
    int64_t num_errors = 0;
    int64_t num_lines = 0;    // of calls without an error, beyond their address's rate
    int64_t num_waiting = 0;  // beyond kMaxWaiting
    // The address with the most lines left out within a second.
    std::string most_of;
    int64_t num_of_most = 0;
    bool any() const { return num_errors + num_lines + num_waiting > 0; }
  };

  void Run();
  // Whether the call's address has a line left in this second.
  bool HasRate(const AccessEntry& entry, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountOmitted(int64_t Omitted::*kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WriteOmitted(const Omitted& omitted) const;

  const LogFormat format_;
  const std::function<void(const std::string& line)> write_;

  absl::Mutex mutex_;
  MonotonicCondVar news_;
  std::vector<AccessEntry> waiting_ ABSL_GUARDED_BY(mutex_);
  Omitted omitted_ ABSL_GUARDED_BY(mutex_);       // since they were last written
  absl::Time count_due_ ABSL_GUARDED_BY(mutex_);  // when omitted_ must be written
  absl::Time second_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();  // the second of rates_
  absl::flat_hash_map<std::string, Rate> rates_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;  // the last member: it uses all others
};

}  // namespace quire
