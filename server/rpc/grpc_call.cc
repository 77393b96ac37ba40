#include "server/rpc/grpc_call.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/request/answer_size.h"
#include "server/request/limits.h"
#include "server/request/retry_pushback.h"
#include "server/rpc/grpc_protocol.h"

namespace quire {

namespace {

constexpr uint32_t kCancel = 8;  // RFC 9113, section 7
// An answer that is not read for so long is given up. (Streams have --stream-stall-timeout.)
constexpr absl::Duration kAnswerTimeout = absl::Seconds(30);
// What comes before an error has so long; the error must be heard, whether it is read or not.
constexpr absl::Duration kErrorDelay = absl::Milliseconds(300);
// In less time nobody is answered: the work would be for nobody.
constexpr absl::Duration kLeastTimeout = absl::Microseconds(100);
// Pieces of streams up to this size are not accounted for: the engine bounds how many there are.
constexpr size_t kSmallBytes = 4096;
// Messages of a client's stream whose answers are not on their way.
constexpr size_t kMaxUnanswered = 16;
// What an answer gives back beside the call's own work: the time for its frames and their window
// updates, and for reading and keeping each byte of the request.
constexpr double kAnswerSeconds = 40e-6;
constexpr double kByteSeconds = 2e-9;

}  // namespace

GrpcCall::GrpcCall(const GrpcMethod& method, std::shared_ptr<const Principal> principal,
                   Http2Stream* stream, const CallWatch& watch)
    : method_(method),
      principal_(std::move(principal)),
      live_call_(watch.live_calls),
      watch_(watch),
      loop_(stream->connection().loop()),
      peer_(stream->connection().peer().name()),
      cost_(std::make_shared<CallCost>(stream->connection().time_account())),
      stream_(stream),
      begin_(loop_.now()) {}

// Only now has everybody who works for the call said what came of it, also when its client is gone.
GrpcCall::~GrpcCall() {
  if (trace_.exists()) access_.trace_id = HexText(trace_.trace_id);
  access_.principal = principal_->name;
  access_.peer = peer_;
  access_.method = method_.path;
  access_.status = status_;
  access_.total_ms = absl::ToDoubleMilliseconds(end_ - begin_);
  access_.received_bytes = static_cast<int64_t>(num_received_);
  access_.sent_bytes = static_cast<int64_t>(num_read_);
  if (watch_.recent_requests != nullptr) watch_.recent_requests->Add(access_, end_);
  if (watch_.access_log != nullptr) watch_.access_log->Add(std::move(access_), end_);
}

void GrpcCall::Begin(absl::string_view text) {
  if (method_.is_passive) stream_->SetPassive();
  if (text.empty()) return;
  const std::optional<absl::Duration> timeout = ParseGrpcTimeout(text);
  if (!timeout.has_value()) {
    Refuse(absl::InvalidArgumentError(
        absl::StrCat("grpc-timeout: \"", text, "\" is not a time such as 100m or 30S")));
    return;
  }
  const auto end = [this] {
    token_->Abandon();
    Refuse(absl::DeadlineExceededError("the call's deadline is past"));
  };
  if (*timeout < kLeastTimeout) {
    end();
  } else {
    StartTimer(loop_.now() + *timeout, end);
  }
}

void GrpcCall::OnBody(std::string_view bytes) {
  num_received_ += bytes.size();
  num_unserved_ += bytes.size();
  while (!bytes.empty() && !ended_) {
    if (has_message_) {
      Refuse(absl::InvalidArgumentError("the method takes one message and there are more"));
      return;
    }
    std::string& part = in_message_ ? message_ : prefix_;
    const size_t whole = in_message_ ? message_bytes_ : kMessagePrefixBytes;
    const size_t taken = std::min(whole - part.size(), bytes.size());
    part.append(bytes.substr(0, taken));
    bytes.remove_prefix(taken);
    if (part.size() < whole) return;
    if (!in_message_) TakePrefix();
    if (!ended_ && in_message_ && message_.size() == message_bytes_) TakeMessage();
  }
}

void GrpcCall::TakePrefix() {
  const MessagePrefix prefix = ParseMessagePrefix(prefix_);
  prefix_.clear();
  if (prefix.is_compressed) {
    Refuse(absl::UnimplementedError("compressed messages are not taken; send it as it is"));
  } else if (prefix.num_bytes > kMaxRequestBytes) {
    Refuse(absl::ResourceExhaustedError(absl::StrCat(
        "the message has ", prefix.num_bytes, " bytes; at most ", kMaxRequestBytes, " are taken")));
  } else if (!Hold(prefix.num_bytes)) {
    Refuse(WithRetryPushback(absl::ResourceExhaustedError(
        "too many bytes of requests are under way; try again later, or send fewer at a time")));
  } else {
    in_message_ = true;
    message_bytes_ = prefix.num_bytes;
  }
}

void GrpcCall::TakeMessage() {
  in_message_ = false;
  if (!method_.client_streams) {
    has_message_ = true;
    return;
  }
  GiveBack(message_bytes_);
  stream_->CountMessage();
  if (num_unanswered_ >= kMaxUnanswered) {
    Refuse(absl::ResourceExhaustedError(
        absl::StrCat("more than ", kMaxUnanswered, " messages at once; read the answers first")));
    return;
  }
  ++num_unanswered_;
  Handle();
}

// The loop's time is charged to the address as it goes; the call knows its own part.
void GrpcCall::Handle() {
  const double begin = ThreadSeconds();
  method_.on_message(shared_from_this(), std::exchange(message_, {}));
  cost_->Note(ThreadSeconds() - begin);
}

void GrpcCall::OnBodyEnd() {
  if (ended_) return;
  if (in_message_ || !prefix_.empty()) {
    Refuse(absl::InvalidArgumentError("the request ended within a message"));
  } else if (method_.client_streams) {
    method_.on_messages_end(shared_from_this());
  } else if (!has_message_) {
    Refuse(absl::InvalidArgumentError("the request ended without a message"));
  } else {
    // From here on it is the handler's, which has bounds of its own.
    GiveBack(message_bytes_);
    has_message_ = false;
    Handle();
  }
}

void GrpcCall::OnTooSlow() {
  Refuse(absl::DeadlineExceededError("the request did not come to its end in time"));
}

bool GrpcCall::Hold(size_t num_bytes) {
  return stream_->connection().account().Take(static_cast<int64_t>(num_bytes));
}

void GrpcCall::GiveBack(size_t num_bytes) {
  stream_->connection().account().GiveBack(static_cast<int64_t>(num_bytes));
}

void GrpcCall::Send(std::string message, std::function<void()> on_sent) {
  Post([self = shared_from_this(), message = std::move(message),
        on_sent = std::move(on_sent)]() mutable {
    const bool is_counted = message.size() > kSmallBytes || self->method_.client_streams;
    const size_t num_held_bytes = is_counted ? message.size() : 0;
    if (self->stream_ != nullptr && !self->ended_) {
      if (self->Hold(num_held_bytes)) {
        self->EnqueueOutgoing(message, num_held_bytes, std::move(on_sent));
        return;
      }
      self->token_->Abandon();
      self->End(absl::ResourceExhaustedError(
          "too many bytes of answers wait to be read; read faster, or ask for less at a time"));
    }
    if (on_sent) on_sent();
  });
}

void GrpcCall::Finish(absl::Status status) {
  Post([self = shared_from_this(), status = std::move(status)] {
    if (self->stream_ != nullptr && !self->ended_) self->End(status);
  });
}

void GrpcCall::FinishWith(std::string message) {
  Post([self = shared_from_this(), message = std::move(message)]() mutable {
    if (self->stream_ == nullptr || self->ended_) return;
    const size_t num_held_bytes = message.size();
    if (num_held_bytes > kMaxAnswerBytes) {
      self->End(AnswerTooLarge());
      return;
    }
    if (!self->Hold(num_held_bytes)) {
      self->End(WithRetryPushback(absl::ResourceExhaustedError(
          "too many bytes of answers wait to be read; read them first")));
      return;
    }
    self->EnqueueOutgoing(message, num_held_bytes, nullptr);
    self->End(absl::OkStatus());
  });
}

void GrpcCall::EnqueueOutgoing(const std::string& message, size_t num_held_bytes,
                               std::function<void()> on_sent) {
  std::string bytes;
  bytes.reserve(kMessagePrefixBytes + message.size());
  AppendMessagePrefix(message.size(), &bytes);
  bytes.append(message);
  outgoing_.push_back({std::move(bytes), num_held_bytes, std::move(on_sent)});
  if (!sent_headers_) {
    SendHeadersNow();
  } else {
    stream_->ResumeBody();
  }
}

void GrpcCall::SendHeaders() {
  Post([self = shared_from_this()] {
    if (self->stream_ != nullptr && !self->ended_ && !self->sent_headers_) self->SendHeadersNow();
  });
}

void GrpcCall::SendHeadersNow() {
  sent_headers_ = true;
  stream_->SendHeaders(200,
                       {{"content-type", "application/grpc"}, {"grpc-accept-encoding", "identity"}},
                       /*is_all=*/false);
}

void GrpcCall::DropOutgoing() {
  for (Outgoing& outgoing : std::exchange(outgoing_, {})) {
    GiveBack(outgoing.num_held_bytes);
    if (outgoing.on_sent) outgoing.on_sent();
  }
  outgoing_begin_ = 0;
}

// What clients did to deserve a refusal counts as waste; a refusal for want of room does not.
void GrpcCall::End(const absl::Status& status) {
  ended_ = true;
  status_ = status.code();
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
      break;
    default:
      stream_->CountAsServed();
  }
  HeaderList trailers = StatusTrailers(status);
  if (!sent_headers_) {
    sent_headers_ = true;
    trailers.emplace_back("content-type", "application/grpc");
    stream_->SendHeaders(200, trailers, /*is_all=*/true);
    return;
  }
  stream_->SetTrailers(std::move(trailers));
  stream_->ResumeBody();
  if (outgoing_.empty()) return;
  // The deadline ends what the handler does; from here on it is the client's reading.
  if (status.ok()) {
    WaitForReader();
  } else {
    StartTimer(loop_.now() + kErrorDelay, [this] {
      DropOutgoing();
      stream_->SendTrailersNow();
    });
  }
}

