#include "server/wire/http1/chunked_body.h"

#include <algorithm>

namespace quire {

namespace {

constexpr size_t kMaxSizeDigits = 12;
constexpr size_t kMaxPassedOver = 4096;
constexpr uint64_t kSmallChunkBytes = 256;

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Whether a character may stand in the text that is passed over.
bool IsText(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return c == '\t' || (byte >= 0x20 && byte != 0x7f);
}

}  // namespace

ChunkedBody::Progress ChunkedBody::Take(std::string_view* bytes, std::string_view* data) {
  while (!bytes->empty() && state_ != State::kEnd && state_ != State::kBad) {
    if (state_ == State::kData) {
      const auto count = static_cast<size_t>(std::min<uint64_t>(size_, bytes->size()));
      *data = bytes->substr(0, count);
      bytes->remove_prefix(count);
      size_ -= count;
      if (size_ == 0) state_ = State::kDataCr;
      return Progress::kData;
    }
    state_ = Next(bytes->front());
    bytes->remove_prefix(1);
  }
  if (state_ == State::kEnd) return Progress::kEnd;
  return state_ == State::kBad ? Progress::kBad : Progress::kWantsMore;
}

ChunkedBody::State ChunkedBody::Next(char c) {
  const auto pass_over = [&](State state) {
    return IsText(c) && ++num_passed_over_ <= kMaxPassedOver ? state : State::kBad;
  };
  switch (state_) {
    case State::kSize:
      return NextOfSize(c);
    case State::kExtension:
      return c == '\r' ? State::kSizeLf : pass_over(State::kExtension);
    case State::kSizeLf:
      return c == '\n' ? AfterSize() : State::kBad;
    case State::kDataCr:
      return c == '\r' ? State::kDataLf : State::kBad;
    case State::kDataLf:
      size_ = num_digits_ = 0;
      return c == '\n' ? State::kSize : State::kBad;
    case State::kTrailerStart:
      return c == '\r' ? State::kLastLf : pass_over(State::kTrailer);
    case State::kTrailer:
      return c == '\r' ? State::kTrailerLf : pass_over(State::kTrailer);
    case State::kTrailerLf:
      return c == '\n' ? State::kTrailerStart : State::kBad;
    case State::kLastLf:
      return c == '\n' ? State::kEnd : State::kBad;
    case State::kData:
    case State::kEnd:
    case State::kBad:
      break;
  }
  return State::kBad;
}

ChunkedBody::State ChunkedBody::NextOfSize(char c) {
  const int digit = HexDigit(c);
  if (digit >= 0) {
    size_ = size_ * 16 + static_cast<uint64_t>(digit);
    return ++num_digits_ <= kMaxSizeDigits ? State::kSize : State::kBad;
  }
  if (num_digits_ == 0) return State::kBad;
  if (c == '\r') return State::kSizeLf;
  return c == ';' ? State::kExtension : State::kBad;
}

ChunkedBody::State ChunkedBody::AfterSize() {
  if (size_ < kSmallChunkBytes) ++num_small_chunks_;
  return size_ == 0 ? State::kTrailerStart : State::kData;
}

}  // namespace quire
