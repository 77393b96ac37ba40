#include "server/wire/transport/connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "kernels/base/clock.h"
#include "spdlog/spdlog.h"

namespace quire {

namespace {

// What is taken from the handler at a time: as much as a TLS record or a few frames.
constexpr size_t kOutputBytes = size_t{32} << 10;
// Many connections of an address that is in debt look seldom whether it still is.
constexpr absl::Duration kLeastDebtPause = absl::Milliseconds(50);

}  // namespace

Connection::Connection(EventLoop& loop, UniqueFd fd, PeerAddress peer, ByteBudget& budget,
                       std::shared_ptr<TimeAccount> time_account,
                       const ConnectionTimeouts& timeouts, const ConnectionEntry& entry,
                       std::function<void()> on_closed)
    : loop_(loop),
      fd_(std::move(fd)),
      peer_(std::move(peer)),
      account_(&budget, peer_.name()),
      time_account_(std::move(time_account)),
      timeouts_(timeouts),
      entry_(entry),
      on_closed_(std::move(on_closed)),
      idle_since_us_(absl::ToUnixMicros(MonotonicNow())) {
  watched_events_ = EPOLLIN | EPOLLRDHUP;
  const auto watch = loop_.Watch(fd_.get(), watched_events_, this);
  if (!watch.has_value()) {
    CloseFor("the system cannot watch it");
    return;
  }
  watch_ = *watch;
  SetTimer(loop_.now() + timeouts_.first_bytes,
           [this] { CloseFor("it does not say what it speaks"); });
}

Connection::~Connection() {
  if (state_ != State::kClosed) {
    loop_.EndWatch(watch_, fd_.get());
    ClearTimer();
  }
  if (reading_paused_) loop_.CancelTimer(pause_timer_);
  handler_.reset();  // gives back what it holds of account_
}

void Connection::CloseFor(std::string_view reason) {
  if (state_ == State::kClosed) return;
  if (!reason.empty()) spdlog::debug("a connection of {} is closed: {}", peer_.name(), reason);
  state_ = State::kClosed;
  loop_.EndWatch(watch_, fd_.get());
  ClearTimer();
  // Callers may be in the middle of one of our methods.
  loop_.AtEndOfTurn(std::move(on_closed_));
}

void Connection::Shutdown(bool at_once) {
  if (state_ != State::kOpen) return;
  if (at_once && write_blocked_) {
    CloseFor("it does not read, and there are too many connections");
    return;
  }
  if (handler_ == nullptr && at_once) {
    Close();
    return;
  }
  if (handler_ == nullptr) {
    // Bytes on their way are read, so that the client hears why the connection ends.
    ends_at_begin_ = true;
    SetTimer(loop_.now() + timeouts_.shutdown, [this] { CloseFor("the server is shutting down"); });
    return;
  }
  handler_->BeginShutdown(at_once);
  RequestWrite();
}

void Connection::SetIdle(bool idle) {
  if (!idle) has_worked_ = true;
  idle_since_us_ = idle ? absl::ToUnixMicros(loop_.now()) : kBusy;
}

void Connection::OnReady(uint32_t epoll_events) {
  loop_.RunFor(time_account_, [&] { TakeEvents(epoll_events); });
}

void Connection::TakeEvents(uint32_t epoll_events) {
  // Nobody shuts down one side and waits for the other; and who is not read from may be gone.
  if ((epoll_events & (EPOLLERR | EPOLLRDHUP)) != 0) {
    CloseFor((epoll_events & EPOLLERR) != 0 ? "the peer has reset it" : "the peer has closed it");
    return;
  }
  bool can_read = (epoll_events & (EPOLLIN | EPOLLHUP)) != 0 || read_wants_write_;
  if ((epoll_events & EPOLLOUT) != 0) {
    can_read |= write_blocked_;  // reading stopped with writing
    write_blocked_ = false;
    Write();
  }
  if (state_ != State::kClosed && can_read && !reading_paused_ && !write_blocked_) ReadOnce();
}

// The first byte, which stays unread, shows whether the client speaks TLS: 22 is its handshake.
void Connection::Begin() {
  constexpr char kTlsHandshake = 22;
  char first = 0;
  const ssize_t size = recv(fd_.get(), &first, 1, MSG_PEEK);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  const bool is_tls = size == 1 && first == kTlsHandshake && entry_.tls != nullptr;
  if (size <= 0 || (!is_tls && !entry_.takes_plaintext(peer_))) {
    CloseFor(size <= 0 ? "the peer has closed it" : "plain text is not taken from there");
  } else if (is_tls) {
    std::unique_ptr<TlsStream> tls = entry_.tls->NewStream(fd_.get());
    if (tls == nullptr) {
      CloseFor("TLS cannot begin");
      return;
    }
    stream_ = std::make_unique<TlsByteStream>(std::move(tls));
  } else {
    stream_ = std::make_unique<SocketStream>(fd_.get());
  }
}

// Nothing is read for an address that has cost too much for nothing; true when it is to wait.
bool Connection::WaitsForDebt() {
  const absl::Time end = time_account_->may_read_at();
  if (end <= loop_.now()) return false;
  PauseReading(std::max(end, loop_.now() + kLeastDebtPause));
  return true;
}

// One buffer at a time, so that no connection keeps the others waiting.
void Connection::ReadOnce() {
  if (WaitsForDebt()) return;
  if (stream_ == nullptr) Begin();
  if (stream_ == nullptr) return;
  size_t num_bytes = 0;
  const IoResult result = ReadUpTo(loop_.scratch(), &num_bytes);
  read_wants_write_ = result.kind == IoResult::Kind::kWantWrite;
  if (num_bytes > 0 && state_ == State::kOpen) TakeInput({loop_.scratch().data(), num_bytes});
  if (state_ == State::kClosed) return;
  switch (result.kind) {
    case IoResult::Kind::kDone:
      ReadAgainSoon();
      break;
    case IoResult::Kind::kWantRead:
    case IoResult::Kind::kWantWrite:
      UpdateWatch();
      break;
    case IoResult::Kind::kEnd:  // nobody shuts down one side and waits for the other
      CloseFor("the peer has closed it");
      break;
    case IoResult::Kind::kFailed:
      CloseFor("reading failed");
      break;
  }
}

// Fills the buffer, or reads all there is; kDone when there may be more.
IoResult Connection::ReadUpTo(absl::Span<char> buffer, size_t* num_bytes) {
  while (*num_bytes < buffer.size()) {
    const IoResult result = stream_->Read(buffer.subspan(*num_bytes));
    if (result.kind != IoResult::Kind::kDone) return result;
    *num_bytes += result.bytes;
  }
  return {IoResult::Kind::kDone};
}

// After the others' turn: TLS may hold bytes that the system does not see any more.
void Connection::ReadAgainSoon() {
  if (!reading_paused_) PauseReading(loop_.now() + absl::Microseconds(1));
}

void Connection::TakeInput(std::string_view bytes) {
  if (handler_ == nullptr) {
    first_bytes_.append(bytes);
    const Protocol protocol = DetectProtocol(first_bytes_);
    if (protocol == Protocol::kUndecided) return;
    ClearTimer();
    client_name_ = stream_->client_name();
    handler_ = entry_.make_handler(protocol, this);
    if (handler_ == nullptr) {
      CloseFor("nobody here speaks that protocol");
      return;
    }
    const std::string first_bytes = std::exchange(first_bytes_, std::string());
    handler_->OnInput(first_bytes);
    if (ends_at_begin_) handler_->BeginShutdown(/*at_once=*/false);
  } else {
    handler_->OnInput(bytes);
  }
  RequestWrite();
}

void Connection::RequestWrite() {
  if (write_requested_ || state_ != State::kOpen) return;
  write_requested_ = true;
  loop_.AtEndOfTurn([this] {
    write_requested_ = false;
    loop_.RunFor(time_account_, [this] { Write(); });
  });
}

void Connection::Write() {
  while (state_ == State::kOpen && handler_ != nullptr && !write_blocked_) {
    if (!pending_.empty()) {
      const std::string pending = std::exchange(pending_, std::string());
      WriteOut(pending);
      continue;
    }
    std::string& output = loop_.output();
    output.clear();
    handler_->FillOutput(&output, kOutputBytes);
    if (output.empty()) break;
    WriteOut(output);
  }
  if (state_ == State::kOpen && handler_ != nullptr && pending_.empty() && handler_->IsDone()) {
    BeginLinger();
  }
  if (state_ != State::kClosed) UpdateWatch();
}

// Bytes that the socket does not take become pending.
void Connection::WriteOut(std::string_view bytes) {
  while (!bytes.empty()) {
    const IoResult result = stream_->Write(bytes);
    if (result.kind == IoResult::Kind::kDone) {
      bytes.remove_prefix(result.bytes);
      ClearTimer();
      blocked_since_us_ = kBusy;
      continue;
    }
    if (result.kind != IoResult::Kind::kWantWrite) {
      CloseFor("writing failed");
      return;
    }
    pending_.assign(bytes);
    write_blocked_ = true;
    if (blocked_since_us_ == kBusy) blocked_since_us_ = absl::ToUnixMicros(loop_.now());
    if (!has_timer_) {
      SetTimer(loop_.now() + timeouts_.write_stall, [this] { CloseFor("it does not read"); });
    }
    return;
  }
}

// Closing with unread input would make the system send a reset, which can overtake our last bytes:
// say that nothing more comes, and read until the peer has closed.
void Connection::BeginLinger() {
  state_ = State::kLingering;
  handler_.reset();
  stream_->EndWriting();
  SetTimer(loop_.now() + timeouts_.linger, [this] { CloseFor("the goodbye was said"); });
}

void Connection::PauseReading(absl::Time until) {
  if (reading_paused_) loop_.CancelTimer(pause_timer_);
  reading_paused_ = true;
  pause_timer_ = loop_.AddTimer(until, [this] {
    reading_paused_ = false;
    loop_.RunFor(time_account_, [this] { GoOnReading(); });
  });
  UpdateWatch();
}

void Connection::GoOnReading() {
  if (state_ == State::kClosed || WaitsForDebt()) return;
  UpdateWatch();
  if (state_ != State::kClosed && !write_blocked_) ReadOnce();
}

// Who does not take our output is not read from either: its requests would only add to it.
void Connection::UpdateWatch() {
  uint32_t events = EPOLLRDHUP;
  if (!write_blocked_ && !reading_paused_) events |= EPOLLIN;
  if (write_blocked_ || read_wants_write_) events |= EPOLLOUT;
  if (events == watched_events_) return;
  watched_events_ = events;
  if (!loop_.ChangeWatch(watch_, fd_.get(), events)) CloseFor("the system cannot watch it");
}

void Connection::SetTimer(absl::Time when, EventLoop::Work work) {
  ClearTimer();
  has_timer_ = true;
  timer_ = loop_.AddTimer(when, [this, work = std::move(work)]() mutable {
    has_timer_ = false;
    work();
  });
}

void Connection::ClearTimer() {
  if (!has_timer_) return;
  has_timer_ = false;
  loop_.CancelTimer(timer_);
}

}  // namespace quire
