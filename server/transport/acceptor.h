// Acceptor: accepts the port's connections, bounds their number, and hands each to the protocol
// that its first bytes show. One thread, asleep in epoll while nothing happens. A connection that
// was handed over is still counted, through a duplicate of its descriptor, until it is closed.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/transport/listener.h"
#include "server/transport/protocol.h"
#include "server/transport/unique_fd.h"

namespace quire {

struct AcceptorOptions {
  int64_t max_connections = 4096;
  absl::Duration first_bytes_timeout = absl::Seconds(10);  // a silent connection is then closed
};

class Acceptor {
 public:
  // Takes over a non-blocking connection whose first bytes have not been read. Acceptor's thread.
  using Handler = std::function<void(UniqueFd connection)>;

  // Connections of a protocol that has no handler are closed.
  using Handlers = absl::flat_hash_map<Protocol, Handler>;

  // Begins to accept from `listener`, which must be listening.
  static absl::StatusOr<std::unique_ptr<Acceptor>> Start(Listener listener,
                                                         const AcceptorOptions& options,
                                                         Handlers handlers);
  // Closes the port and ends every connection, after what was sent on it.
  ~Acceptor();

  // Open connections, handed over or not. Any thread.
  int64_t num_connections() const { return num_connections_.load(std::memory_order_relaxed); }

 private:
  // Either still ours (waiting for its first bytes) or handed over (`fd` is then a duplicate).
  struct Connection {
    UniqueFd fd;
    bool handed_over = false;
    absl::Time deadline;  // for the first bytes
  };

  Acceptor(Listener listener, const AcceptorOptions& options, Handlers handlers);
  void Run();
  int TimeoutMs() const;
  void AcceptAll();
  bool AcceptOne();
  void OnDescriptorsExhausted();
  void AddConnection(UniqueFd fd);
  void OnConnectionEvent(int fd, uint32_t events);
  void HandOver(int fd, const Handler& handler);
  void Close(int fd);
  void CloseSilent(absl::Time now);
  void Watch(int fd, uint32_t events);
  void PauseAccepting(absl::Time now);
  void ResumeAccepting();

  Listener listener_;
  const AcceptorOptions options_;
  const Handlers handlers_;
  UniqueFd epoll_;
  UniqueFd wake_;     // eventfd: the destructor's call to stop
  UniqueFd reserve_;  // given up for a moment to refuse a connection when descriptors run out
  absl::flat_hash_map<int, Connection> connections_;  // by descriptor
  int num_silent_ = 0;                                // connections not handed over yet
  absl::Time next_silent_check_ = absl::InfiniteFuture();
  absl::Time resume_time_ = absl::InfiniteFuture();  // accepting pauses until then
  std::atomic<int64_t> num_connections_{0};
  std::thread thread_;
};

}  // namespace quire
