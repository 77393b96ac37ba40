// Connection: one accepted socket: finds out its protocol, moves bytes between the socket and the
// protocol's handler, and ends it when it is silent, done, lost or no longer wanted. The thread of
// its loop, except where said.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "server/auth/peer_address.h"
#include "server/wire/tls/tls_context.h"
#include "server/wire/transport/byte_budget.h"
#include "server/wire/transport/byte_stream.h"
#include "server/wire/transport/connection_handler.h"
#include "server/wire/transport/event_loop.h"
#include "server/wire/transport/unique_fd.h"

namespace quire {

// How a connection may begin.
struct ConnectionEntry {
  TlsContext* tls = nullptr;  // null: in the clear only
  std::function<bool(const PeerAddress& peer)> takes_plaintext = [](const PeerAddress&) {
    return true;
  };
  MakeHandler make_handler;
};

struct ConnectionTimeouts {
  absl::Duration first_bytes = absl::Seconds(10);     // until the protocol is known, TLS included
  absl::Duration shutdown = absl::Milliseconds(200);  // for the first bytes when the server ends
  absl::Duration linger = absl::Seconds(1);           // for the peer to take the last bytes
  absl::Duration write_stall = absl::Seconds(60);     // the peer takes none of the output
};

class Connection final : public EventLoop::Watcher, public ConnectionControl {
 public:
  // `on_closed` is called once, from the loop's thread, outside of all methods; it destroys this.
  Connection(EventLoop& loop, UniqueFd fd, PeerAddress peer, ByteBudget& budget,
             std::shared_ptr<TimeAccount> time_account, const ConnectionTimeouts& timeouts,
             const ConnectionEntry& entry, std::function<void()> on_closed);
  ~Connection() override;

  // Says goodbye after the calls that run or are on their way; GiveWay does so at once.
  void BeginShutdown() { Shutdown(/*at_once=*/false); }
  void GiveWay() { Shutdown(/*at_once=*/true); }
  // At once, whatever is under way.
  void Close() { CloseFor("the server ends it"); }

  // Whether it has ever had a whole request. Any thread.
  bool has_worked() const { return has_worked_.load(); }
  // The time since which there has been nothing to do, nothing has come of a request, or nothing of
  // an answer was taken; InfiniteFuture while there is something for us to do. Any thread.
  absl::Time idle_since() const {
    const int64_t us = std::min(idle_since_us_.load(), blocked_since_us_.load());
    return us == kBusy ? absl::InfiniteFuture() : absl::FromUnixMicros(us);
  }

  EventLoop& loop() override { return loop_; }
  ByteBudget::Account& account() override { return account_; }
  const std::shared_ptr<TimeAccount>& time_account() override { return time_account_; }
  const PeerAddress& peer() const override { return peer_; }
  const std::optional<std::string>& client_name() const override { return client_name_; }
  void RequestWrite() override;
  void PauseReading(absl::Time until) override;
  void SetIdle(bool idle) override;

  void OnReady(uint32_t epoll_events) override;

 private:
  enum class State : uint8_t { kOpen, kLingering, kClosed };
  static constexpr int64_t kBusy = std::numeric_limits<int64_t>::max();

  void CloseFor(std::string_view reason);
  void Shutdown(bool at_once);
  void Begin();
  bool WaitsForDebt();
  void TakeEvents(uint32_t epoll_events);
  void ReadOnce();
  void GoOnReading();
  IoResult ReadUpTo(absl::Span<char> buffer, size_t* num_bytes);
  void ReadAgainSoon();
  void TakeInput(std::string_view bytes);
  void Write();
  void WriteOut(std::string_view bytes);
  void BeginLinger();
  void UpdateWatch();
  void SetTimer(absl::Time when, EventLoop::Work work);
  void ClearTimer();

  EventLoop& loop_;
  UniqueFd fd_;
  const PeerAddress peer_;
  ByteBudget::Account account_;
  const std::shared_ptr<TimeAccount> time_account_;
  const ConnectionTimeouts timeouts_;
  const ConnectionEntry& entry_;
  std::function<void()> on_closed_;
  std::unique_ptr<ByteStream> stream_;  // null until the first byte
  std::optional<std::string> client_name_;
  EventLoop::WatchId watch_ = 0;
  uint32_t watched_events_ = 0;

  State state_ = State::kOpen;
  std::string first_bytes_;  // until the protocol is known
  std::unique_ptr<ConnectionHandler> handler_;
  std::string pending_;  // output that the socket has not taken yet
  bool write_blocked_ = false;
  bool read_wants_write_ = false;  // TLS has to write before it can read on
  bool reading_paused_ = false;
  bool write_requested_ = false;
  bool ends_at_begin_ = false;  // the server ends
  EventLoop::TimerId timer_;    // first bytes, stalled output or linger
  bool has_timer_ = false;
  EventLoop::TimerId pause_timer_;  // also of reading again soon
  std::atomic<bool> has_worked_ = false;
  std::atomic<int64_t> idle_since_us_;            // or kBusy
  std::atomic<int64_t> blocked_since_us_{kBusy};  // since when the peer takes no output; or kBusy
};

}  // namespace quire
