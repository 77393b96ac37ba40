#include "server/wire/http2/http2_connection.h"

#include <algorithm>
#include <array>
#include <utility>

#include "server/wire/http2/http2_callbacks.h"
#include "server/wire/http2/http2_stream.h"
#include "spdlog/spdlog.h"

namespace quire {

namespace {

constexpr absl::Duration kTick = absl::Seconds(2);

// Frames that serve nobody, a second and at once, of one connection; a request that was not served
// counts as kRequestCost of them. Beside them a frame of an answer pays for the window updates and
// pings that it brings about. These may come late, many at once: a busy client reads an answer's
// frames when it gets round to it. Some 40 ms of a loop's time are earned at most.
constexpr double kWastePerSecond = 500, kWasteBurst = 1000;
constexpr double kDataCredit = 2, kMaxCredit = 100'000;
constexpr double kFrameCost = 1;
// Times in a row that a buffer of input ends in debt, each a pause of at most two seconds.
constexpr int kMaxDebts = 3;
// The table that clients may use for the names and values of headers, once they have taken our
// settings; before that it has 4 KiB.
constexpr uint32_t kHeaderTableBytes = 1024;
// A byte of it, as RFC 7541 counts, costs some 7 of memory. Counted for more, so that few clients
// of an address may have large tables at the same time.
constexpr int64_t kTableByteCost = 16;
// What a stream takes of our memory beside its messages: nghttp2's part, the call, its headers.
constexpr int64_t kStreamBytes = 2048;
// A data frame this long pays for itself.
constexpr size_t kUsefulDataBytes = 256;
constexpr std::string_view kShuttingDown = "the server is shutting down";

// The GOAWAY that warns of one to come (RFC 9113, 6.8): no stream is refused yet. By hand, because
// nghttp2_submit_shutdown_notice takes no reason, and clients show the reason of the first.
std::string ShutdownNotice() {
  const size_t size = 8 + kShuttingDown.size();
  std::string frame = {0, 0, static_cast<char>(size), NGHTTP2_GOAWAY, 0, 0, 0, 0, 0};
  frame += {'\x7f', '\xff', '\xff', '\xff'};  // the last stream that is taken: any
  frame += {0, 0, 0, NGHTTP2_NO_ERROR};
  return frame.append(kShuttingDown);
}

}  // namespace

Http2Connection::Http2Connection(ConnectionControl* control, const Http2Limits& limits,
                                 const StartExchange& start_exchange)
    : control_(control),
      limits_(limits),
      start_exchange_(start_exchange),
      waste_(kWastePerSecond, kWasteBurst),
      last_input_(control->loop().now()),
      begin_(control->loop().now()) {
  session_ = NewServerSession(this);
  const std::array<nghttp2_settings_entry, 6> settings = {{
      {NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, kHeaderTableBytes},
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, limits_.max_concurrent_streams},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, limits_.stream_window_bytes},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, static_cast<uint32_t>(limits_.max_header_bytes)},
      {NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 0},
      {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
  }};
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings.data(), settings.size());
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0,
                                        static_cast<int32_t>(limits_.connection_window_bytes));
  StartTimer();
}

Http2Connection::~Http2Connection() {
  control_->loop().CancelTimer(timer_);
  nghttp2_session_del(session_);  // calls nothing back
  for (const auto& [id, stream] : streams_) {
    stream->Close();
    control_->account().GiveBack(kStreamBytes);
  }
  control_->account().GiveBack(paid_for_table_);
}

void Http2Connection::OnInput(std::string_view bytes) {
  if (failed_) return;
  last_input_ = control_->loop().now();
  ping_sent_ = absl::InfiniteFuture();
  const ssize_t used = nghttp2_session_mem_recv(
      session_, reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  // Protocol errors have made nghttp2 queue a GOAWAY; what it cannot even answer ends here.
  if (used < 0) {
    EndFor(static_cast<int>(used));
    return;
  }
  if (!PayForTable()) Fail(NGHTTP2_ENHANCE_YOUR_CALM, "no memory left for your table of headers");
  PauseIfWasteful();
}

// Ends the connection for an error from which nghttp2 cannot go on.
void Http2Connection::EndFor(int nghttp2_error) {
  if (nghttp2_error == NGHTTP2_ERR_BAD_CLIENT_MAGIC) {
    failed_ = true;
  } else if (nghttp2_error == NGHTTP2_ERR_CALLBACK_FAILURE) {
    Fail(NGHTTP2_ENHANCE_YOUR_CALM, "far too long headers");
  } else if (nghttp2_error == NGHTTP2_ERR_FLOODED) {
    Fail(NGHTTP2_ENHANCE_YOUR_CALM, "too many frames that want an answer");
  } else {
    Fail(NGHTTP2_PROTOCOL_ERROR, nghttp2_strerror(nghttp2_error));
  }
}

// Nothing more is read; the connection ends after what can be sent, of which this is the last.
void Http2Connection::Fail(uint32_t error_code, std::string_view reason) {
  if (std::exchange(failed_, true)) return;
  spdlog::debug("a connection of {} ends: {}", control_->peer().name(), reason);
  nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE,
                        nghttp2_session_get_last_proc_stream_id(session_), error_code,
                        reinterpret_cast<const uint8_t*>(reason.data()), reason.size());
}

