// HttpCall: one request of a route: reads its body within bounds, and writes the answer, whole or
// in parts. Handlers hold it while they work; they may answer from any thread. Everything else
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
#include "server/http/http_exchange.h"
#include "server/log/access_log.h"
#include "server/log/recent_requests.h"
#include "server/metrics/server_metrics.h"
#include "server/request/cancel_token.h"
#include "server/rpc/live_calls.h"
#include "server/trace/trace_context.h"
#include "server/web/http_route.h"

namespace quire {

// Who watches over all calls, and what all answers have.
struct HttpWatch {
  LiveCalls* live_calls;
  AccessLog* access_log = nullptr;            // null: no line for each call
  ServerMetrics* metrics = nullptr;           // null: calls are not counted
  RecentRequests* recent_requests = nullptr;  // null: calls are not remembered
  // Streams of events say that they live when they have been silent for so long; zero: never.
  absl::Duration ping_interval = absl::ZeroDuration();
};

class HttpCall final : public HttpExchange, public std::enable_shared_from_this<HttpCall> {
 public:
  // `route` may be null, for a call that is only to be refused; it outlives the call. `principal`
  // is null for nobody that we know. `answer_headers` are added to the answer.
  HttpCall(const HttpRoute* route, HttpRequest request, std::shared_ptr<const Principal> principal,
           HeaderList answer_headers, HttpStream* stream, const HttpWatch& watch);
  ~HttpCall() override;

  // The request's id as its header x-request-id gives it, if that is sound; else empty.
  const std::string& asked_id() const { return asked_id_; }
  // Cancelled when the client is gone.
  const std::shared_ptr<CancelToken>& token() const { return token_; }
  const std::shared_ptr<const Principal>& principal() const { return principal_; }
  // Work for the call on another thread is charged to it.
  const std::shared_ptr<CallCost>& cost() const { return cost_; }
  // That of its caller, until a route begins one; set on the loop, before others read it.
  const TraceContext& trace() const { return trace_; }
  void SetTrace(TraceContext trace) { trace_ = std::move(trace); }

  // The whole answer, from any thread; only the first one counts.
  void Answer(HttpAnswer answer);
  void Fail(const absl::Status& status) { Answer(ErrorAnswer(status)); }

  // An answer in parts, from any thread: Begin, Send for each, Finish. `on_sent`, which may be
  // null, is called once, on the loop: when the part is on its way and the next one may be given,
  // or when it will never be.
  void Begin(HttpAnswer head);
  // The answer will be a stream of server-sent events with this head. Whenever nothing has come for
  // a while a comment goes out, so that neither clients nor proxies give up on a long prompt; the
  // first one begins the answer. From any thread.
  void KeepAlive(HttpAnswer head);
  void Send(std::string part, std::function<void()> on_sent);
  // `status`: what the access log says of the call.
  void Finish(absl::StatusCode status);
  // Ends the call with an error: by `answer` while nothing has been sent, else by `last_part`.
  void EndWithError(HttpAnswer answer, std::string last_part, absl::StatusCode status);
  // What the access log says of the request beside what the call knows itself.
  void SetAccess(AccessEntry entry);

  void OnBody(std::string_view bytes) override;
  void OnBodyEnd() override;
  Body ReadBody(absl::Span<char> buffer, size_t* num_bytes) override;
  void OnTooSlow() override;
  void OnClosed() override;

  // The same as Answer, at once; on the loop alone.
  void AnswerNow(HttpAnswer answer);

 private:
  struct Outgoing {
    std::string bytes;
    size_t num_held_bytes;  // of the connection's account
    std::function<void()> on_sent;
  };

  void Handle();
  void SendHead(const HttpAnswer& answer, bool is_all);
  void Enqueue(std::string bytes, size_t num_held_bytes, std::function<void()> on_sent);
  void End(absl::StatusCode status);
  void WaitForReader();
  void AwaitSilence();
  bool Hold(size_t num_bytes);
  void GiveBack(size_t num_bytes);

  const HttpRoute* const route_;
  HttpRequest request_;
  const std::string path_;  // for the log
  const std::string asked_id_;
  const std::shared_ptr<const Principal> principal_;
  const HeaderList answer_headers_;
  const LiveCalls::Call live_call_;
  const HttpWatch watch_;
  EventLoop& loop_;
  const std::string peer_;
  const std::shared_ptr<CancelToken> token_ = std::make_shared<CancelToken>();
  const std::shared_ptr<CallCost> cost_;
  TraceContext trace_;

  HttpStream* stream_;           // null once it is closed
  size_t num_held_of_body_ = 0;  // of the connection's account
  std::deque<Outgoing> outgoing_;
  size_t outgoing_begin_ = 0;  // what of the first one is on its way
  bool sent_head_ = false;
  bool ended_ = false;
  EventLoop::TimerId timer_;  // of the answer's reader
  bool has_timer_ = false;
  HttpAnswer kept_alive_;  // its head
  absl::Time last_sent_;   // when the answer's latest part came
  EventLoop::TimerId ping_timer_;
  bool has_ping_timer_ = false;
  size_t num_read_ = 0;  // bytes of the answer that are on their way
  size_t num_read_at_timer_ = 0;
  size_t num_received_ = 0;  // bytes of the request
  size_t num_unserved_ = 0;  // of them, since the last part of the answer
  const absl::Time begin_;
  absl::StatusCode status_ = absl::StatusCode::kCancelled;  // unless the call ends otherwise
  int http_status_ = 499;  // of the answer; unless there is one, the client is gone
  AccessEntry access_;
  absl::Time end_;  // when the stream was closed
};

}  // namespace quire
