#include "server/observe/log/log_writer.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "kernels/base/check.h"
#include "kernels/base/check_reporter.h"

namespace quire {

namespace {

constexpr absl::Duration kExitPatience = absl::Seconds(1);

void SayLastWords(const std::string& words) {
  StandardError().Write(words + "\n", LogWriter::Importance::kLast);
  FlushLog();
}

[[noreturn]] void OnTerminate() {
  std::string words = "quire-server: terminated";
  if (const std::exception_ptr exception = std::current_exception()) {
    try {
      std::rethrow_exception(exception);
    } catch (const std::exception& what) {
      words += std::string(" by an exception: ") + what.what();
    } catch (...) {
      words += " by an exception";
    }
  }
  SayLastWords(words);
  std::abort();
}

}  // namespace

LogWriter::LogWriter(int fd)
    : fd_(fd), stop_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), thread_([this] { Run(); }) {
  CHECK(stop_fd_ >= 0) << "no descriptors are left";
}

LogWriter::~LogWriter() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    news_.Signal();
  }
  eventfd_write(stop_fd_, 1);
  thread_.join();
  close(stop_fd_);
}

void LogWriter::SetSayOmitted(SayOmitted say) {
  absl::MutexLock lock(&mutex_);
  say_omitted_ = std::move(say);
}

void LogWriter::Write(std::string text, Importance importance) {
  if (text.empty()) return;
  absl::MutexLock lock(&mutex_);
  if (!HasRoom(text.size(), importance)) {
    if (importance != Importance::kPicture) ++num_omitted_;
    return;
  }
  if (num_bytes_ <= kMaxBytes / 2) SayOmittedNow();
  num_bytes_ += text.size();
  waiting_.push_back(std::move(text));
  news_.Signal();
}

// Where lines were left out, half of the queue is to be free again before there are more: so the
// count comes now and then, and not between any two lines.
bool LogWriter::HasRoom(size_t num_bytes, Importance importance) const {
  switch (importance) {
    case Importance::kPicture:
      return !is_writing_ && waiting_.empty();
    case Importance::kLine:
      return num_bytes_ + num_bytes <= (num_omitted_ > 0 ? kMaxBytes / 2 : kMaxBytes / 4 * 3);
    case Importance::kWarning:
      return num_bytes_ + num_bytes <= kMaxBytes;
    case Importance::kLast:
      return true;
  }
  return true;
}

void LogWriter::SayOmittedNow() {
  if (num_omitted_ == 0) return;
  std::string line = say_omitted_ ? say_omitted_(num_omitted_)
                                  : absl::StrCat("lines left out: ", num_omitted_, "\n");
  num_omitted_ = 0;
  num_bytes_ += line.size();
  waiting_.push_back(std::move(line));
}

bool LogWriter::Flush(absl::Duration limit) {
  absl::MutexLock lock(&mutex_);
  return flushed_.Await(
      &mutex_, MonotonicNow() + limit,
      [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return waiting_.empty() && !is_writing_; });
}

void LogWriter::Run() {
  pthread_setname_np(pthread_self(), "quire-log");
  while (true) {
    const std::string piece = NextPiece();
    if (piece.empty()) return;
    WritePiece(piece);
  }
}

// Lines that wait are written together.
std::string LogWriter::NextPiece() {
  absl::MutexLock lock(&mutex_);
  is_writing_ = false;
  if (waiting_.empty()) SayOmittedNow();
  if (waiting_.empty()) flushed_.SignalAll();
  news_.Await(&mutex_, absl::InfiniteFuture(), [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !waiting_.empty();
  });
  std::string piece;
  if (waiting_.empty()) return piece;
  while (!waiting_.empty() && piece.size() + waiting_.front().size() <= PIPE_BUF) {
    num_bytes_ -= waiting_.front().size();
    piece += waiting_.front();
    waiting_.pop_front();
  }
  if (piece.empty()) {  // a long one, which comes in parts
    std::string& first = waiting_.front();
    piece = first.substr(0, PIPE_BUF);
    num_bytes_ -= piece.size();
    first.erase(0, piece.size());
  }
  is_writing_ = true;
  return piece;
}

// Returns false when this is being destroyed. Another writer to the same pipe may take the room
// that was seen here. Then write waits, which holds up only this thread.
bool LogWriter::WaitForRoom() {
  std::array<pollfd, 2> fds = {{{fd_, POLLOUT, 0}, {stop_fd_, POLLIN, 0}}};
  while (poll(fds.data(), fds.size(), -1) < 0 && errno == EINTR) {
  }
  return fds[0].revents != 0;
}

void LogWriter::WritePiece(const std::string& piece) {
  size_t done = 0;
  while (done < piece.size() && WaitForRoom()) {
    const ssize_t count = write(fd_, piece.data() + done, piece.size() - done);
    if (count > 0) done += static_cast<size_t>(count);
    if (count < 0 && errno == EAGAIN) {
      // Somebody made it non-blocking, and poll sees room that is too little for this.
      poll(nullptr, 0, /*timeout=*/10);
    } else if (count < 0 && errno != EINTR) {
      return;  // closed, or its reader is gone: nobody will ever read this
    }
  }
}

LogWriter& StandardError() {
  static LogWriter& writer = []() -> LogWriter& {
    auto* const made = new LogWriter(STDERR_FILENO);
    made->StayForever();
    return *made;
  }();
  return writer;
}

void PrintFailure(const std::string& sentence) {
  const std::string one_line = absl::StrReplaceAll(sentence, {{"\n", "; "}});
  StandardError().Write(absl::StrCat("quire-server: ", one_line, "\n"),
                        LogWriter::Importance::kLast);
}

void FlushLog() { StandardError().Flush(kExitPatience); }

void SpeakLastWordsThroughLog() {
  SetCheckReporter(&SayLastWords);
  std::set_terminate(&OnTerminate);
}

}  // namespace quire
