#include "server/log/access_log.h"

#include <pthread.h>
#include <spdlog/spdlog.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace quire {

namespace {

// How long a count may wait to be written when no line comes.
constexpr absl::Duration kCountDelay = absl::Seconds(1);

std::function<void(const std::string&)> ToLogger() {
  auto logger = spdlog::get(kAccessLogger);
  if (logger == nullptr) logger = spdlog::default_logger();
  return [logger](const std::string& line) { logger->info("{}", line); };
}

}  // namespace

AccessLog::AccessLog(LogFormat format) : AccessLog(format, ToLogger()) {}

AccessLog::AccessLog(LogFormat format, std::function<void(const std::string& line)> write)
    : format_(format), write_(std::move(write)), thread_([this] { Run(); }) {}

AccessLog::~AccessLog() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

void AccessLog::Add(AccessEntry entry, absl::Time now) {
  absl::MutexLock lock(&mutex_);
  if (entry.status != absl::StatusCode::kOk) {
    if (now - second_ >= absl::Seconds(1) || now < second_) {
      second_ = now;
      num_errors_ = 0;
    }
    if (++num_errors_ > kMaxErrorsPerSecond) {
      CountOmitted(&Omitted::num_errors);
      return;
    }
  }
  if (waiting_.size() >= kMaxWaiting) {
    CountOmitted(&Omitted::num_waiting);
    return;
  }
  waiting_.push_back(std::move(entry));
}

void AccessLog::CountOmitted(int64_t Omitted::*kind) {
  if (!omitted_.any()) count_due_ = absl::Now() + kCountDelay;
  ++(omitted_.*kind);
}

void AccessLog::Run() {
  pthread_setname_np(pthread_self(), "quire-access");
  std::vector<AccessEntry> entries;
  bool stopping = false;
  while (!stopping) {
    entries.clear();
    Omitted omitted;
    {
      absl::MutexLock lock(&mutex_);
      const auto has_work = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
        return stopping_ || !waiting_.empty();
      };
      const auto has_anything = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
        return stopping_ || !waiting_.empty() || omitted_.any();
      };
      mutex_.Await(absl::Condition(&has_anything));
      // Counts gather for a moment; lines do not wait.
      if (waiting_.empty()) mutex_.AwaitWithDeadline(absl::Condition(&has_work), count_due_);
      entries.swap(waiting_);
      stopping = stopping_;
      if (stopping || absl::Now() >= count_due_) omitted = std::exchange(omitted_, {});
    }
    for (const AccessEntry& entry : entries) {
      write_(format_ == LogFormat::kJson ? AccessJson(entry) : AccessText(entry));
    }
    if (omitted.any()) WriteOmitted(omitted);
  }
}

void AccessLog::WriteOmitted(const Omitted& omitted) const {
  if (format_ == LogFormat::kJson) {
    write_(absl::StrCat("\"omitted_errors\":", omitted.num_errors,
                        ",\"omitted_waiting\":", omitted.num_waiting));
  } else {
    write_(absl::StrCat("access lines left out: ", omitted.num_errors,
                        " of calls that ended with an error, ", omitted.num_waiting,
                        " because the log is read too slowly"));
  }
}

}  // namespace quire
