// Acceptor: accepts the port's connections and gives them to the pool, which bounds their number.
// One thread, asleep while nothing happens; it reads nothing, so nothing that clients send can hold
// it up.
#pragma once

#include <memory>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/wire/transport/connection_pool.h"
#include "server/wire/transport/listener.h"
#include "server/wire/transport/unique_fd.h"

namespace quire {

class Acceptor {
 public:
  // Begins to accept from `listener`, which must be listening. `pool` outlives the acceptor.
  static absl::StatusOr<std::unique_ptr<Acceptor>> Start(Listener listener, ConnectionPool* pool);
  // Closes the port. Connections go on.
  ~Acceptor();

 private:
  Acceptor(Listener listener, ConnectionPool* pool);
  void Run();
  bool AcceptOne();
  void OnDescriptorsExhausted();

  Listener listener_;
  ConnectionPool* const pool_;
  UniqueFd wake_;     // eventfd: the destructor's call to stop
  UniqueFd reserve_;  // given up for a moment to refuse a connection when descriptors run out
  bool paused_ = false;
  std::thread thread_;
};

}  // namespace quire
