#include "server/wire/http1/http1_connection.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/base/clock.h"
#include "server/wire/http1/http1_answer.h"

namespace quire {

namespace {

// As for HTTP/2: the requests that serve nobody which one connection may send in a second, and at
// once.
constexpr double kWastePerSecond = 500, kWasteBurst = 1000;
constexpr double kRequestCost = 4;
constexpr int kMaxDebts = 3;
// The memory that a request takes beside its head and its messages.
constexpr int64_t kRequestBytes = 2048;
// A head takes this many times its bytes once it is read.
constexpr int64_t kHeadFactor = 3;
// Empty lines before a request, which some clients send after the one before.
constexpr size_t kMaxEmptyBytes = 8;
// A pause that only its end ends.
constexpr absl::Duration kLong = absl::Hours(1);
constexpr size_t kPieceBytes = size_t{16} << 10;

}  // namespace

// What is under way.
struct Http1Connection::Request {
  enum class Framing : uint8_t { kNone, kLength, kChunked, kUntilEnd };

  Http1Head head;
  int64_t num_held_bytes = 0;  // of the connection's account
  uint64_t num_body_left = 0;  // of a body with a length
  uint64_t num_dropped = 0;    // of a body that nobody reads
  size_t num_paid_chunks = 0;
  bool owes_continue = false;
  ChunkedBody chunks;
  std::shared_ptr<HttpExchange> exchange;