// Gives the call up when a while passes in which nothing is read.
void GrpcCall::WaitForReader() {
  num_read_at_timer_ = num_read_;
  StartTimer(loop_.now() + kAnswerTimeout, [this] {
    if (num_read_ == num_read_at_timer_) {
      stream_->Reset(kCancel);
    } else {
      WaitForReader();
    }
  });
}

void GrpcCall::StartTimer(absl::Time when, EventLoop::Work work) {
  StopTimer();
  has_timer_ = true;
  timer_ = loop_.AddTimer(when, [this, work = std::move(work)]() mutable {
    has_timer_ = false;
    work();
  });
}

void GrpcCall::StopTimer() {
  if (has_timer_) loop_.CancelTimer(timer_);
  has_timer_ = false;
}

void GrpcCall::Refuse(const absl::Status& status) {
  if (!ended_) End(status);
}

Http2Exchange::Body GrpcCall::ReadBody(absl::Span<char> buffer, size_t* num_bytes) {
  *num_bytes = 0;
  if (outgoing_.empty()) return ended_ ? Body::kEnd : Body::kWait;
  Outgoing& first = outgoing_.front();
  const size_t left = first.bytes.size() - outgoing_begin_;
  *num_bytes = std::min(left, buffer.size());
  std::copy_n(first.bytes.data() + outgoing_begin_, *num_bytes, buffer.data());
  outgoing_begin_ += *num_bytes;
  num_read_ += *num_bytes;
  if (*num_bytes < left) return Body::kMore;
  const std::function<void()> on_sent = std::move(first.on_sent);
  GiveBack(first.num_held_bytes);
  cost_->MarkServed(kAnswerSeconds +
                    kByteSeconds * static_cast<double>(std::exchange(num_unserved_, 0)));
  if (num_unanswered_ > 0) --num_unanswered_;
  outgoing_.pop_front();
  outgoing_begin_ = 0;
  if (on_sent) on_sent();
  if (!outgoing_.empty()) return Body::kMore;
  return ended_ ? Body::kEnd : Body::kMore;
}

void GrpcCall::OnClosed() {
  if (in_message_ || has_message_) GiveBack(message_bytes_);
  DropOutgoing();
  stream_ = nullptr;
  StopTimer();
  if (!ended_) token_->Abandon();
  if (watch_.metrics != nullptr) watch_.metrics->CountGrpcCall(method_.path, status_);
  end_ = loop_.now();
}

void GrpcCall::SetAccess(AccessEntry entry) {
  Post([self = shared_from_this(), entry = std::move(entry)]() mutable {
    self->access_ = std::move(entry);
  });
}

}  // namespace quire
