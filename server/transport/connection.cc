#include "server/transport/connection.h"

#include <sys/epoll.h>

#include <utility>

#include "absl/time/clock.h"

namespace quire {

namespace {

// What is taken from the handler at a time: as much as a TLS record or a few frames.
constexpr size_t kOutputBytes = size_t{32} << 10;

}  // namespace

Connection::Connection(EventLoop& loop, UniqueFd fd, std::string peer_address, ByteBudget& budget,
                       const ConnectionTimeouts& timeouts, const MakeHandler& make_handler,
                       std::function<void()> on_closed)
    : loop_(loop),
      fd_(std::move(fd)),
      peer_address_(std::move(peer_address)),
      account_(&budget, peer_address_),
      timeouts_(timeouts),
      make_handler_(make_handler),
      on_closed_(std::move(on_closed)),
      stream_(fd_.get()),
      idle_since_us_(absl::ToUnixMicros(absl::Now())) {
  watched_events_ = EPOLLIN;
  watch_ = loop_.Watch(fd_.get(), watched_events_, this);
  SetTimer(loop_.now() + timeouts_.first_bytes, [this] { Close(); });
}

Connection::~Connection() {
  if (state_ != State::kClosed) {
    loop_.EndWatch(watch_, fd_.get());
    ClearTimer();
  }
  if (reading_paused_) loop_.CancelTimer(pause_timer_);
  handler_.reset();  // gives back what it holds of account_
}

void Connection::Close() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  loop_.EndWatch(watch_, fd_.get());
  ClearTimer();
  // Callers may be in the middle of one of our methods.
  loop_.AtEndOfTurn(std::move(on_closed_));
}

void Connection::Shutdown(bool at_once) {
  if (state_ != State::kOpen) return;
  if (handler_ == nullptr) {
    Close();
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
  if ((epoll_events & EPOLLERR) != 0) {
    Close();
    return;
  }
  if ((epoll_events & EPOLLOUT) != 0) {
    write_blocked_ = false;
    Write();
  }
  if (state_ != State::kClosed && (epoll_events & (EPOLLIN | EPOLLHUP)) != 0) ReadOnce();
}

// One buffer at a time, so that no connection keeps the others waiting.
void Connection::ReadOnce() {
  const IoResult result = stream_.Read(loop_.scratch());
  switch (result.kind) {
    case IoResult::Kind::kDone:
      if (state_ == State::kOpen) TakeInput({loop_.scratch().data(), result.bytes});
      return;
    case IoResult::Kind::kWantRead:
    case IoResult::Kind::kWantWrite:
      return;
    case IoResult::Kind::kEnd:  // nobody shuts down one side and waits for the other
    case IoResult::Kind::kFailed:
      Close();
      return;
  }
}

void Connection::TakeInput(std::string_view bytes) {
  if (handler_ == nullptr) {
    first_bytes_.append(bytes);
    const Protocol protocol = DetectProtocol(first_bytes_);
    if (protocol == Protocol::kUndecided) return;
    ClearTimer();
    handler_ = make_handler_(protocol, this);
    if (handler_ == nullptr) {
      Close();
      return;
    }
    const std::string first_bytes = std::exchange(first_bytes_, std::string());
    handler_->OnInput(first_bytes);
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
    Write();
  });
}

void Connection::Write() {
  while (state_ == State::kOpen && handler_ != nullptr && !write_blocked_) {
    if (pending_begin_ == pending_.size()) {
      pending_.clear();
      pending_begin_ = 0;
      handler_->FillOutput(&pending_, kOutputBytes);
      if (pending_.empty()) break;
    }
    if (!WritePending()) break;
  }
  if (state_ == State::kOpen && handler_ != nullptr && pending_begin_ == pending_.size() &&
      handler_->IsDone()) {
    BeginLinger();
  }
  if (state_ != State::kClosed) UpdateWatch();
}

bool Connection::WritePending() {
  const IoResult result = stream_.Write(std::string_view(pending_).substr(pending_begin_));
  if (result.kind == IoResult::Kind::kDone) {
    pending_begin_ += result.bytes;
    ClearTimer();
    return true;
  }
  if (result.kind != IoResult::Kind::kWantWrite) {
    Close();
    return false;
  }
  write_blocked_ = true;
  if (!has_timer_) SetTimer(loop_.now() + timeouts_.write_stall, [this] { Close(); });
  return false;
}

// Closing with unread input would make the system send a reset, which can overtake our last bytes:
// say that nothing more comes, and read until the peer has closed.
void Connection::BeginLinger() {
  state_ = State::kLingering;
  handler_.reset();
  stream_.EndWriting();
  SetTimer(loop_.now() + timeouts_.linger, [this] { Close(); });
}

void Connection::PauseReading(absl::Time until) {
  if (reading_paused_) loop_.CancelTimer(pause_timer_);
  reading_paused_ = true;
  pause_timer_ = loop_.AddTimer(until, [this] {
    reading_paused_ = false;
    if (state_ != State::kClosed) UpdateWatch();
  });
  UpdateWatch();
}

// Who does not take our output is not read from either: its requests would only add to it.
void Connection::UpdateWatch() {
  const uint32_t events = write_blocked_    ? uint32_t{EPOLLOUT}
                          : reading_paused_ ? uint32_t{0}
                                            : uint32_t{EPOLLIN};
  if (events == watched_events_) return;
  watched_events_ = events;
  loop_.ChangeWatch(watch_, fd_.get(), events);
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
