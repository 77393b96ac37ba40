// HttpCall: one request of a route: reads its body within bounds, and writes the answer, whole or
// in parts.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/call/call.h"
#include "server/call/http_route.h"

namespace quire {

class HttpCall final : public Call {
 public:
  // `route` may be null, for a call that is only refused; it outlives the call. `principal` is null
  // for a caller that we do not know. `answer_headers` are added to the answer.
  HttpCall(const HttpRoute* route, HttpRequest request, std::shared_ptr<const Principal> principal,
           HeaderList answer_headers, HttpStream* stream, const CallWatch& watch);
  ~HttpCall() override;

  // The request's id as its header x-request-id gives it, if that is sound; else empty.
  const std::string& asked_id() const { return asked_id_; }

  // The whole answer, from any thread; only the first one counts.
  void Answer(HttpAnswer answer);
  void Fail(const absl::Status& status) override { Answer(ErrorAnswer(status)); }

  // An answer in parts, from any thread: Begin, Send for each, Finish.
  void Begin(HttpAnswer head);
  // The answer will be a stream of server-sent events with this head. After a while without an
  // event a comment goes out, so that neither clients nor proxies give up on a long prompt; the
  // first comment begins the answer. From any thread.
  void KeepAlive(HttpAnswer head);
  // `status`: what the access log says of the call.
  void Finish(absl::StatusCode status);
  // Ends the call with an error: by `answer` while nothing has been sent, else by `last_part`.
  void EndWithError(HttpAnswer answer, std::string last_part, absl::StatusCode status);

  void OnBody(std::string_view bytes) override;
  void OnBodyEnd() override;
  void OnTooSlow() override;

  // The same as Answer, at once; on the loop only.
  void AnswerNow(HttpAnswer answer);

 private:
  void Write(std::string part, size_t num_held_bytes, std::function<void()> on_sent) override;
  void EndWith(const absl::Status& status) override { End(status.code()); }
  void OnEnd() override;

  void SendHead(const HttpAnswer& answer, bool is_all);
  void End(absl::StatusCode status);
  void AwaitSilence();
  void StopPings();

  const HttpRoute* const route_;
  HttpRequest request_;
  const std::string asked_id_;
  const HeaderList answer_headers_;
  bool sent_head_ = false;
  HttpAnswer kept_alive_;  // the head of such a stream
  EventLoop::TimerId ping_timer_;
  bool has_ping_timer_ = false;
  int http_status_ = 499;  // of the answer; without an answer: the client is gone
};

}  // namespace quire