// False when the address has no bytes left for it. A table of the size in our settings costs
// nothing.
bool Http2Connection::PayForTable() {
  if (has_taken_settings_ && paid_for_table_ == 0) return true;
  const size_t size = nghttp2_session_get_hd_inflate_dynamic_table_size(session_);
  const int64_t price = size <= kHeaderTableBytes ? 0 : kTableByteCost * static_cast<int64_t>(size);
  if (price > paid_for_table_ && !control_->account().Take(price - paid_for_table_)) return false;
  if (price < paid_for_table_) control_->account().GiveBack(paid_for_table_ - price);
  paid_for_table_ = price;
  return true;
}

void Http2Connection::FillOutput(std::string* output, size_t limit) {
  while (output->size() < limit) {
    const uint8_t* bytes = nullptr;
    const ssize_t size = nghttp2_session_mem_send(session_, &bytes);
    if (size < 0) is_dead_ = true;
    // Only here no block of headers is half sent.
    if (size == 0 && std::exchange(owes_notice_, false)) output->append(ShutdownNotice());
    if (size <= 0) {
      NoteBlocked();
      return;
    }
    output->append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
  }
}

bool Http2Connection::IsDone() const {
  if (is_dead_) return true;
  if (nghttp2_session_want_write(session_) != 0) return false;
  if (failed_ || nghttp2_session_want_read(session_) == 0) return true;
  return said_last_word_ && (gave_way_ ? num_active_ == 0 || cuts_off_ : streams_.empty());
}

// First a notice, so that calls which are on their way are still taken; the last word after it says
// which those were.
void Http2Connection::BeginShutdown(bool at_once) {
  if (shutting_down_) return;
  shutting_down_ = true;
  if (at_once) {
    gave_way_ = true;
    cuts_off_ = IsBlocked();
    SayLastWord();
    return;
  }
  owes_notice_ = true;
  notice_end_ = control_->loop().now() + limits_.shutdown_notice;
  control_->loop().CancelTimer(timer_);
  StartTimer();
}

// Which calls were the last ones.
void Http2Connection::SayLastWord() {
  notice_end_ = absl::InfiniteFuture();
  said_last_word_ = true;
  constexpr std::string_view kGiveWay = "too many connections; an idle one gives way";
  const std::string_view reason = gave_way_ ? kGiveWay : kShuttingDown;
  nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE,
                        nghttp2_session_get_last_proc_stream_id(session_), NGHTTP2_NO_ERROR,
                        reinterpret_cast<const uint8_t*>(reason.data()), reason.size());
}

Http2Connection::Stream* Http2Connection::Find(int32_t stream_id) {
  const auto it = streams_.find(stream_id);
  return it == streams_.end() ? nullptr : it->second.get();
}

int Http2Connection::OnBeginHeaders(int32_t stream_id) {
  header_block_begin_ = control_->loop().now();
  // RFC 9113, 8.7: a client may send such a request again.
  if (!control_->account().Take(kStreamBytes)) {
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream_id, NGHTTP2_REFUSED_STREAM);
    return 0;
  }
  streams_.emplace(stream_id, std::make_unique<Stream>(this, stream_id));
  incomplete_.insert(stream_id);
  return 0;
}

