// GrpcCall: one call: reads the request's messages off its stream, within bounds, and writes the
// answer's. Handlers hold it while they work; they may answer from any thread. Everything else
// happens on the connection's loop.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/auth/principal.h"
#include "server/http2/http2_exchange.h"
#include "server/log/access_log.h"
#include "server/log/recent_requests.h"
#include "server/metrics/server_metrics.h"
#include "server/request/cancel_token.h"
#include "server/rpc/live_calls.h"
#include "server/trace/trace_context.h"

namespace quire {

// Who watches over all calls.
struct CallWatch {
  LiveCalls* live_calls;
  AccessLog* access_log = nullptr;            // null: no line for each call
  ServerMetrics* metrics = nullptr;           // null: calls are not counted
  RecentRequests* recent_requests = nullptr;  // null: calls are not remembered
};

class GrpcCall;
using GrpcCallRef = std::shared_ptr<GrpcCall>;

// A method of a service. Its functions are called on the connection's loop and must not block.
struct GrpcMethod {
  std::string path;  // "/package.Service/Method"
  // The call's message: the only one, or each of a stream that the client sends.
  std::function<void(const GrpcCallRef& call, std::string message)> on_message;
  bool client_streams = false;
  bool is_passive = false;  // its calls only wait for news: they keep no connection from giving way
  // The client's stream of messages has ended; of `client_streams` only.
  std::function<void(const GrpcCallRef& call)> on_messages_end = nullptr;
};

class GrpcCall final : public Http2Exchange, public std::enable_shared_from_this<GrpcCall> {
 public:
  // `method` outlives the call.
  GrpcCall(const GrpcMethod& method, std::shared_ptr<const Principal> principal,
           Http2Stream* stream, const CallWatch& watch);
  ~GrpcCall() override;
  // Before anything else, once the call is held by a pointer: the deadline begins. `timeout` is the
  // header grpc-timeout, or empty.
  void Begin(absl::string_view timeout);

  // Cancelled when the client is gone or its deadline is past.
  const std::shared_ptr<CancelToken>& token() const { return token_; }
  const std::shared_ptr<const Principal>& principal() const { return principal_; }
  // Work for the call on another thread is charged to it.
  const std::shared_ptr<CallCost>& cost() const { return cost_; }
  // That of its caller, until a method begins one; set on the loop.
  const TraceContext& trace() const { return trace_; }
  void SetTrace(TraceContext trace) { trace_ = std::move(trace); }

  // Answers, from any thread. `on_sent`, which may be null, is called once, on the loop: when the
  // message is on its way and the next one may be given, or when it will never be.
  void Send(std::string message, std::function<void()> on_sent);
  // Begins the answer now, before there is a message; any thread.
  void SendHeaders();
  // Runs `work` on the loop; any thread.
  void Run(EventLoop::Work work) { Post(std::move(work)); }
  // Ends the call, after `message` if there is one. Only the first end counts. What was given to
  // Send before an error, and is not read soon, is lost.
  void Finish(absl::Status status);
  void FinishWith(std::string message);
  // What the access log says of the request beside what the call knows itself; before its end.
  void SetAccess(AccessEntry entry);

  void OnBody(std::string_view bytes) override;
  void OnBodyEnd() override;
  Body ReadBody(absl::Span<char> buffer, size_t* num_bytes) override;
  void OnTooSlow() override;
  void OnClosed() override;

 private:
  struct Outgoing {
    std::string bytes;      // with the prefix
    size_t num_held_bytes;  // of the connection's account
    std::function<void()> on_sent;
  };

  // On the loop, as long as there is a stream.
  void TakePrefix();
  void TakeMessage();
  void Handle();
  void EnqueueOutgoing(const std::string& message, size_t num_held_bytes,
                       std::function<void()> on_sent);
  void SendHeadersNow();
  void DropOutgoing();
  void End(const absl::Status& status);
  void Refuse(const absl::Status& status);
  void WaitForReader();
  void StartTimer(absl::Time when, EventLoop::Work work);
  void StopTimer();
  bool Hold(size_t num_bytes);
  void GiveBack(size_t num_bytes);
  void Post(EventLoop::Work work) { loop_.Post(std::move(work)); }

  const GrpcMethod& method_;
  const std::shared_ptr<const Principal> principal_;
  const LiveCalls::Call live_call_;
  const CallWatch watch_;
  EventLoop& loop_;
  const std::string peer_;
  const std::shared_ptr<CancelToken> token_ = std::make_shared<CancelToken>();
  const std::shared_ptr<CallCost> cost_;
  TraceContext trace_;

  Http2Stream* stream_;  // null once it is closed
  std::string prefix_;   // of the message that is being read
  std::string message_;
  size_t message_bytes_ = 0;   // its length when it is whole
  size_t num_unanswered_ = 0;  // messages of a client's stream that wait for their answer
  bool in_message_ = false;
  bool has_message_ = false;  // a whole one waits for the end of the request

  std::deque<Outgoing> outgoing_;
  size_t outgoing_begin_ = 0;  // what of the first one is on its way
  bool sent_headers_ = false;
  bool ended_ = false;
  EventLoop::TimerId timer_;  // the call's deadline, later that of its answer's reader
  bool has_timer_ = false;
  size_t num_read_ = 0;      // bytes of the answer that are on their way
  size_t num_received_ = 0;  // bytes of the request
  size_t num_unserved_ = 0;  // of them, since the last message of the answer
  const absl::Time begin_;
  absl::StatusCode status_ = absl::StatusCode::kCancelled;  // unless the call ends otherwise
  AccessEntry access_;
  absl::Time end_;  // when the stream was closed
  size_t num_read_at_timer_ = 0;
};

}  // namespace quire
