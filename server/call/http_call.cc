#include "server/call/http_call.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "server/request/limits.h"

namespace quire {

namespace {

constexpr char kPing[] = ": ping\n\n";  // a comment, which clients skip

// An answer that the client's own mistake caused counts as waste. A refusal for lack of room does
// not.
bool IsServed(int http_status) {
  return http_status < 400 || http_status == 429 || http_status >= 500;
}

// A client that reads refusals has got nothing for what they cost.
bool IsWork(int http_status) { return http_status < 400; }

// For the access log, whose statuses are gRPC's.
absl::StatusCode CodeOf(int http_status) {
  switch (http_status) {
    case 401:
      return absl::StatusCode::kUnauthenticated;
    case 403:
      return absl::StatusCode::kPermissionDenied;
    case 404:
    case 405:
      return absl::StatusCode::kNotFound;
    case 408:
    case 504:
      return absl::StatusCode::kDeadlineExceeded;
    case 409:
      return absl::StatusCode::kAlreadyExists;
    case 413:
    case 429:
      return absl::StatusCode::kResourceExhausted;
    case 499:
      return absl::StatusCode::kCancelled;
    case 503:
      return absl::StatusCode::kUnavailable;
    default:
      if (http_status < 400) return absl::StatusCode::kOk;
      return http_status < 500 ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kInternal;
  }
}

constexpr char kRequestIdHeader[] = "x-request-id";

bool HasHeader(const HeaderList& headers, absl::string_view name) {
  return std::any_of(headers.begin(), headers.end(),
                     [name](const auto& header) { return header.first == name; });
}

// The id that the header x-request-id gives the request, so that the client's own id, or its
// proxy's, finds the request's lines and traces. Empty if the header is there more than once, or if
// its value is no plain word of a bearable length. The bound leaves room for what is appended for
// each of several prompts.
std::string AskedRequestId(const RequestHead& head) {
  constexpr size_t kMaxBytes = kMaxRequestIdBytes - 8;
  std::string id;
  for (const auto& [name, value] : head.headers) {
    if (name != kRequestIdHeader) continue;
    if (!id.empty() || value.size() > kMaxBytes) return "";
    id = std::string(value);
  }
  const bool is_visible = std::all_of(id.begin(), id.end(), [](unsigned char c) {
    return absl::ascii_isgraph(c) && c != '"' && c != '\\';
  });
  return is_visible ? id : "";
}

}  // namespace

HttpCall::HttpCall(const HttpRoute* route, HttpRequest request,
                   std::shared_ptr<const Principal> principal, HeaderList answer_headers,
                   HttpStream* stream, const CallWatch& watch)
    : Call(request.path, std::move(principal), stream, watch),
      route_(route),
      request_(std::move(request)),
      asked_id_(AskedRequestId(request_.head)),
      answer_headers_(std::move(answer_headers)) {
  SetTrace(ReadTraceContext(request_.head.headers));
}

HttpCall::~HttpCall() {
  if (access().request_id.empty()) access().request_id = asked_id_;
}

void HttpCall::OnBody(std::string_view bytes) {
  CountReceived(bytes.size());
  if (ended() || sent_head_) return;
  if (request_.body.size() + bytes.size() > kMaxRequestBytes) {
    AnswerNow(ErrorAnswer(413, absl::StrCat("the body has more than ", kMaxRequestBytes,
                                            " bytes, which is the most")));
  } else if (const absl::Status held = HoldRequest(bytes.size()); !held.ok()) {
    AnswerNow(ErrorAnswer(held));
  } else {
    request_.body.append(bytes);
  }
}

void HttpCall::OnBodyEnd() {
  if (ended() || sent_head_) return;
  // From here on it is the handler's, which has bounds of its own.
  GiveBackRequest();
  Handle([this] {
    route_->handle(std::static_pointer_cast<HttpCall>(shared_from_this()), std::move(request_));
  });
}

void HttpCall::OnTooSlow() {
  if (!ended() && !sent_head_) {
    AnswerNow(ErrorAnswer(408, "the request did not come to its end in time"));
  }
}

void HttpCall::SendHead(const HttpAnswer& answer, bool is_all) {
  sent_head_ = true;
  http_status_ = answer.status;
  if (IsServed(answer.status)) stream()->CountAsServed();
  if (!IsWork(answer.status)) SetUnserved();
  HeaderList headers;
  if (!answer.content_type.empty()) headers.emplace_back("content-type", answer.content_type);
  if (is_all && answer.status != 204) {
    headers.emplace_back("content-length", absl::StrCat(answer.body.size()));
  }
  headers.insert(headers.end(), answer.headers.begin(), answer.headers.end());
  headers.insert(headers.end(), answer_headers_.begin(), answer_headers_.end());
  if (!asked_id_.empty() && !HasHeader(headers, kRequestIdHeader)) {
    headers.emplace_back(kRequestIdHeader, asked_id_);
  }
  stream()->SendHeaders(answer.status, headers, is_all && answer.body.empty());
}

void HttpCall::Answer(HttpAnswer answer) {
  RunIfOpen<HttpCall>(
      [answer = std::move(answer)](HttpCall& call) mutable { call.AnswerNow(std::move(answer)); });
}

void HttpCall::AnswerNow(HttpAnswer answer) {
  if (!IsOpen() || sent_head_) return;
  const size_t num_held_bytes = NumHeldBytes(answer.body.size());
  if (const absl::Status held = HoldAnswer(answer.body.size(), num_held_bytes); !held.ok()) {
    AnswerNow(ErrorAnswer(held));
    return;
  }
  SendHead(answer, /*is_all=*/true);
  if (!answer.body.empty()) Write(std::move(answer.body), num_held_bytes, nullptr);
  End(CodeOf(answer.status));
}

void HttpCall::Begin(HttpAnswer head) {
  RunIfOpen<HttpCall>([head = std::move(head)](HttpCall& call) {
    if (!call.sent_head_) call.SendHead(head, /*is_all=*/false);
  });
}

void HttpCall::KeepAlive(HttpAnswer head) {
  if (watch().ping_interval <= absl::ZeroDuration()) return;
  RunIfOpen<HttpCall>([head = std::move(head)](HttpCall& call) mutable {
    if (call.has_ping_timer_) return;
    call.kept_alive_ = std::move(head);
    call.SetLastSent(call.loop().now());
    call.AwaitSilence();
  });
}

void HttpCall::AwaitSilence() {
  has_ping_timer_ = true;
  ping_timer_ = loop().AddTimer(last_sent() + watch().ping_interval, [this] {
    const std::shared_ptr<Call> self = shared_from_this();  // what is sent may end the stream
    has_ping_timer_ = false;
    if (has_outgoing()) {
      SetLastSent(loop().now());  // the client does not read what there is
    } else if (loop().now() - last_sent() >= watch().ping_interval) {
      if (!sent_head_) SendHead(kept_alive_, /*is_all=*/false);
      Write(kPing, 0, nullptr);
    }
    if (IsOpen()) AwaitSilence();
  });
}

void HttpCall::StopPings() {
  if (std::exchange(has_ping_timer_, false)) loop().CancelTimer(ping_timer_);
}

void HttpCall::Finish(absl::StatusCode status) {
  RunIfOpen<HttpCall>([status](HttpCall& call) { call.End(status); });
}

void HttpCall::EndWithError(HttpAnswer answer, std::string last_part, absl::StatusCode status) {
  RunIfOpen<HttpCall>([answer = std::move(answer), last_part = std::move(last_part),
                       status](HttpCall& call) mutable {
    if (!call.sent_head_) {
      call.AnswerNow(std::move(answer));
    } else {
      call.Write(std::move(last_part), 0, nullptr);
      call.End(status);
    }
  });
}

void HttpCall::Write(std::string part, size_t num_held_bytes, std::function<void()> on_sent) {
  Enqueue(std::move(part), num_held_bytes, std::move(on_sent));
  stream()->ResumeBody();
}

void HttpCall::End(absl::StatusCode status) {
  MarkEnded(status);
  StopPings();
  stream()->ResumeBody();
  if (has_outgoing()) WaitForReader();
}

void HttpCall::OnEnd() {
  StopPings();
  if (watch().metrics != nullptr) {
    watch().metrics->CountHttpCall(route_ != nullptr ? route_->path : "none",
                                   route_ != nullptr ? route_->method : request_.head.method,
                                   http_status_);
  }
  request_ = {};
}

}  // namespace quire
