// ConnectionHandler: what a protocol does with one connection's bytes. Made when the first bytes
// show which protocol it is. The thread of the connection's loop.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "server/auth/peer_address.h"
#include "server/base/time_budget.h"
#include "server/wire/transport/byte_budget.h"
#include "server/wire/transport/event_loop.h"
#include "server/wire/transport/protocol.h"

namespace quire {

// What a handler may ask of its connection; outlives the handler.
class ConnectionControl {
 public:
  virtual ~ConnectionControl() = default;
  virtual EventLoop& loop() = 0;
  virtual ByteBudget::Account& account() = 0;
  // What the peer's address makes the server compute.
  virtual const std::shared_ptr<TimeAccount>& time_account() = 0;
  virtual const PeerAddress& peer() const = 0;
  // The name in the peer's certificate, which TLS has verified.
  virtual const std::optional<std::string>& client_name() const = 0;
  // Output has come up: FillOutput is called at the end of the loop's turn.
  virtual void RequestWrite() = 0;
  // Reads nothing more until then. What was read already goes on.
  virtual void PauseReading(absl::Time until) = 0;
  // A connection without work is the first to go when there are too many: also one that waits for
  // the rest of a request, which says so again whenever some of it comes.
  virtual void SetIdle(bool idle) = 0;
};

class ConnectionHandler {
 public:
  virtual ~ConnectionHandler() = default;

  // Takes all of `bytes`.
  virtual void OnInput(std::string_view bytes) = 0;
  // Appends what is to be sent, some `limit` bytes at most; nothing when there is nothing now.
  virtual void FillOutput(std::string* output, size_t limit) = 0;
  // Nothing will come any more and nothing more is wanted: the connection ends after its output.
  virtual bool IsDone() const = 0;
  // Says to the peer that the connection ends, and finishes what runs; `at_once`: without waiting
  // for what may be on its way.
  virtual void BeginShutdown(bool at_once) = 0;
};

using MakeHandler = std::function<std::unique_ptr<ConnectionHandler>(Protocol protocol,
                                                                     ConnectionControl* control)>;

}  // namespace quire
