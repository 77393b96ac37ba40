// LogWriter: once it exists, only it writes to standard error. A thread that has a line leaves it
// in a bounded queue and goes on. The writer's own thread writes, and is the only one that waits if
// nobody reads. Lines that find no room are counted, and the count is written as soon as lines can
// be written again. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "kernels/base/clock.h"

namespace quire {

class LogWriter {
 public:
  enum class Importance : uint8_t {
    kPicture,  // a progress bar: only while nothing waits, and not counted
    kLine,
    kWarning,  // finds room where lines find none
    kLast,     // a line that ends the process; always finds room, there are few
  };

  // Bytes that wait for a reader; the last quarter is for warnings.
  static constexpr size_t kMaxBytes = size_t{1} << 20;

  // Makes the line that says how many lines were left out, with its end; called with a lock held.
  using SayOmitted = std::function<std::string(int64_t num_lines)>;

  // Writes to the descriptor `fd`, which outlives this.
  explicit LogWriter(int fd);
  // Does not wait for a reader: text that nobody has read by now is lost. Call Flush before.
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // From now on nothing destroys this, and nothing waits for its thread.
  void StayForever() { thread_.detach(); }

  void SetSayOmitted(SayOmitted say) ABSL_LOCKS_EXCLUDED(mutex_);

  // Takes a text, with its end. Never waits.
  void Write(std::string text, Importance importance) ABSL_LOCKS_EXCLUDED(mutex_);

  // Waits until everything is written; false when that takes longer.
  bool Flush(absl::Duration limit) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run();
  bool HasRoom(size_t num_bytes, Importance importance) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  void SayOmittedNow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The piece to write next: at most as much as a pipe that has room takes at once. Empty when it
  // is time to stop.
  std::string NextPiece() ABSL_LOCKS_EXCLUDED(mutex_);
  void WritePiece(const std::string& piece);
  bool WaitForRoom();

  const int fd_;
  const int stop_fd_;  // an eventfd: readable once this is being destroyed

  absl::Mutex mutex_;
  MonotonicCondVar news_;  // for the thread
  MonotonicCondVar flushed_;
  std::deque<std::string> waiting_ ABSL_GUARDED_BY(mutex_);
  size_t num_bytes_ ABSL_GUARDED_BY(mutex_) = 0;     // bytes in waiting_
  bool is_writing_ ABSL_GUARDED_BY(mutex_) = false;  // a piece that is no longer in waiting_
  int64_t num_omitted_ ABSL_GUARDED_BY(mutex_) = 0;
  SayOmitted say_omitted_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;  // the last member: it uses all others
};

// The writer of standard error. It is made when it is first used and never destroyed, because its
// thread may wait for a reader when the process ends.
LogWriter& StandardError();

// Prints one line, "quire-server: <sentence>", to standard error; line breaks become "; ".
void PrintFailure(const std::string& sentence);

// To be called before the process ends: writes the lines that wait, if somebody reads within a
// second.
void FlushLog();

// From here on, a failed CHECK and an exception that nobody catches write through the log, too: no
// thread waits for a reader in order to end the process.
void SpeakLastWordsThroughLog();

}  // namespace quire
