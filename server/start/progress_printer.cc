#include "server/start/progress_printer.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace quire {

namespace {

using std::chrono::milliseconds;
using Seconds = std::chrono::duration<double>;

constexpr milliseconds kRedraw(100);         // on a terminal
constexpr milliseconds kLineInterval(2000);  // elsewhere
constexpr Seconds kBarAfter(0.3);            // what is over sooner is not worth a flicker
constexpr int kBarWidth = 24;

// Bytes in the unit of the total, so that both sides of "of" read alike.
std::string Amount(const ProgressSnapshot& snapshot) {
  if (snapshot.unit == ProgressUnit::kItems) {
    return snapshot.total > 0 ? absl::StrCat(snapshot.done, " of ", snapshot.total)
                              : absl::StrCat(snapshot.done);
  }
  const bool large = std::max(snapshot.total, snapshot.done) >= 1'000'000'000;
  const double scale = large ? 1e9 : 1e6;
  const auto in_unit = [&](int64_t bytes) {
    return absl::StrFormat("%.*f", large ? 2 : 1, static_cast<double>(bytes) / scale);
  };
  const char* unit = large ? " GB" : " MB";
  return snapshot.total > 0
             ? absl::StrCat(in_unit(snapshot.done), " of ", in_unit(snapshot.total), unit)
             : absl::StrCat(in_unit(snapshot.done), unit);
}

std::string Rate(const ProgressSnapshot& snapshot, double per_second) {
  if (snapshot.unit == ProgressUnit::kItems) return absl::StrFormat("%.1f/s", per_second);
  return per_second >= 1e9 ? absl::StrFormat("%.1f GB/s", per_second / 1e9)
                           : absl::StrFormat("%.1f MB/s", per_second / 1e6);
}

int TerminalColumns() {
  winsize size = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

}  // namespace

std::string ProgressText(const ProgressSnapshot& snapshot) {
  std::string text = absl::StrCat(snapshot.stage, ": ", Amount(snapshot));
  const double seconds = Seconds(snapshot.elapsed).count();
  if (snapshot.done <= 0 || seconds <= 0) return text;
  const double per_second = static_cast<double>(snapshot.done) / seconds;
  absl::StrAppend(&text, ", ", Rate(snapshot, per_second));
  if (snapshot.total > snapshot.done) {
    const double left = static_cast<double>(snapshot.total - snapshot.done) / per_second;
    absl::StrAppendFormat(&text, ", %.0f s left", std::ceil(left));
  }
  return text;
}

std::string ProgressBar(const ProgressSnapshot& snapshot, int num_columns) {
  std::string bar;
  if (snapshot.total > 0) {
    const double share = std::clamp(
        static_cast<double>(snapshot.done) / static_cast<double>(snapshot.total), 0.0, 1.0);
    const int filled = static_cast<int>(share * kBarWidth);
    bar = absl::StrFormat("[%s%s] %3.0f%% ", std::string(filled, '#'),
                          std::string(kBarWidth - filled, '.'), std::floor(share * 100));
  }
  absl::StrAppend(&bar, ProgressText(snapshot));
  // One less than the width: a full line would wrap on some terminals.
  if (static_cast<int>(bar.size()) >= num_columns) bar.resize(std::max(0, num_columns - 1));
  return bar;
}

ProgressPrinter::ProgressPrinter(const Progress& progress,
                                 std::function<void(const std::string&)> print_line,
                                 std::function<void(const std::string&)> draw)
    : progress_(progress),
      print_line_(std::move(print_line)),
      draw_(std::move(draw)),
      on_terminal_(isatty(STDERR_FILENO) == 1),
      thread_([this] { Run(); }) {}

ProgressPrinter::~ProgressPrinter() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    stopped_.Signal();
  }
  thread_.join();
}

void ProgressPrinter::Run() {
  absl::MutexLock lock(&mutex_);
  const absl::Duration interval = absl::FromChrono(on_terminal_ ? kRedraw : kLineInterval);
  const auto is_stopping = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stopping_; };
  while (!stopped_.Await(&mutex_, MonotonicNow() + interval, is_stopping)) {
    const ProgressSnapshot snapshot = progress_.Read();
    if (!on_terminal_) {
      if (!snapshot.stage.empty()) print_line_(ProgressText(snapshot));
    } else if (snapshot.stage.empty()) {
      WipeBar();
    } else if (snapshot.elapsed >= kBarAfter) {
      ShowBar(snapshot);
    }
  }
  WipeBar();
}

// The cursor goes back to the start, so that whatever else is printed writes over the bar.
void ProgressPrinter::ShowBar(const ProgressSnapshot& snapshot) {
  draw_(absl::StrCat("\r\033[K", ProgressBar(snapshot, TerminalColumns()), "\r"));
  bar_shown_ = true;
}

void ProgressPrinter::WipeBar() {
  if (bar_shown_) draw_("\r\033[K");
  bar_shown_ = false;
}

}  // namespace quire
