// ConnectionPool: all connections of the port, on a few event loops, and the bounds of their
// number: in all, and from one peer address. When a bound is reached, the connections that have
// been idle for longest give way: those from the addresses that have most, and first those that
// were never used. Any thread, except where said.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "kernels/base/clock.h"
#include "server/auth/peer_address.h"
#include "server/wire/transport/byte_budget.h"
#include "server/wire/transport/connection.h"
#include "server/wire/transport/event_loop.h"
#include "server/wire/transport/unique_fd.h"

namespace quire {

struct ConnectionPoolOptions {
  int num_loops = 2;
  int64_t max_connections = 4096;
  int64_t max_connections_per_peer = 2048;
  int64_t max_held_bytes = int64_t{32} << 20;  // of messages and unread answers, ByteBudget
  ConnectionTimeouts timeouts;
  TlsContext* tls = nullptr;  // null: in the clear only; outlives the pool
  // Whether a connection from there may do without TLS.
  std::function<bool(const PeerAddress& peer)> takes_plaintext = [](const PeerAddress&) {
    return true;
  };
};

class ConnectionPool {
 public:
  // Starts the loops. `make_handler` is called on their threads; null closes the connection.
  static absl::StatusOr<std::unique_ptr<ConnectionPool>> Start(const ConnectionPoolOptions& options,
                                                               MakeHandler make_handler);
  // Calls Stop. Work that was posted to the loops is gone then, so a thread that posts must be gone
  // or expect this.
  ~ConnectionPool();

  // Takes over a non-blocking connection, or closes it when a bound is reached and all are busy.
  void Add(UniqueFd fd, PeerAddress peer);

  int64_t num_connections() const;
  int64_t held_bytes() const { return budget_.held_bytes(); }

  // Every connection, also one that still comes, says that the server ends, and closes when its
  // last call has its answer.
  void BeginShutdown();
  // False when the deadline came first.
  bool WaitUntilEmpty(absl::Time deadline);
  // Closes the remaining connections and ends the loops' threads.
  void Stop();

 private:
  struct Entry {
    EventLoop* loop;
    PeerAddress peer;
    std::shared_ptr<TimeAccount> time_account;
    std::shared_ptr<Connection> connection;  // made, used and destroyed on the loop
    bool gives_way = false;                  // was told to close
  };

  struct Peer {
    int64_t num_open = 0;                         // except those that were told to close
    absl::Time search_at = absl::InfinitePast();  // for an idle one of them
  };

  ConnectionPool(const ConnectionPoolOptions& options, MakeHandler make_handler);
  bool MakeRoom(const std::string& peer_name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool EndIdle(absl::Time* search_at, const std::string* only = nullptr)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t LargestNumber() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  void Open(uint64_t id, UniqueFd fd);            // on the loop
  void Remove(uint64_t id);                       // on the loop
  std::shared_ptr<Connection> Find(uint64_t id);  // on the loop
  void ForEachConnection(void (Connection::*act)());
  void GiveBackMemory();

  const ConnectionPoolOptions options_;
  const ConnectionEntry entry_;
  ByteBudget budget_;
  TimeBudget time_budget_;
  std::vector<std::unique_ptr<EventLoop>> loops_;
  mutable absl::Mutex mutex_;
  MonotonicCondVar emptied_;
  absl::flat_hash_map<uint64_t, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, Peer> peers_ ABSL_GUARDED_BY(mutex_);
  absl::Time search_at_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();  // for any idle one
  uint64_t next_id_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t num_giving_way_ ABSL_GUARDED_BY(mutex_) = 0;
  bool shutting_down_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_stopped_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t num_closed_ ABSL_GUARDED_BY(mutex_) = 0;  // since memory was given back
};

}  // namespace quire
