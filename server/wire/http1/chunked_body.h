// ChunkedBody: takes a body in chunks (RFC 9112, 7.1) apart, for any cuts of its bytes. Keeps
// nothing. Extensions after a chunk's size, and trailers, are passed over, within bounds. One
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace quire {

class ChunkedBody {
 public:
  enum class Progress : uint8_t {
    kWantsMore,  // all bytes were taken
    kData,       // `*data` is the next piece of the body; there may be more bytes
    kEnd,        // the body has ended; the rest of the bytes follows it
    kBad,        // this is not a chunked body
  };

  // Takes bytes from the front of `*bytes`.
  Progress Take(std::string_view* bytes, std::string_view* data);

  // Chunks that carried hardly anything.
  size_t num_small_chunks() const { return num_small_chunks_; }

 private:
  enum class State : uint8_t {
    kSize,
    kExtension,
    kSizeLf,
    kData,
    kDataCr,
    kDataLf,
    kTrailerStart,
    kTrailer,
    kTrailerLf,
    kLastLf,
    kEnd,
    kBad,
  };

  State Next(char c);
  State NextOfSize(char c);
  State AfterSize();

  State state_ = State::kSize;
  uint64_t size_ = 0;  // bytes of the chunk that are left
  size_t num_digits_ = 0;
  size_t num_passed_over_ = 0;  // bytes of extensions and trailers
  size_t num_small_chunks_ = 0;
};

}  // namespace quire
