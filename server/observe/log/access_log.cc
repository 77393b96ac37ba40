#include "server/observe/log/access_log.h"

#include <pthread.h>
#include <spdlog/spdlog.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/base/clock.h"
#include "server/text/json_text.h"

namespace quire {

namespace {

// How long a count may wait to be written when no line comes.
constexpr absl::Duration kCountDelay = absl::Seconds(1);
constexpr char kOtherAddresses[] = "other addresses";

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
    news_.Signal();
  }
  thread_.join();
}

void AccessLog::Add(AccessEntry entry, absl::Time now) {
  absl::MutexLock lock(&mutex_);
  if (!HasRate(entry, now)) return;
  if (waiting_.size() >= kMaxWaiting) {
    CountOmitted(&Omitted::num_waiting);
    return;
  }
  waiting_.push_back(std::move(entry));
  news_.Signal();
}

bool AccessLog::HasRate(const AccessEntry& entry, absl::Time now) {
  if (now - second_ >= absl::Seconds(1) || now < second_) {
    second_ = now;
    rates_.clear();
  }
  const bool is_one_more = rates_.size() >= kMaxAddresses && !rates_.contains(entry.peer);
  const std::string address = is_one_more ? kOtherAddresses : entry.peer;
  Rate& rate = rates_[address];
  const bool is_error = entry.status != absl::StatusCode::kOk;
  const bool is_over =
      is_error ? rate.num_errors >= kMaxErrorsPerSecond : rate.num_lines >= kMaxLinesPerSecond;
  ++(is_error ? rate.num_errors : rate.num_lines);
  if (!is_over) return true;
  CountOmitted(is_error ? &Omitted::num_errors : &Omitted::num_lines);
  if (++rate.num_omitted > omitted_.num_of_most) {
    omitted_.num_of_most = rate.num_omitted;
    omitted_.most_of = address;
  }
  return false;
}

void AccessLog::CountOmitted(int64_t Omitted::*kind) {
  if (!omitted_.any()) {
    count_due_ = MonotonicNow() + kCountDelay;
    news_.Signal();
  }
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
      news_.Await(&mutex_, absl::InfiniteFuture(), has_anything);
      // Counts gather for a moment; lines do not wait.
      if (waiting_.empty()) news_.Await(&mutex_, count_due_, has_work);
      entries.swap(waiting_);
      stopping = stopping_;
      if (stopping || MonotonicNow() >= count_due_) omitted = std::exchange(omitted_, {});
    }
    for (const AccessEntry& entry : entries) {
      write_(format_ == LogFormat::kJson ? AccessJson(entry) : AccessText(entry));
    }
    if (omitted.any()) WriteOmitted(omitted);
  }
}

void AccessLog::WriteOmitted(const Omitted& omitted) const {
  if (format_ == LogFormat::kJson) {
    write_(absl::StrCat("\"omitted_errors\":", omitted.num_errors, ",\"omitted_lines\":",
                        omitted.num_lines, ",\"omitted_waiting\":", omitted.num_waiting,
                        ",\"most_of\":", JsonString(omitted.most_of)));
  } else {
    write_(absl::StrCat(
        "access lines left out: ", omitted.num_errors, " of calls that ended with an error, ",
        omitted.num_lines, " of addresses with too many a second, ", omitted.num_waiting,
        " because they came faster than they could be written",
        omitted.most_of.empty() ? "" : absl::StrCat("; most of ", omitted.most_of)));
  }
}

}  // namespace quire
