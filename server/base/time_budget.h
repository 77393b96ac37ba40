// TimeBudget: how much each client address makes the server compute for nothing. All CPU time that
// is spent for an address is charged to its account, and given back once the client has taken the
// answer. The rest served nobody. While an address is in debt, none of its work begins; while it is
// deep in debt, nothing that it sends is read, until time has paid for it. Any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/base/token_bucket.h"

namespace quire {

// CPU seconds that the calling thread has used.
double ThreadSeconds();

// The account of one address.
class TimeAccount {
 public:
  // Takes CPU seconds, or gives some back for a negative number.
  void Charge(double seconds);
  // When its work may begin, and when the server may read from it; InfinitePast while that is now.
  absl::Time may_work_at() const;
  absl::Time may_read_at() const;
  bool is_full() const;

 private:
  // A fifth of a core in the long run: prompts of 6 MB a second that nobody wants answered. At
  // once: as much as 8 MB of prompts.
  static constexpr double kCores = 0.2;
  static constexpr double kBurstSeconds = 0.25;

  // When no more than `allowed` of a debt is left.
  absl::Time DebtEnd(double allowed) const;

  mutable absl::Mutex mutex_;
  mutable TokenBucket bucket_ ABSL_GUARDED_BY(mutex_){kCores, kBurstSeconds};
};

// The cost of one call, until the call was of use.
class CallCost {
 public:
  explicit CallCost(std::shared_ptr<TimeAccount> account) : account_(std::move(account)) {}

  TimeAccount& account() { return *account_; }
  // Charges the account with the call's time.
  void Charge(double seconds);
  // The same for time that is charged already.
  void Note(double seconds);
  // The client has taken an answer: gives back everything, also what is charged later, and
  // `seconds` that were charged to no call.
  void MarkServed(double seconds);

 private:
  const std::shared_ptr<TimeAccount> account_;
  absl::Mutex mutex_;
  double unserved_seconds_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_served_ ABSL_GUARDED_BY(mutex_) = false;
};

class TimeBudget {
 public:
  // The account of an address. A debt is remembered when nobody holds the account any more.
  std::shared_ptr<TimeAccount> Find(const std::string& address);
  size_t num_accounts() const;

 private:
  static constexpr size_t kManyAccounts = 1024;

  mutable absl::Mutex mutex_;
  absl::flat_hash_map<std::string, std::shared_ptr<TimeAccount>> accounts_ ABSL_GUARDED_BY(mutex_);
  size_t next_look_ ABSL_GUARDED_BY(mutex_) = kManyAccounts;  // for accounts to forget
};

}  // namespace quire
