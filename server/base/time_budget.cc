#include "server/base/time_budget.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "kernels/base/clock.h"

namespace quire {

double ThreadSeconds() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void TimeAccount::Charge(double seconds) {
  absl::MutexLock lock(&mutex_);
  bucket_.Refill(MonotonicNow());
  bucket_.Take(seconds);
}

absl::Time TimeAccount::may_work_at() const { return DebtEnd(0); }

// Earlier than work may begin: who takes answers must be heard, and so gets out of debt.
absl::Time TimeAccount::may_read_at() const { return DebtEnd(kBurstSeconds / 2); }

absl::Time TimeAccount::DebtEnd(double allowed) const {
  const absl::Time now = MonotonicNow();
  absl::MutexLock lock(&mutex_);
  bucket_.Refill(now);
  const absl::Time end = bucket_.debt_end(allowed);
  return end > now ? end : absl::InfinitePast();
}

bool TimeAccount::is_full() const {
  absl::MutexLock lock(&mutex_);
  bucket_.Refill(MonotonicNow());
  return bucket_.is_full();
}

void CallCost::Charge(double seconds) {
  absl::MutexLock lock(&mutex_);
  if (is_served_) return;
  account_->Charge(seconds);
  unserved_seconds_ += seconds;
}

void CallCost::Note(double seconds) {
  absl::MutexLock lock(&mutex_);
  if (is_served_) {
    account_->Charge(-seconds);
  } else {
    unserved_seconds_ += seconds;
  }
}

void CallCost::MarkServed(double seconds) {
  absl::MutexLock lock(&mutex_);
  is_served_ = true;
  account_->Charge(-std::exchange(unserved_seconds_, 0) - seconds);
}

std::shared_ptr<TimeAccount> TimeBudget::Find(const std::string& address) {
  absl::MutexLock lock(&mutex_);
  if (accounts_.size() >= next_look_) {
    absl::erase_if(accounts_, [](const auto& entry) {
      return entry.second.use_count() == 1 && entry.second->is_full();
    });
    next_look_ = std::max(kManyAccounts, 2 * accounts_.size());
  }
  std::shared_ptr<TimeAccount>& account = accounts_[address];
  if (account == nullptr) account = std::make_shared<TimeAccount>();
  return account;
}

size_t TimeBudget::num_accounts() const {
  absl::MutexLock lock(&mutex_);
  return accounts_.size();
}

}  // namespace quire
