#include "server/call/grpc_call.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/call/grpc_protocol.h"
#include "server/request/limits.h"
#include "server/wire/http/message_prefix.h"

namespace quire {

namespace {

// Messages before an error have this long to be sent. The client must get the error, whether it
// reads them or not.
constexpr absl::Duration kErrorDelay = absl::Milliseconds(300);
// A call with less time than this gets no work: nobody would wait for the answer.
constexpr absl::Duration kLeastTimeout = absl::Microseconds(100);
// Messages of a client's stream whose answers are not on their way.
constexpr size_t kMaxUnanswered = 16;

// A refusal that the client's own mistake caused counts as waste. A refusal for lack of room does
// not.
bool IsClientsFault(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
      return true;
    default:
      return false;
  }
}

}  // namespace

void GrpcCall::Begin(absl::string_view text) {
  if (method_.is_passive) stream()->SetPassive();
  if (text.empty()) return;
  const std::optional<absl::Duration> timeout = ParseGrpcTimeout(text);
  if (!timeout.has_value()) {
    Refuse(absl::InvalidArgumentError(
        absl::StrCat("grpc-timeout: \"", text, "\" is not a time such as 100m or 30S")));
    return;
  }
  const auto end = [this] {
    token()->Abandon();
    Refuse(absl::DeadlineExceededError("the call's deadline is past"));
  };
  if (*timeout < kLeastTimeout) {
    end();
  } else {
    StartTimer(loop().now() + *timeout, end);
  }
}

void GrpcCall::OnBody(std::string_view bytes) {
  CountReceived(bytes.size());
  while (!bytes.empty() && !ended()) {
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
    if (!ended() && in_message_ && message_.size() == message_bytes_) TakeMessage();
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
  } else if (const absl::Status held = HoldRequest(prefix.num_bytes); !held.ok()) {
    Refuse(held);
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
  GiveBackRequest();
  stream()->CountMessage();
  if (num_unanswered_ >= kMaxUnanswered) {
    Refuse(absl::ResourceExhaustedError(
        absl::StrCat("more than ", kMaxUnanswered, " messages at once; read the answers first")));
    return;
  }
  ++num_unanswered_;
  HandleMessage();
}

void GrpcCall::HandleMessage() {
  Handle([this] {
    method_.on_message(std::static_pointer_cast<GrpcCall>(shared_from_this()),
                       std::exchange(message_, {}));
  });
}

void GrpcCall::OnBodyEnd() {
  if (ended()) return;
  if (in_message_ || !prefix_.empty()) {
    Refuse(absl::InvalidArgumentError("the request ended within a message"));
  } else if (method_.client_streams) {
    method_.on_messages_end(std::static_pointer_cast<GrpcCall>(shared_from_this()));
  } else if (!has_message_) {
    Refuse(absl::InvalidArgumentError("the request ended without a message"));
  } else {
    // From here on it is the handler's, which has bounds of its own.
    GiveBackRequest();
    has_message_ = false;
    HandleMessage();
  }
}

void GrpcCall::OnTooSlow() {
  Refuse(absl::DeadlineExceededError("the request did not come to its end in time"));
}

size_t GrpcCall::NumHeldBytes(size_t message_bytes) const {
  return method_.client_streams ? message_bytes : Call::NumHeldBytes(message_bytes);
}

void GrpcCall::Finish(absl::Status status) {
  RunIfOpen<GrpcCall>([status = std::move(status)](GrpcCall& call) { call.EndWith(status); });
}

void GrpcCall::FinishWith(std::string message) {
  RunIfOpen<GrpcCall>([message = std::move(message)](GrpcCall& call) mutable {
    const size_t num_held_bytes = message.size();
    if (const absl::Status held = call.HoldAnswer(message.size(), num_held_bytes); !held.ok()) {
      call.EndWith(held);
      return;
    }
    call.Write(std::move(message), num_held_bytes, nullptr);
    call.EndWith(absl::OkStatus());
  });
}

void GrpcCall::Write(std::string message, size_t num_held_bytes, std::function<void()> on_sent) {
  std::string bytes;
  bytes.reserve(kMessagePrefixBytes + message.size());
  AppendMessagePrefix(message.size(), &bytes);
  bytes.append(message);
  Enqueue(std::move(bytes), num_held_bytes, std::move(on_sent));
  if (!sent_headers_) {
    SendHeadersNow();
  } else {
    stream()->ResumeBody();
  }
}

void GrpcCall::SendHeaders() {
  RunIfOpen<GrpcCall>([](GrpcCall& call) {
    if (!call.sent_headers_) call.SendHeadersNow();
  });
}

void GrpcCall::SendHeadersNow() {
  sent_headers_ = true;
  stream()->SendHeaders(
      200, {{"content-type", "application/grpc"}, {"grpc-accept-encoding", "identity"}},
      /*is_all=*/false);
}

void GrpcCall::EndWith(const absl::Status& status) {
  MarkEnded(status.code());
  if (!IsClientsFault(status.code())) stream()->CountAsServed();
  HeaderList trailers = StatusTrailers(status);
  if (!sent_headers_) {
    sent_headers_ = true;
    trailers.emplace_back("content-type", "application/grpc");
    stream()->SendHeaders(200, trailers, /*is_all=*/true);
    return;
  }
  stream()->SetTrailers(std::move(trailers));
  stream()->ResumeBody();
  if (!has_outgoing()) return;
  // The deadline ends what the handler does; from here on it is the client's reading.
  if (status.ok()) {
    WaitForReader();
  } else {
    StartTimer(loop().now() + kErrorDelay, [this] {
      DropOutgoing();
      stream()->SendTrailersNow();
    });
  }
}

void GrpcCall::Refuse(const absl::Status& status) {
  if (!ended()) EndWith(status);
}

void GrpcCall::OnPartRead() {
  if (num_unanswered_ > 0) --num_unanswered_;
}

void GrpcCall::OnEnd() {
  if (watch().metrics != nullptr) watch().metrics->CountGrpcCall(method_.path, status());
}

}  // namespace quire
