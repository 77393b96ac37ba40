// ByteStream: the bytes of one connection, in the clear or through TLS. Never blocks. The thread of
// the connection's loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/types/span.h"
#include "server/wire/tls/tls_stream.h"

namespace quire {

struct IoResult {
  enum class Kind : uint8_t {
    kDone,       // `bytes` were read or written
    kWantRead,   // again once the descriptor can be read
    kWantWrite,  // again once it can be written
    kEnd,        // the peer sends no more; only for a read
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
  // The name in the peer's certificate, which has been verified.
  virtual std::optional<std::string> client_name() const { return std::nullopt; }
};

// TLS on a socket that somebody else owns. The handshake is part of the first reads.
class TlsByteStream final : public ByteStream {
 public:
  explicit TlsByteStream(std::unique_ptr<TlsStream> tls) : tls_(std::move(tls)) {}
  IoResult Read(absl::Span<char> buffer) override;
  IoResult Write(std::string_view bytes) override;
  void EndWriting() override { tls_->SendClose(); }
  std::optional<std::string> client_name() const override { return tls_->client_name(); }

 private:
  const std::unique_ptr<TlsStream> tls_;
  bool is_open_ = false;  // the handshake is complete
};

// A socket in the clear, which somebody else owns. A caller that reads until nothing is left does
// not ask the system once more after a short read.
class SocketStream final : public ByteStream {
 public:
  explicit SocketStream(int fd) : fd_(fd) {}
  IoResult Read(absl::Span<char> buffer) override;
  IoResult Write(std::string_view bytes) override;
  void EndWriting() override;

 private:
  const int fd_;
  bool is_drained_ = false;  // the last read took everything that was there
};

}  // namespace quire
