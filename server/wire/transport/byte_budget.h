// ByteBudget: how many bytes of clients' messages and unread answers the server holds. A share is
// taken before the bytes are kept, and refused to a client that holds much already. A peer address
// may have half of the bytes that the others leave, and so may one connection of the address. So
// newcomers find room, however much the greedy hold. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"

namespace quire {

class ByteBudget {
 public:
  explicit ByteBudget(int64_t total_bytes) : total_bytes_(total_bytes) {}

  // The bytes that one connection holds. The account belongs to the connection and to its peer's
  // account.
  class Account {
   public:
    Account(ByteBudget* budget, std::string peer) : budget_(budget), peer_(std::move(peer)) {}
    Account(const Account&) = delete;
    Account& operator=(const Account&) = delete;
    // Everything must have been given back.
    ~Account();

    // False, without taking anything, when this is more than the connection may have now. A few KiB
    // (kSureBytes) are granted to every connection, whatever the others hold.
    bool Take(int64_t bytes);
    void GiveBack(int64_t bytes);

   private:
    ByteBudget* const budget_;
    const std::string peer_;
    int64_t held_bytes_ = 0;  // guarded by budget_->mutex_
  };

  // The bytes of a small request: its connection is never told that there is no room.
  static constexpr int64_t kSureBytes = 6 << 10;

  int64_t held_bytes() const;

 private:
  const int64_t total_bytes_;
  mutable absl::Mutex mutex_;
  int64_t held_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<std::string, int64_t> held_by_peer_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quire
