// TlsStream: TLS on one connection that does not block. No call waits, and none throws away the
// bytes that it was given; each says what to wait for. One thread at a time. The process ignores
// SIGPIPE.
#pragma once

#include <openssl/ssl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace quire {

struct TlsIo {
  enum class State : uint8_t {
    kDone,       // `num_bytes` were moved, or the handshake is complete
    kWantRead,   // nothing was moved: try the same call again when the connection can be read
    kWantWrite,  // likewise, when it can be written
    kClosed,     // the peer will send no more; only for reading
    kError,      // the connection is broken: TlsStream::error
  };
  State state;
  size_t num_bytes = 0;
};

class TlsStream {
 public:
  // The caller owns `fd`, which is non-blocking, and closes it after this is gone. `context` is
  // kept for as long as this lives. Null when OpenSSL finds no memory.
  static std::unique_ptr<TlsStream> New(SSL_CTX* context, int fd);
  // The same as a client of `host`: the server's certificate must be for that name or address.
  // `protocol` is offered, as TLS names it: "h2".
  static std::unique_ptr<TlsStream> NewClient(SSL_CTX* context, int fd, const std::string& host,
                                              std::string_view protocol);

  // To be called until it is kDone, before anything else.
  TlsIo Handshake();

  // Reads into `buffer`, at least one byte when kDone. Bytes may wait inside, and no poll of the
  // connection sees them: read until kWantRead.
  TlsIo Read(absl::Span<char> buffer);

  // Writes from the beginning of `bytes`, perhaps not all of them. After kWantRead or kWantWrite
  // the same bytes, at whatever address, come first in the next call.
  TlsIo Write(absl::string_view bytes);

  // Tells the peer that no more will come; once, best effort.
  void SendClose();

  // The protocol that both sides chose in the handshake, "h2" or "http/1.1"; empty: the client
  // named none.
  std::string protocol() const;

  // The name in the client's certificate, which has been verified: its first DNS, URI or e-mail
  // name, else its common name. Nothing without a certificate, or when the name has characters
  // that are not printable ASCII.
  std::optional<std::string> client_name() const;

  // Why the last call was kError, for the log: in OpenSSL's words, which never show keys or data.
  const std::string& error() const { return error_; }

 private:
  struct Free {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
  };

  explicit TlsStream(std::unique_ptr<SSL, Free> ssl) : ssl_(std::move(ssl)) {}
  TlsIo Failed(int result);
  void AddWhyNotTrusted();

  const std::unique_ptr<SSL, Free> ssl_;
  std::string error_;
};

}  // namespace quire
