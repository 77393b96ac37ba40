// Call: the common part of calls over gRPC and over HTTP. It takes part in one exchange. It holds
// bytes of the request and of the answer on the connection's account, and gives parts of the answer
// to the stream as the client reads them. It says in the access log how the call ended. Handlers
// hold a call while they work and may answer from any thread; everything else happens on the
// connection's loop.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/auth/principal.h"
#include "server/call/live_calls.h"
#include "server/observe/log/access_log.h"
#include "server/observe/log/recent_requests.h"
#include "server/observe/metrics/server_metrics.h"
#include "server/request/cancel_token.h"
#include "server/trace/trace_context.h"
#include "server/wire/http/http_exchange.h"

namespace quire {

// The parts of the server that watch over all calls.
struct CallWatch {
  LiveCalls* live_calls;
  AccessLog* access_log = nullptr;            // null: no line for each call
  ServerMetrics* metrics = nullptr;           // null: calls are not counted
  RecentRequests* recent_requests = nullptr;  // null: calls are not remembered
  // After this long without an event, streams of events send a sign of life; zero: never.
  absl::Duration ping_interval = absl::ZeroDuration();
};

class Call : public HttpExchange, public std::enable_shared_from_this<Call> {
 public:
  ~Call() override;

  // Cancelled when the client is gone or its deadline is past.
  const std::shared_ptr<CancelToken>& token() const { return token_; }
  // Null for a caller that is not known, whose call is only refused.
  const std::shared_ptr<const Principal>& principal() const { return principal_; }
  // Work for the call on another thread is charged to this.
  const std::shared_ptr<CallCost>& cost() const { return cost_; }
  // The caller's trace, until a handler begins one; set on the loop.
  const TraceContext& trace() const { return trace_; }
  void SetTrace(TraceContext trace) { trace_ = std::move(trace); }

  // Sends a part of the answer; any thread. `on_sent`, which may be null, is called once, on the
  // loop: when the part is on its way and the next one may be given, or when it will never be.
  void Send(std::string part, std::function<void()> on_sent);
  // Runs `work` on the loop; any thread.
  void Run(EventLoop::Work work) { loop_.Post(std::move(work)); }
  // Ends the call with an error that the client is told; any thread.
  virtual void Fail(const absl::Status& status) = 0;
  // Tells the access log about the request, beside the values that the call itself knows; any
  // thread, before the call's end.
  void SetAccess(AccessEntry entry);

  Body ReadBody(absl::Span<char> buffer, size_t* num_bytes) final;
  void OnClosed() final;

 protected:
  // Parts of streams up to this size are not held: the engine bounds how many there are.
  static constexpr size_t kSmallBytes = 4096;

  // `name` is what the access log calls the method.
  Call(std::string name, std::shared_ptr<const Principal> principal, HttpStream* stream,
       const CallWatch& watch);

  // Each protocol does these in its own way, on the loop while the call is open.
  virtual void Write(std::string part, size_t num_held_bytes, std::function<void()> on_sent) = 0;
  virtual size_t NumHeldBytes(size_t part_bytes) const {
    return part_bytes > kSmallBytes ? part_bytes : 0;
  }
  virtual void EndWith(const absl::Status& status) = 0;
  virtual void OnPartRead() {}
  // The stream is gone, and the call's status is known.
  virtual void OnEnd() = 0;

  // There is a stream, and the answer has not come to its end.
  bool IsOpen() const { return stream_ != nullptr && !ended_; }
  // Runs a function on the loop with the call as Derived, if the call is open then; any thread.
  template <typename Derived, typename Work>
  void RunIfOpen(Work work) {
    Run([self = std::static_pointer_cast<Derived>(shared_from_this()),
         work = std::move(work)]() mutable {
      if (self->IsOpen()) work(*self);
    });
  }
  // Notes bytes of the request that have come.
  void CountReceived(size_t num_bytes);
  // Holds bytes of the request until GiveBackRequest, or says that there is no room.
  absl::Status HoldRequest(size_t num_bytes);
  void GiveBackRequest();
  // Holds bytes of an answer that is whole, or says why the client cannot have it.
  absl::Status HoldAnswer(size_t num_bytes, size_t num_held_bytes);
  // Runs a handler. The loop's time is charged to the address as it goes; the call knows its part.
  template <typename Handler>
  void Handle(const Handler& handler) {
    const double begin = ThreadSeconds();
    handler();
    cost_->Note(ThreadSeconds() - begin);
  }

  // Sends bytes in the stream's form; held bytes are given back when they are read.
  void Enqueue(std::string bytes, size_t num_held_bytes, std::function<void()> on_sent);
  void DropOutgoing();
  void MarkEnded(absl::StatusCode status);
  // Gives the call up when nothing is read for a while.
  void WaitForReader();
  void StartTimer(absl::Time when, EventLoop::Work work);
  void StopTimer();

  EventLoop& loop() { return loop_; }
  HttpStream* stream() { return stream_; }
  const CallWatch& watch() const { return watch_; }
  AccessEntry& access() { return access_; }
  bool ended() const { return ended_; }
  absl::StatusCode status() const { return status_; }
  bool has_outgoing() const { return !outgoing_.empty(); }
  absl::Time last_sent() const { return last_sent_; }  // when the latest part came
  void SetLastSent(absl::Time time) { last_sent_ = time; }
  // The answer is a refusal: a client that reads it is not served.
  void SetUnserved() { is_service_ = false; }

 private:
  struct Outgoing {
    std::string bytes;
    size_t num_held_bytes;  // on the connection's account
    std::function<void()> on_sent;
  };

  bool Hold(size_t num_bytes);
  void GiveBack(size_t num_bytes);

  const std::string name_;
  const std::shared_ptr<const Principal> principal_;
  const LiveCalls::Call live_call_;
  const CallWatch watch_;
  EventLoop& loop_;
  const std::string peer_;
  const std::shared_ptr<CancelToken> token_ = std::make_shared<CancelToken>();
  const std::shared_ptr<CallCost> cost_;
  TraceContext trace_;

  HttpStream* stream_;  // null once it is closed
  size_t num_held_of_request_ = 0;
  std::deque<Outgoing> outgoing_;
  size_t outgoing_begin_ = 0;  // bytes of the first part that are on their way
  absl::Time last_sent_;
  bool ended_ = false;
  bool is_service_ = true;
  EventLoop::TimerId timer_;  // of the call's deadline, later of its answer's reader
  bool has_timer_ = false;
  size_t num_read_ = 0;  // bytes of the answer that are on their way
  size_t num_read_at_timer_ = 0;
  size_t num_received_ = 0;  // bytes of the request
  size_t num_unserved_ = 0;  // bytes of it since the last part of the answer
  const absl::Time begin_;
  absl::StatusCode status_ = absl::StatusCode::kCancelled;  // unless the call ends otherwise
  AccessEntry access_;
  absl::Time end_;  // when the stream was closed
};

}  // namespace quire
