#include "server/call/call.h"

#include <algorithm>
#include <utility>

#include "server/request/answer_size.h"
#include "server/request/limits.h"
#include "server/request/retry_pushback.h"

namespace quire {

namespace {

constexpr uint32_t kCancel = 8;  // RFC 9113, section 7
// An answer that is not read for so long is given up. (Streams have --stream-stall-timeout.)
constexpr absl::Duration kAnswerTimeout = absl::Seconds(30);
// What an answer gives back beside the call's own work: the time for its frames and their window
// updates, and for reading and keeping each byte of the request.
constexpr double kAnswerSeconds = 40e-6;
constexpr double kByteSeconds = 2e-9;

}  // namespace

Call::Call(std::string name, std::shared_ptr<const Principal> principal, HttpStream* stream,
           const CallWatch& watch)
    : name_(std::move(name)),
      principal_(std::move(principal)),
      live_call_(watch.live_calls),
      watch_(watch),
      loop_(stream->connection().loop()),
      peer_(stream->connection().peer().name()),
      cost_(std::make_shared<CallCost>(stream->connection().time_account())),
      stream_(stream),
      begin_(loop_.now()) {}

// Only now has everybody who works for the call said what came of it, also when its client is gone.
Call::~Call() {
  if (trace_.exists()) access_.trace_id = HexText(trace_.trace_id);
  if (principal_ != nullptr) access_.principal = principal_->name;
  access_.peer = peer_;
  access_.method = name_;
  access_.status = status_;
  access_.total_ms = absl::ToDoubleMilliseconds(end_ - begin_);
  access_.received_bytes = static_cast<int64_t>(num_received_);
  access_.sent_bytes = static_cast<int64_t>(num_read_);
  if (watch_.recent_requests != nullptr) watch_.recent_requests->Add(access_, end_);
  if (watch_.access_log != nullptr) watch_.access_log->Add(std::move(access_), end_);
}

void Call::CountReceived(size_t num_bytes) {
  num_received_ += num_bytes;
  num_unserved_ += num_bytes;
}

bool Call::Hold(size_t num_bytes) {
  return stream_->connection().account().Take(static_cast<int64_t>(num_bytes));
}

void Call::GiveBack(size_t num_bytes) {
  stream_->connection().account().GiveBack(static_cast<int64_t>(num_bytes));
}

absl::Status Call::HoldRequest(size_t num_bytes) {
  if (!Hold(num_bytes)) {
    return WithRetryPushback(absl::ResourceExhaustedError(
        "too many bytes of requests are under way; try again later, or send fewer at a time"));
  }
  num_held_of_request_ += num_bytes;
  return absl::OkStatus();
}

void Call::GiveBackRequest() { GiveBack(std::exchange(num_held_of_request_, 0)); }

absl::Status Call::HoldAnswer(size_t num_bytes, size_t num_held_bytes) {
  if (num_bytes > kMaxAnswerBytes) return AnswerTooLarge();
  if (Hold(num_held_bytes)) return absl::OkStatus();
  return WithRetryPushback(
      absl::ResourceExhaustedError("too many bytes of answers wait to be read; read them first"));
}

void Call::Send(std::string part, std::function<void()> on_sent) {
  Run([self = shared_from_this(), part = std::move(part), on_sent = std::move(on_sent)]() mutable {
    if (self->IsOpen()) {
      const size_t num_held_bytes = self->NumHeldBytes(part.size());
      if (self->Hold(num_held_bytes)) {
        self->Write(std::move(part), num_held_bytes, std::move(on_sent));
        return;
      }
      self->token_->Abandon();
      self->EndWith(absl::ResourceExhaustedError(
          "too many bytes of answers wait to be read; read faster, or ask for less at a time"));
    }
    if (on_sent) on_sent();
  });
}

void Call::Enqueue(std::string bytes, size_t num_held_bytes, std::function<void()> on_sent) {
  last_sent_ = loop_.now();
  outgoing_.push_back({std::move(bytes), num_held_bytes, std::move(on_sent)});
}

void Call::DropOutgoing() {
  for (Outgoing& outgoing : std::exchange(outgoing_, {})) {
    GiveBack(outgoing.num_held_bytes);
    if (outgoing.on_sent) outgoing.on_sent();
  }
  outgoing_begin_ = 0;
}

void Call::MarkEnded(absl::StatusCode status) {
  ended_ = true;
  status_ = status;
}

void Call::WaitForReader() {
  num_read_at_timer_ = num_read_;
  StartTimer(loop_.now() + kAnswerTimeout, [this] {
    if (num_read_ == num_read_at_timer_) {
      stream_->Reset(kCancel);
    } else {
      WaitForReader();
    }
  });
}

void Call::StartTimer(absl::Time when, EventLoop::Work work) {
  StopTimer();
  has_timer_ = true;
  timer_ = loop_.AddTimer(when, [this, work = std::move(work)]() mutable {
    has_timer_ = false;
    work();
  });
}

void Call::StopTimer() {
  if (std::exchange(has_timer_, false)) loop_.CancelTimer(timer_);
}

HttpExchange::Body Call::ReadBody(absl::Span<char> buffer, size_t* num_bytes) {
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
    if (is_service_) {
      cost_->MarkServed(kAnswerSeconds +
                        kByteSeconds * static_cast<double>(std::exchange(num_unserved_, 0)));
    }
    OnPartRead();
    outgoing_.pop_front();
    outgoing_begin_ = 0;
    if (on_sent) on_sent();
  }
  if (!outgoing_.empty()) return Body::kMore;
  return ended_ ? Body::kEnd : Body::kWait;
}

void Call::OnClosed() {
  GiveBackRequest();
  DropOutgoing();
  StopTimer();
  stream_ = nullptr;
  if (!std::exchange(ended_, true)) {
    status_ = absl::StatusCode::kCancelled;
    token_->Abandon();
  }
  OnEnd();
  end_ = loop_.now();
}

void Call::SetAccess(AccessEntry entry) {
  Run([self = shared_from_this(), entry = std::move(entry)]() mutable {
    self->access_ = std::move(entry);
  });
}

}  // namespace quire
