// AccessLog: one line for each call that has ended, written by a thread of its own: no call waits
// for the log, and a log that nobody reads costs bounded memory. Any thread adds.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/log/access_entry.h"
#include "server/log/log_setup.h"

namespace quire {

class AccessLog {
 public:
  // Calls that ended with an error: further ones within a second are counted in one line, so that
  // nobody fills the log with refusals.
  static constexpr int64_t kMaxErrorsPerSecond = 20;
  // Entries that wait for the thread; further ones are counted in one line.
  static constexpr size_t kMaxWaiting = 8192;

  // Writes to the logger kAccessLogger of SetUpLog.
  explicit AccessLog(LogFormat format);
  // Gives each line, without its end, to `write`, on the log's thread.
  AccessLog(LogFormat format, std::function<void(const std::string& line)> write);
  // Writes what waits.
  ~AccessLog();
  AccessLog(const AccessLog&) = delete;
  AccessLog& operator=(const AccessLog&) = delete;

  // `now` is when the call ended.
  void Add(AccessEntry entry, absl::Time now);

 private:
  // What is said instead of lines.
  struct Omitted {
    int64_t num_errors = 0;
    int64_t num_waiting = 0;  // beyond kMaxWaiting
    bool any() const { return num_errors + num_waiting > 0; }
  };

  void Run();
  void CountOmitted(int64_t Omitted::*kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WriteOmitted(const Omitted& omitted) const;

  const LogFormat format_;
  const std::function<void(const std::string& line)> write_;

  absl::Mutex mutex_;
  std::vector<AccessEntry> waiting_ ABSL_GUARDED_BY(mutex_);
  Omitted omitted_ ABSL_GUARDED_BY(mutex_);       // since they were last written
  absl::Time count_due_ ABSL_GUARDED_BY(mutex_);  // when what is omitted is to be written
  absl::Time second_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();  // in which errors are counted
  int64_t num_errors_ ABSL_GUARDED_BY(mutex_) = 0;                    // in it
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;  // the last member: it uses all others
};

}  // namespace quire