int Http2Connection::OnHeader(int32_t stream_id, std::string_view name, std::string_view value) {
  Stream* stream = Find(stream_id);
  if (stream == nullptr || stream->exchange() != nullptr) return 0;  // trailers: nobody reads them
  if (stream->AddHeader(name, value, limits_.max_header_bytes)) return 0;
  // 431 Request Header Fields Too Large; the rest of the block is decoded and dropped, but not an
  // endless one: a byte can stand for a field of kilobytes.
  if (!stream->is_refused()) stream->RefuseHead(431);
  return stream->head_bytes() <= 4 * limits_.max_header_bytes ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

int Http2Connection::OnFrame(const nghttp2_frame& frame) {
  const bool ends_stream = (frame.hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
  const int32_t stream_id = frame.hd.stream_id;
  switch (frame.hd.type) {
    case NGHTTP2_HEADERS:
      header_block_begin_ = absl::InfiniteFuture();
      OnRequestHead(stream_id);
      break;
    case NGHTTP2_DATA:
      if (frame.hd.length < kUsefulDataBytes && !ends_stream) Charge(kFrameCost);
      break;
    case NGHTTP2_SETTINGS:
      ((frame.hd.flags & NGHTTP2_FLAG_ACK) != 0 ? has_taken_settings_ : has_settings_) = true;
      Charge(kFrameCost);
      break;
    default:
      Charge(kFrameCost);
  }
  if (ends_stream && (frame.hd.type == NGHTTP2_HEADERS || frame.hd.type == NGHTTP2_DATA)) {
    incomplete_.erase(stream_id);
    if (Stream* stream = Find(stream_id)) stream->OnBodyEnd();
  }
  return 0;
}

// An answer may end before its request: nobody wants the rest of that (RFC 9113, 8.1).
void Http2Connection::OnFrameSent(const nghttp2_frame& frame) {
  const bool may_end = frame.hd.type == NGHTTP2_HEADERS || frame.hd.type == NGHTTP2_DATA;
  if (!may_end || (frame.hd.flags & NGHTTP2_FLAG_END_STREAM) == 0) return;
  if (!incomplete_.contains(frame.hd.stream_id)) return;
  nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, frame.hd.stream_id, NGHTTP2_NO_ERROR);
}

// The exchange has bounds of its own for what it keeps, so the peer may send on at once.
void Http2Connection::OnData(int32_t stream_id, std::string_view bytes) {
  nghttp2_session_consume(session_, stream_id, bytes.size());
  if (Stream* stream = Find(stream_id)) stream->OnBody(bytes);
  if (num_active_ == 0) control_->SetIdle(true);  // some of a request has come just now
}

void Http2Connection::OnRequestHead(int32_t stream_id) {
  Stream* stream = Find(stream_id);
  if (stream == nullptr || stream->exchange() != nullptr || stream->is_refused()) return;
  stream->Start(start_exchange_);
}

void Http2Connection::OnStreamClosed(int32_t stream_id) {
  incomplete_.erase(stream_id);
  const auto it = streams_.find(stream_id);
  if (it == streams_.end()) return;
  const std::unique_ptr<Stream> stream = std::move(it->second);
  streams_.erase(it);
  stream->Close();
  control_->account().GiveBack(kStreamBytes);
  if (!stream->is_served()) Charge(kRequestCost);
  if (stream->is_active()) ChangeActive(-1);
}

// A connection is idle while it has no stream that does something: none whose request is whole.
void Http2Connection::ChangeActive(int change) {
  const bool was_idle = num_active_ == 0 || is_blocked_;
  num_active_ += change;
  is_blocked_ = is_blocked_ && change < 0 && num_active_ > 0;
  const bool is_idle = num_active_ == 0 || is_blocked_;
  if (was_idle != is_idle) control_->SetIdle(is_idle);
}

// Whether the client has left us no window for anything that it waits for.
bool Http2Connection::IsBlocked() const {
  if (num_active_ == 0) return false;
  if (nghttp2_session_get_remote_window_size(session_) <= 0) return true;
  for (const auto& [id, stream] : streams_) {
    if (stream->is_active() && nghttp2_session_get_stream_remote_window_size(session_, id) > 0) {
      return false;
    }
  }
  return true;
}

// Such a connection waits for its client, however much we have for it.
void Http2Connection::NoteBlocked() {
  const bool is_blocked = IsBlocked();
  if (is_blocked == std::exchange(is_blocked_, is_blocked)) return;
  if (num_active_ > 0) control_->SetIdle(is_blocked);
}

void Http2Connection::Charge(double frames) {
  const double paid = std::min(frames, credit_);
  credit_ -= paid;
  waste_.Take(frames - paid);
}

void Http2Connection::EarnDataCredit() { credit_ = std::min(credit_ + kDataCredit, kMaxCredit); }

void Http2Connection::PauseIfWasteful() {
  waste_.Refill(control_->loop().now());
  if (!waste_.is_in_debt()) {
    num_debts_ = 0;
    return;
  }
  // A client that goes on like this is not served any more. Nobody can see whether it is still
  // there, as long as nothing that it sent is read.
  if (++num_debts_ > kMaxDebts) {
    Fail(NGHTTP2_ENHANCE_YOUR_CALM, "too many frames that serve nobody");
  }
  control_->PauseReading(waste_.debt_end());
}

void Http2Connection::StartTimer() {
  const absl::Time next = std::min(control_->loop().now() + kTick, notice_end_);
  timer_ = control_->loop().AddTimer(next, [this] {
    OnTimer();
    StartTimer();
    control_->RequestWrite();
  });
}

void Http2Connection::OnTimer() {
  const absl::Time now = control_->loop().now();
  if (now >= notice_end_) SayLastWord();
  // Who does not take our settings keeps the limits that hold before them (RFC 9113, 6.5.3).
  if ((!(has_settings_ && has_taken_settings_) && now - begin_ > limits_.handshake) ||
      now - header_block_begin_ > limits_.handshake) {
    Fail(NGHTTP2_ENHANCE_YOUR_CALM, "no settings, or headers that do not end, for too long");
    return;
  }
  EndSlowRequests(now);
  if (now - ping_sent_ > limits_.ping_timeout) {
    Fail(NGHTTP2_NO_ERROR, "a PING was not answered");
  } else if (now - last_input_ > limits_.ping_after && ping_sent_ == absl::InfiniteFuture()) {
    ping_sent_ = now;
    nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr);
  }
}

void Http2Connection::EndSlowRequests(absl::Time now) {
  const absl::flat_hash_set<int32_t> incomplete = incomplete_;
  for (const int32_t id : incomplete) {
    Stream* stream = Find(id);
    if (stream != nullptr && now - stream->begin() > limits_.request) stream->OnTooSlow();
  }
}

}  // namespace quire
