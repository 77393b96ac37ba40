#include "server/wire/transport/connection_pool.h"

#include <malloc.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/base/clock.h"
#include "kernels/base/status_macros.h"

namespace quire {

namespace {

// The number of connections that are ended at a time: a search for them walks over all connections.
// After a search that found none, the next one comes kSearchAgain later.
constexpr size_t kEndedAtOnce = 64;
constexpr absl::Duration kSearchAgain = absl::Milliseconds(20);
// The time of the acceptor's thread that one accepted connection costs.
constexpr double kAcceptSeconds = 15e-6;
// A client that connected less than this ago is about to send something.
constexpr absl::Duration kNew = absl::Seconds(1);
// How often the pool looks whether an address may have its connections opened.
constexpr absl::Duration kLookAgain = absl::Milliseconds(50);

}  // namespace

absl::StatusOr<std::unique_ptr<ConnectionPool>> ConnectionPool::Start(
    const ConnectionPoolOptions& options, MakeHandler make_handler) {
  std::unique_ptr<ConnectionPool> pool(new ConnectionPool(options, std::move(make_handler)));
  for (int i = 0; i < options.num_loops; ++i) {
    ASSIGN_OR_RETURN(std::unique_ptr<EventLoop> loop,
                     EventLoop::Start(absl::StrCat("quire-io-", i)));
    pool->loops_.push_back(std::move(loop));
  }
  return pool;
}

ConnectionPool::ConnectionPool(const ConnectionPoolOptions& options, MakeHandler make_handler)
    : options_(options),
      entry_{options.tls, options.takes_plaintext, std::move(make_handler)},
      budget_(options.max_held_bytes) {}

ConnectionPool::~ConnectionPool() { Stop(); }

void ConnectionPool::Add(UniqueFd fd, PeerAddress peer) {
  absl::MutexLock lock(&mutex_);
  if (is_stopped_ || !MakeRoom(peer.name())) return;
  const uint64_t id = next_id_++;
  EventLoop* loop = loops_[id % loops_.size()].get();
  auto time_account = time_budget_.Find(peer.name());
  time_account->Charge(kAcceptSeconds);
  ++peers_[peer.name()].num_open;
  entries_.emplace(id, Entry{loop, std::move(peer), std::move(time_account), nullptr});
  loop->Post([this, id, fd = std::move(fd)]() mutable { Open(id, std::move(fd)); });
}

// Whether one more connection of this address may be opened. Those that were told to close count
// no more.
bool ConnectionPool::MakeRoom(const std::string& peer_name) {
  const auto peer = peers_.find(peer_name);
  if (peer != peers_.end() && peer->second.num_open >= options_.max_connections_per_peer &&
      !EndIdle(&peer->second.search_at, &peer_name)) {
    return false;
  }
  const int64_t num_open = static_cast<int64_t>(entries_.size()) - num_giving_way_;
  return num_open < options_.max_connections || EndIdle(&search_at_);
}

int64_t ConnectionPool::LargestNumber() const {
  int64_t largest = 0;
  for (const auto& [name, peer] : peers_) largest = std::max(largest, peer.num_open);
  return largest;
}

// Ends the connections that have been idle for longest, of the addresses that hold about as many
// connections as the largest, or only of the address `only`. The youngest ones, which a client is
// about to use, come last. False when no connection is idle, or when it is too early for another
// search.
bool ConnectionPool::EndIdle(absl::Time* search_at, const std::string* only) {
  const absl::Time now = MonotonicNow();
  if (now < *search_at) return false;
  const int64_t min_number = (LargestNumber() + 1) / 2;
  std::vector<std::tuple<bool, absl::Time, uint64_t>> idle;  // used or new, since, id
  for (const auto& [id, entry] : entries_) {
    if (entry.gives_way || entry.connection == nullptr) continue;
    const std::string& peer = entry.peer.name();
    if (only != nullptr ? peer != *only : peers_.at(peer).num_open < min_number) continue;
    const absl::Time since = entry.connection->idle_since();
    if (since != absl::InfiniteFuture()) {
      const bool is_spared = entry.connection->has_worked() || now - since < kNew;
      idle.emplace_back(is_spared, since, id);
    }
  }
  if (idle.empty()) {
    *search_at = now + kSearchAgain;
    return false;
  }
  const size_t num_ended = std::min(kEndedAtOnce, (idle.size() + 1) / 2);
  std::partial_sort(idle.begin(), idle.begin() + static_cast<ptrdiff_t>(num_ended), idle.end());
  for (size_t i = 0; i < num_ended; ++i) {
    const uint64_t id = std::get<uint64_t>(idle[i]);
    Entry& entry = entries_.at(id);
    entry.gives_way = true;
    ++num_giving_way_;
    --peers_.at(entry.peer.name()).num_open;
    entry.loop->Post([this, id] {
      if (const auto connection = Find(id)) connection->GiveWay();
    });
  }
  return true;
}

// An address deep in debt waits: who opens connections to reset them would keep the loops busy.
void ConnectionPool::Open(uint64_t id, UniqueFd fd) {
  EventLoop* loop = nullptr;
  PeerAddress peer;
  std::shared_ptr<TimeAccount> time_account;
  bool shutting_down = false;
  {
    absl::MutexLock lock(&mutex_);
    const Entry& entry = entries_.at(id);
    loop = entry.loop;
    peer = entry.peer;
    time_account = entry.time_account;
    shutting_down = shutting_down_;
  }
  if (!shutting_down && time_account->may_read_at() > loop->now()) {
    loop->AddTimer(loop->now() + kLookAgain,
                   [this, id, fd = std::move(fd)]() mutable { Open(id, std::move(fd)); });
    return;
  }
  loop->RunFor(time_account, [&] {
    auto connection =
        std::make_shared<Connection>(*loop, std::move(fd), std::move(peer), budget_, time_account,
                                     options_.timeouts, entry_, [this, id] { Remove(id); });
    absl::MutexLock lock(&mutex_);
    if (shutting_down_) connection->BeginShutdown();
    entries_.at(id).connection = std::move(connection);
  });
}

void ConnectionPool::Remove(uint64_t id) {
  std::shared_ptr<Connection> connection;  // destroyed after the lock is given back
  absl::MutexLock lock(&mutex_);
  const auto it = entries_.find(id);
  connection = std::move(it->second.connection);
  const auto peer = peers_.find(it->second.peer.name());
  if (it->second.gives_way) {
    --num_giving_way_;
  } else {
    --peer->second.num_open;
  }
  if (peer != peers_.end() && peer->second.num_open == 0) peers_.erase(peer);
  EventLoop* loop = it->second.loop;
  entries_.erase(it);
  if (entries_.empty()) emptied_.SignalAll();
  constexpr int64_t kMany = 128;
  if (++num_closed_ == kMany) {
    loop->AddTimer(loop->now() + absl::Seconds(2), [this] { GiveBackMemory(); });
  }
}

// The memory of many closed connections lies in pieces between memory that is still in use. The
// allocator gives such pieces back to the system only when it is asked to.
void ConnectionPool::GiveBackMemory() {
  {
    absl::MutexLock lock(&mutex_);
    num_closed_ = 0;
  }
  malloc_trim(0);
}

std::shared_ptr<Connection> ConnectionPool::Find(uint64_t id) {
  absl::MutexLock lock(&mutex_);
  const auto it = entries_.find(id);
  return it == entries_.end() ? nullptr : it->second.connection;
}

int64_t ConnectionPool::num_connections() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<int64_t>(entries_.size());
}

void ConnectionPool::ForEachConnection(void (Connection::*act)()) {
  absl::MutexLock lock(&mutex_);
  for (const auto& [id, entry] : entries_) {
    entry.loop->Post([this, id = id, act] {
      if (const auto connection = Find(id)) ((*connection).*act)();
    });
  }
}

void ConnectionPool::BeginShutdown() {
  {
    absl::MutexLock lock(&mutex_);
    shutting_down_ = true;
  }
  ForEachConnection(&Connection::BeginShutdown);
}

bool ConnectionPool::WaitUntilEmpty(absl::Time deadline) {
  absl::MutexLock lock(&mutex_);
  const auto is_empty = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return entries_.empty(); };
  return emptied_.Await(&mutex_, deadline, is_empty);
}

void ConnectionPool::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    is_stopped_ = true;
  }
  ForEachConnection(&Connection::Close);
  for (const auto& loop : loops_) loop->Stop();
}

}  // namespace quire