  int status = 0;  // of the answer; 0: there is none yet
  HeaderList headers;
  bool is_all = false;
  Framing framing = Framing::kNone;
  bool has_sent_head = false;
  bool has_ended = false;  // the answer
  bool is_served = false;
};

Http1Connection::Http1Connection(ConnectionControl* control, const Http1Limits& limits,
                                 const StartExchange& start_exchange)
    : control_(control),
      limits_(limits),
      start_exchange_(start_exchange),
      waste_(kWastePerSecond, kWasteBurst) {}

Http1Connection::~Http1Connection() {
  if (has_timer_) control_->loop().CancelTimer(timer_);
  if (has_next_timer_) control_->loop().CancelTimer(next_timer_);
  DropRequest();
  control_->account().GiveBack(static_cast<int64_t>(kept_.size()));
}

void Http1Connection::OnInput(std::string_view bytes) {
  if (reading_ == Reading::kNothing) return;
  if (kept_.empty()) {
    bytes.remove_prefix(Take(bytes));
    Keep(bytes);
  } else if (Keep(bytes)) {
    TakeKept();
  }
  PauseIfWasteful();
}

// Adds to what is kept, on the account. Whether it may be taken now.
bool Http1Connection::Keep(std::string_view bytes) {
  if (bytes.empty() || reading_ == Reading::kNothing) return true;
  const bool waits = reading_ == Reading::kWaiting || has_next_timer_;
  if (kept_.size() > (waits ? limits_.max_waiting_bytes : limits_.max_header_bytes) ||
      !control_->account().Take(static_cast<int64_t>(bytes.size()))) {
    if (waits) {
      CloseWhenSent();
    } else {
      Refuse({503, "too many bytes of requests are under way; try again later"});
    }
    return false;
  }
  kept_.append(bytes);
  if (waits) PauseForAnswer();
  return !waits;
}

void Http1Connection::TakeKept() {
  const std::string kept = std::exchange(kept_, std::string());
  const size_t num_taken = Take(kept);
  control_->account().GiveBack(static_cast<int64_t>(kept.size()));
  if (reading_ != Reading::kNothing) Keep(std::string_view(kept).substr(num_taken));
  if (reading_ == Reading::kHead || reading_ == Reading::kBody) GoOnReading();
}

void Http1Connection::PauseForAnswer() {
  if (std::exchange(waits_to_read_, true)) return;
  control_->PauseReading(control_->loop().now() + kLong);
}

void Http1Connection::GoOnReading() {
  if (std::exchange(waits_to_read_, false)) control_->PauseReading(control_->loop().now());
}

// Takes what it can; returns how much that was.
size_t Http1Connection::Take(std::string_view bytes) {
  const size_t size = bytes.size();
  while (!bytes.empty()) {
    if (reading_ == Reading::kNothing) return size;
    if (reading_ == Reading::kWaiting) break;
    if (reading_ == Reading::kBody) {
      if (!TakeBody(&bytes)) break;
      continue;
    }
    const std::optional<std::string_view> text = TakeHead(&bytes);
    if (!text.has_value()) break;
    BeginRequest(*text);
  }
  return reading_ == Reading::kNothing ? size : size - bytes.size();
}

// Nothing while the head is not whole, or when there cannot be one.
std::optional<std::string_view> Http1Connection::TakeHead(std::string_view* bytes) {
  const size_t num_empty = std::min(bytes->find_first_not_of("\r\n"), bytes->size());
  if (num_empty > kMaxEmptyBytes) {
    Refuse({400, "a request begins with its method"});
    return std::nullopt;
  }
  if (scanned_bytes_ == 0) bytes->remove_prefix(num_empty);
  if (bytes->empty()) return std::nullopt;
  if (head_begin_ == absl::InfiniteFuture()) {
    head_begin_ = control_->loop().now();
    SetDeadline(head_begin_ + limits_.header);
  }
  constexpr std::string_view kEnd = "\r\n\r\n";
  const size_t from = scanned_bytes_ < kEnd.size() ? 0 : scanned_bytes_ - kEnd.size() + 1;
  const size_t end = bytes->substr(0, limits_.max_header_bytes).find(kEnd, from);
  if (end != std::string_view::npos) {
    scanned_bytes_ = 0;
    const std::string_view text = bytes->substr(0, end + kEnd.size());
    bytes->remove_prefix(text.size());
    return text;
  }
  scanned_bytes_ = bytes->size();
  if (!MayBeHttp1Head(*bytes)) {
    Refuse({400, "this is no request of HTTP/1.1, and no beginning of HTTP/2"});
  } else if (bytes->size() >= limits_.max_header_bytes) {
    Refuse({431,
            absl::StrCat("the request's head has more than ", limits_.max_header_bytes, " bytes")});
  }
  return std::nullopt;
}

void Http1Connection::BeginRequest(std::string_view text) {
  head_begin_ = absl::InfiniteFuture();
  waste_.Take(kRequestCost);
  auto request = std::make_unique<Request>();
  const int64_t num_bytes = kRequestBytes + kHeadFactor * static_cast<int64_t>(text.size());
  if (!control_->account().Take(num_bytes)) {
    Refuse({503, "too many bytes of requests are under way; try again later"});
    return;
  }
  request->num_held_bytes = num_bytes;
  request_ = std::move(request);
  if (const auto error = ParseHttp1Head(text, &request_->head)) {
    Refuse(*error);
    return;
  }
  const Http1Head& head = request_->head;
  closes_ = !head.keeps_alive || shutting_down_;
  request_->num_body_left = head.content_length;
  request_->owes_continue = head.expects_continue && head.has_body();
  reading_ = head.has_body() ? Reading::kBody : Reading::kWaiting;
  control_->SetIdle(head.has_body());  // while the body does not come there is nothing to do
  SetDeadline(head.has_body() ? control_->loop().now() + limits_.request : absl::InfiniteFuture());
  request_->exchange = start_exchange_(head.request, this);
  if (request_->exchange == nullptr && request_->status == 0) {
    Refuse({500, "nobody answers this request"});
    return;
  }
  if (request_->exchange != nullptr && !head.has_body()) request_->exchange->OnBodyEnd();
  if (request_->owes_continue && request_->status == 0) {
    output_.append("HTTP/1.1 100 Continue\r\n\r\n");
    request_->owes_continue = false;
  }
}

// False when no more can be taken.
bool Http1Connection::TakeBody(std::string_view* bytes) {
  Request& request = *request_;
  if (!request.head.is_chunked) {
    const auto count =
        static_cast<size_t>(std::min<uint64_t>(request.num_body_left, bytes->size()));
    const std::string_view piece = bytes->substr(0, count);
    bytes->remove_prefix(count);
    request.num_body_left -= count;
    TakePiece(piece);
    if (request_ != nullptr && request.num_body_left == 0) EndBody();
    return reading_ != Reading::kNothing;
  }
  std::string_view piece;
  const ChunkedBody::Progress progress = request.chunks.Take(bytes, &piece);
  waste_.Take(static_cast<double>(request.chunks.num_small_chunks() - request.num_paid_chunks));
  request.num_paid_chunks = request.chunks.num_small_chunks();
  switch (progress) {
    case ChunkedBody::Progress::kWantsMore:
      break;
    case ChunkedBody::Progress::kData:
      TakePiece(piece);
      break;
    case ChunkedBody::Progress::kEnd:
      EndBody();
      break;
    case ChunkedBody::Progress::kBad:
      Refuse({400, "the chunks of the body are malformed"});
      break;
  }
  return reading_ != Reading::kNothing;
}

// Once there is an answer nobody reads the rest, which is dropped if it is not long.
void Http1Connection::TakePiece(std::string_view piece) {
  control_->SetIdle(true);
  if (request_->exchange != nullptr && !request_->has_ended) {
    request_->exchange->OnBody(piece);
    return;
  }
  request_->num_dropped += piece.size();
  if (request_->num_dropped > limits_.max_dropped_bytes) CloseWhenSent();
}

void Http1Connection::EndBody() {
  reading_ = Reading::kWaiting;
  control_->SetIdle(false);
  SetDeadline(absl::InfiniteFuture());
  if (request_->has_ended) {
    EndRequest();
  } else if (request_->exchange != nullptr) {
    request_->exchange->OnBodyEnd();
  }
}

// Says what is wrong and reads nothing more; an answer that has begun is cut off.
void Http1Connection::Refuse(const Http1Error& error) {
  const bool has_begun = request_ != nullptr && request_->has_sent_head;
  const bool is_head = request_ != nullptr && request_->head.request.method == "HEAD";
  DropRequest();
  if (!has_begun) output_.append(Http1Refusal(error, is_head));
  CloseWhenSent();
  is_done_ = true;
  control_->RequestWrite();
}

// Nothing more is read; the answer that is under way is the last one.
void Http1Connection::CloseWhenSent() {
  reading_ = Reading::kNothing;
  closes_ = true;
  SetDeadline(absl::InfiniteFuture());
  control_->account().GiveBack(static_cast<int64_t>(kept_.size()));
  kept_ = std::string();
  if (request_ == nullptr || request_->has_ended) is_done_ = true;
}

void Http1Connection::SendHeaders(int http_status, const HeaderList& headers, bool is_all) {
  if (request_ == nullptr || request_->status != 0) return;
  request_->status = http_status;
  request_->headers = headers;
  request_->is_all = is_all;
  control_->RequestWrite();
}

// Not at once: it is the exchange that asks for it.
void Http1Connection::Reset(uint32_t) {
  is_reset_ = true;
  control_->RequestWrite();
}

void Http1Connection::CountAsServed() {
  if (request_ == nullptr || std::exchange(request_->is_served, true)) return;
  waste_.Take(-kRequestCost);
}

void Http1Connection::CountMessage() { waste_.Take(kRequestCost); }

void Http1Connection::SetPassive() { control_->SetIdle(true); }

void Http1Connection::FillOutput(std::string* output, size_t limit) {
  output->append(std::exchange(output_, std::string()));
  if (is_reset_) {
    DropRequest();
    CloseWhenSent();
  }
  while (request_ != nullptr && request_->status != 0 && !request_->has_ended &&
         output->size() < limit) {
    if (!request_->has_sent_head) {
      BeginAnswer(output);
    } else if (!AddBody(output, limit)) {
      break;
    }
  }
}

// A body that is not read to its end could be taken for the next request. How much of a chunked one
// is still to come nobody knows.
void Http1Connection::BeginAnswer(std::string* output) {
  Request& request = *request_;
  if (reading_ == Reading::kBody && (request.owes_continue || request.head.is_chunked ||
                                     request.num_body_left > limits_.max_dropped_bytes)) {
    closes_ = true;
  }
  const bool has_length =
      std::any_of(request.headers.begin(), request.headers.end(),
                  [](const auto& field) { return field.first == "content-length"; });
  const bool is_bare = request.status == 204 || request.status == 304;
  using Framing = Request::Framing;
  if (request.is_all || is_bare) {
    request.framing = Framing::kNone;
  } else if (has_length) {
    request.framing = Framing::kLength;
  } else {
    request.framing = request.head.is_http11 ? Framing::kChunked : Framing::kUntilEnd;
    closes_ |= !request.head.is_http11;
  }
  Http1AnswerHead head = {request.status, &request.headers};
  head.is_chunked = request.framing == Framing::kChunked;
  head.is_empty = request.is_all && !has_length && !is_bare;
  head.closes = closes_;
  head.says_keep_alive = !request.head.is_http11 && !closes_;
  AppendAnswerHead(head, WallNow(), output);
  request.has_sent_head = true;
  request.headers.clear();
  if (request.is_all) EndAnswer();
}

// False when there is nothing more now.
bool Http1Connection::AddBody(std::string* output, size_t limit) {
  Request& request = *request_;
  std::array<char, kPieceBytes> piece;
  const size_t room = std::clamp<size_t>(limit - output->size(), 1, piece.size());
  size_t num_bytes = 0;
  const HttpExchange::Body body =
      request.exchange->ReadBody(absl::MakeSpan(piece.data(), room), &num_bytes);
  const std::string_view bytes(piece.data(), num_bytes);
  const bool is_head = request.head.request.method == "HEAD";
  const bool is_chunked = request.framing == Request::Framing::kChunked && !is_head;
  if (num_bytes > 0 && !is_head && request.framing != Request::Framing::kNone) {
    if (is_chunked) {
      absl::StrAppend(output, absl::Hex(num_bytes), "\r\n");
      output->append(bytes).append("\r\n");
    } else {
      output->append(bytes);
    }
  }
  if (body == HttpExchange::Body::kEnd) {
    if (is_chunked) output->append("0\r\n\r\n");
    EndAnswer();
    return false;
  }
  return num_bytes > 0;
}

void Http1Connection::EndAnswer() {
  request_->has_ended = true;
  if (const auto exchange = std::exchange(request_->exchange, nullptr)) exchange->OnClosed();
  if (closes_) {
    CloseWhenSent();
  } else if (reading_ == Reading::kWaiting) {
    EndRequest();
  } else {
    SetDeadline(std::min(deadline_, control_->loop().now() + limits_.dropped));
  }
}

// Requests that were sent ahead have their turn after those of the loop's other connections.
void Http1Connection::EndRequest() {
  DropRequest();
  reading_ = Reading::kHead;
  if (shutting_down_) {
    CloseWhenSent();
    return;
  }
  if (kept_.empty()) {
    control_->SetIdle(true);
    SetDeadline(control_->loop().now() + limits_.idle);
  } else if (!std::exchange(has_next_timer_, true)) {
    waste_.Refill(control_->loop().now());
    next_timer_ = control_->loop().AddTimer(waste_.debt_end(), [this] {
      has_next_timer_ = false;
      control_->loop().RunFor(control_->time_account(), [this] {
        TakeKept();
        control_->RequestWrite();
      });
    });
    return;
  }
  GoOnReading();
}

void Http1Connection::DropRequest() {
  if (request_ == nullptr) return;
  const std::unique_ptr<Request> request = std::move(request_);
  if (request->exchange != nullptr) request->exchange->OnClosed();
  control_->account().GiveBack(request->num_held_bytes);
}

void Http1Connection::BeginShutdown(bool at_once) {
  if (std::exchange(shutting_down_, true)) return;
  const bool is_answered = request_ != nullptr && !request_->has_ended;
  if (is_answered && at_once && reading_ == Reading::kBody && request_->status == 0) {
    Refuse({408, "the request's body does not come, and there are too many connections"});
  } else if (is_answered) {
    closes_ = true;
  } else if (at_once) {
    CloseWhenSent();
  } else if (request_ == nullptr) {
    SetDeadline(control_->loop().now() + limits_.shutdown_notice);
  }
}

void Http1Connection::PauseIfWasteful() {
  waste_.Refill(control_->loop().now());
  if (!waste_.is_in_debt()) {
    num_debts_ = 0;
    return;
  }
  if (++num_debts_ > kMaxDebts) CloseWhenSent();
  if (!waits_to_read_) control_->PauseReading(waste_.debt_end());
}

// The timer stays where it is while the deadline moves away from it.
void Http1Connection::SetDeadline(absl::Time deadline) {
  deadline_ = deadline;
  if (deadline == absl::InfiniteFuture()) return;
  if (has_timer_) {
    if (timer_.first <= deadline) return;
    control_->loop().CancelTimer(timer_);
  }
  has_timer_ = true;
  timer_ = control_->loop().AddTimer(deadline, [this] {
    has_timer_ = false;
    if (deadline_ > control_->loop().now()) {
      SetDeadline(deadline_);
    } else {
      control_->loop().RunFor(control_->time_account(), [this] { OnDeadline(); });
    }
  });
}

void Http1Connection::OnDeadline() {
  deadline_ = absl::InfiniteFuture();
  if (reading_ == Reading::kHead && head_begin_ == absl::InfiniteFuture()) {
    CloseWhenSent();
  } else if (reading_ == Reading::kHead) {
    Refuse(shutting_down_ ? Http1Error{503, "the server is shutting down"}
                          : Http1Error{408, "the request's head did not come to its end in time"});
  } else if (reading_ == Reading::kBody) {
    closes_ = true;
    if (request_->exchange != nullptr && request_->status == 0) {
      request_->exchange->OnTooSlow();
    } else {
      CloseWhenSent();
    }
  }
  control_->RequestWrite();
}

}  // namespace quire
