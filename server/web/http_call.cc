#include "server/web/http_call.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "server/request/answer_size.h"
#include "server/request/limits.h"
#include "server/request/retry_pushback.h"

namespace quire {

namespace {

constexpr uint32_t kCancel = 8;  // RFC 9113, section 7
// As of gRPC's calls (rpc/grpc_call.cc).
constexpr absl::Duration kAnswerTimeout = absl::Seconds(30);
constexpr size_t kSmallBytes = 4096;
constexpr char kPing[] = ": ping\n\n";  // a comment, which clients skip
constexpr double kAnswerSeconds = 40e-6;
constexpr double kByteSeconds = 2e-9;

// What the client did to deserve the answer counts as waste; want of room does not.
bool IsServed(int http_status) {
  return http_status < 400 || http_status == 429 || http_status >= 500;
}

// Who takes refusals has got nothing for what they cost.
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

// What the header x-request-id names the request, so that its lines and traces are found by the
// client's own or its proxy's id. Not what is no plain word of a bearable length, nor one of
// several; there is room for what is appended for each of several prompts.
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
                   HttpStream* stream, const HttpWatch& watch)
    : route_(route),
      request_(std::move(request)),
      path_(request_.path),
      asked_id_(AskedRequestId(request_.head)),
      principal_(std::move(principal)),
      answer_headers_(std::move(answer_headers)),
      live_call_(watch.live_calls),
      watch_(watch),
      loop_(stream->connection().loop()),
      peer_(stream->connection().peer().name()),
      cost_(std::make_shared<CallCost>(stream->connection().time_account())),
      trace_(ReadTraceContext(request_.head.headers)),
      stream_(stream),
      begin_(loop_.now()) {}

// Only now has everybody who works for the call said what came of it, also when its client is gone.
HttpCall::~HttpCall() {
  if (access_.request_id.empty()) access_.request_id = asked_id_;
  if (trace_.exists()) access_.trace_id = HexText(trace_.trace_id);
  if (principal_ != nullptr) access_.principal = principal_->name;
  access_.peer = peer_;
  access_.method = path_;
  access_.status = status_;
  access_.total_ms = absl::ToDoubleMilliseconds(end_ - begin_);
  access_.received_bytes = static_cast<int64_t>(num_received_);
  access_.sent_bytes = static_cast<int64_t>(num_read_);
  if (watch_.recent_requests != nullptr) watch_.recent_requests->Add(access_, end_);
  if (watch_.access_log != nullptr) watch_.access_log->Add(std::move(access_), end_);
}

void HttpCall::OnBody(std::string_view bytes) {
  num_received_ += bytes.size();
  num_unserved_ += bytes.size();
  if (ended_ || sent_head_) return;
  if (request_.body.size() + bytes.size() > kMaxRequestBytes) {
    AnswerNow(ErrorAnswer(413, absl::StrCat("the body has more than ", kMaxRequestBytes,
                                            " bytes, which is the most")));
  } else if (!Hold(bytes.size())) {
    AnswerNow(ErrorAnswer(WithRetryPushback(absl::ResourceExhaustedError(
        "too many bytes of requests are under way; try again later, or send fewer at a time"))));
  } else {
    num_held_of_body_ += bytes.size();
    request_.body.append(bytes);
  }
}

void HttpCall::OnBodyEnd() {
  if (ended_ || sent_head_) return;
  // From here on it is the handler's, which has bounds of its own.
  GiveBack(std::exchange(num_held_of_body_, 0));
  Handle();
}

// The loop's time is charged to the address as it goes; the call knows its own part.
void HttpCall::Handle() {
  const double begin = ThreadSeconds();
  route_->handle(shared_from_this(), std::move(request_));
  cost_->Note(ThreadSeconds() - begin);
}

void HttpCall::OnTooSlow() {
  if (!ended_ && !sent_head_) {
    AnswerNow(ErrorAnswer(408, "the request did not come to its end in time"));
  }
}

bool HttpCall::Hold(size_t num_bytes) {
  return stream_->connection().account().Take(static_cast<int64_t>(num_bytes));
}

void HttpCall::GiveBack(size_t num_bytes) {
  stream_->connection().account().GiveBack(static_cast<int64_t>(num_bytes));
}

void HttpCall::SendHead(const HttpAnswer& answer, bool is_all) {
  sent_head_ = true;
  status_ = CodeOf(answer.status);
  http_status_ = answer.status;
  if (IsServed(answer.status)) stream_->CountAsServed();
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
  stream_->SendHeaders(answer.status, headers, is_all && answer.body.empty());
}

void HttpCall::Answer(HttpAnswer answer) {
  loop_.Post([self = shared_from_this(), answer = std::move(answer)]() mutable {
    self->AnswerNow(std::move(answer));
  });
}

void HttpCall::AnswerNow(HttpAnswer answer) {
  if (stream_ == nullptr || ended_ || sent_head_) return;
  if (answer.body.size() > kMaxAnswerBytes) {
    AnswerNow(ErrorAnswer(AnswerTooLarge()));
    return;
  }
  const bool is_counted = answer.body.size() > kSmallBytes;
  if (is_counted && !Hold(answer.body.size())) {
    AnswerNow(ErrorAnswer(WithRetryPushback(absl::ResourceExhaustedError(
        "too many bytes of answers wait to be read; read them first"))));
    return;
  }
  SendHead(answer, /*is_all=*/true);
  if (!answer.body.empty()) {
    const size_t num_held_bytes = is_counted ? answer.body.size() : 0;
    Enqueue(std::move(answer.body), num_held_bytes, nullptr);
  }
  End(status_);
}

void HttpCall::Begin(HttpAnswer head) {
  loop_.Post([self = shared_from_this(), head = std::move(head)] {
    if (self->stream_ == nullptr || self->ended_ || self->sent_head_) return;
    self->SendHead(head, /*is_all=*/false);
  });
}

void HttpCall::KeepAlive(HttpAnswer head) {
  if (watch_.ping_interval <= absl::ZeroDuration()) return;
  loop_.Post([self = shared_from_this(), head = std::move(head)]() mutable {
    if (self->stream_ == nullptr || self->ended_ || self->has_ping_timer_) return;
    self->kept_alive_ = std::move(head);
    self->last_sent_ = self->loop_.now();
    self->AwaitSilence();
  });
}

void HttpCall::AwaitSilence() {
  has_ping_timer_ = true;
  ping_timer_ = loop_.AddTimer(last_sent_ + watch_.ping_interval, [this] {
    const std::shared_ptr<HttpCall> self = shared_from_this();  // what is sent may end the stream
    has_ping_timer_ = false;
    if (!outgoing_.empty()) {
      last_sent_ = loop_.now();  // the client does not read what there is
    } else if (loop_.now() - last_sent_ >= watch_.ping_interval) {
      if (!sent_head_) SendHead(kept_alive_, /*is_all=*/false);
      Enqueue(kPing, 0, nullptr);
    }
    if (stream_ != nullptr && !ended_) AwaitSilence();
  });
}

void HttpCall::Send(std::string part, std::function<void()> on_sent) {
  loop_.Post(
      [self = shared_from_this(), part = std::move(part), on_sent = std::move(on_sent)]() mutable {
        const size_t num_held_bytes = part.size() > kSmallBytes ? part.size() : 0;
        if (self->stream_ != nullptr && !self->ended_) {
          if (self->Hold(num_held_bytes)) {
            self->Enqueue(std::move(part), num_held_bytes, std::move(on_sent));
            return;
          }
          self->token_->Abandon();
          self->End(absl::StatusCode::kResourceExhausted);
        }
        if (on_sent) on_sent();
      });
}

void HttpCall::Finish(absl::StatusCode status) {
  loop_.Post([self = shared_from_this(), status] {
    if (self->stream_ != nullptr && !self->ended_) self->End(status);
  });
}

void HttpCall::EndWithError(HttpAnswer answer, std::string last_part, absl::StatusCode status) {
  loop_.Post([self = shared_from_this(), answer = std::move(answer),
              last_part = std::move(last_part), status]() mutable {
    if (!self->sent_head_) {
      self->AnswerNow(std::move(answer));
    } else if (self->stream_ != nullptr && !self->ended_) {
      self->Enqueue(std::move(last_part), 0, nullptr);
      self->End(status);
    }
  });
}

void HttpCall::Enqueue(std::string bytes, size_t num_held_bytes, std::function<void()> on_sent) {
  last_sent_ = loop_.now();
  outgoing_.push_back({std::move(bytes), num_held_bytes, std::move(on_sent)});
  stream_->ResumeBody();
}

void HttpCall::End(absl::StatusCode status) {
  ended_ = true;
  status_ = status;
  if (std::exchange(has_ping_timer_, false)) loop_.CancelTimer(ping_timer_);
  stream_->ResumeBody();
  if (!outgoing_.empty()) WaitForReader();
}

// Gives the call up when a while passes in which nothing is read.
void HttpCall::WaitForReader() {
  num_read_at_timer_ = num_read_;
  has_timer_ = true;
  timer_ = loop_.AddTimer(loop_.now() + kAnswerTimeout, [this] {
    has_timer_ = false;
    if (num_read_ == num_read_at_timer_) {
      stream_->Reset(kCancel);
    } else {
      WaitForReader();
    }
  });
}

HttpExchange::Body HttpCall::ReadBody(absl::Span<char> buffer, size_t* num_bytes) {
  *num_bytes = 0;
  while (!outgoing_.empty() && *num_bytes < buffer.size()) {
    Outgoing& first = outgoing_.front();
    const size_t left = first.bytes.size() - outgoing_begin_;
    const size_t count = std::min(left, buffer.size() - *num_bytes);
    std::copy_n(first.bytes.data() + outgoing_begin_, count, buffer.data() + *num_bytes);
    *num_bytes += count;
    outgoing_begin_ += count;
    num_read_ += count;
    if (count < left) break;
    const std::function<void()> on_sent = std::move(first.on_sent);
    GiveBack(first.num_held_bytes);
    if (IsWork(http_status_)) {
      cost_->MarkServed(kAnswerSeconds +
                        kByteSeconds * static_cast<double>(std::exchange(num_unserved_, 0)));
    }
    outgoing_.pop_front();
    outgoing_begin_ = 0;
    if (on_sent) on_sent();
  }
  if (!outgoing_.empty()) return Body::kMore;
  return ended_ ? Body::kEnd : Body::kWait;
}

void HttpCall::OnClosed() {
  GiveBack(std::exchange(num_held_of_body_, 0));
  for (Outgoing& outgoing : std::exchange(outgoing_, {})) {
    GiveBack(outgoing.num_held_bytes);
    if (outgoing.on_sent) outgoing.on_sent();
  }
  if (std::exchange(has_timer_, false)) loop_.CancelTimer(timer_);
  if (std::exchange(has_ping_timer_, false)) loop_.CancelTimer(ping_timer_);
  stream_ = nullptr;
  request_ = {};
  if (!std::exchange(ended_, true)) {
    status_ = absl::StatusCode::kCancelled;
    token_->Abandon();
  }
  if (watch_.metrics != nullptr) {
    watch_.metrics->CountHttpCall(route_ != nullptr ? route_->path : "none",
                                  route_ != nullptr ? route_->method : request_.head.method,
                                  http_status_);
  }
  end_ = loop_.now();
}

void HttpCall::SetAccess(AccessEntry entry) {
  loop_.Post([self = shared_from_this(), entry = std::move(entry)]() mutable {
    self->access_ = std::move(entry);
  });
}

}  // namespace quire
