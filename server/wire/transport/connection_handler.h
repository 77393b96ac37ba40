// ConnectionHandler: a protocol's side of one connection. Made when the first bytes show which
// protocol it is. The thread of the connection's loop.
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

// The requests that a handler may make of its connection; outlives the handler.
class ConnectionControl {
 public:
  virtual ~ConnectionControl() = default;
  virtual EventLoop& loop() = 0;
  virtual ByteBudget::Account& account() = 0;
  // The account of the CPU time that the peer's address makes the server spend.
  virtual const std::shared_ptr<TimeAccount>& time_account() = 0;
  virtual const PeerAddress& peer() const = 0;
  // The name in the peer's certificate, which TLS has verified.
  virtual const std::optional<std::string>& client_name() const = 0;
  // There is new output: FillOutput is called at the end of the loop's turn.
  virtual void RequestWrite() = 0;
  // Reads nothing more until then. Work on the bytes that were read already goes on.
  virtual void PauseReading(absl::Time until) = 0;
  // A connection without work is the first to go when there are too many. So is one that waits for
  // the rest of a request; it says so again whenever a part of the request comes.
  virtual void SetIdle(bool idle) = 0;
};

class ConnectionHandler {
 public:
  virtual ~ConnectionHandler() = default;

  // Takes all of `bytes`.
  virtual void OnInput(std::string_view bytes) = 0;
  // Appends output to send, about `limit` bytes at most; nothing when there is nothing now.
  virtual void FillOutput(std::string* output, size_t limit) = 0;
  // Nothing more will come and nothing more is wanted: the connection ends after its output.
  virtual bool IsDone() const = 0;
  // Tells the peer that the connection ends, and finishes what runs; `at_once`: without waiting for
  // input that may be on its way.
  virtual void BeginShutdown(bool at_once) = 0;
};

using MakeHandler = std::function<std::unique_ptr<ConnectionHandler>(Protocol protocol,
                                                                     ConnectionControl* control)>;

}  // namespace quire
