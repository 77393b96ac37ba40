// ByteStream: the bytes of one connection, in the clear or through TLS. Never blocks. The thread of
// the connection's loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/types/span.h"

namespace quire {

struct IoResult {
  enum class Kind : uint8_t {
    kDone,       // `bytes` were read or written
    kWantRead,   // again once the descriptor can be read
    kWantWrite,  // again once it can be written
    kEnd,        // the peer sends no more; of a read only
    kFailed,     // the connection is lost
  };
  Kind kind;
  size_t bytes = 0;
};

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  virtual IoResult Read(absl::Span<char> buffer) = 0;
  virtual IoResult Write(std::string_view bytes) = 0;
  // Says to the peer that nothing more is sent.
  virtual void EndWriting() = 0;
};

// A socket in the clear, which somebody else owns.
class SocketStream final : public ByteStream {
 public:
  explicit SocketStream(int fd) : fd_(fd) {}
  IoResult Read(absl::Span<char> buffer) override;
  IoResult Write(std::string_view bytes) override;
  void EndWriting() override;

 private:
  const int fd_;
};

}  // namespace quire
