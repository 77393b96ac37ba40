// A server on a port of this machine that says what a test wants, in the clear or through TLS.
#pragma once

#include <openssl/ssl.h>

#include <functional>
#include <string>
#include <thread>

#include "server/wire/client/server_address.h"
#include "server/wire/tls/pem_files.h"
#include "server/wire/transport/unique_fd.h"

namespace quire {

class ScriptedServer {
 public:
  // Gives the server's answer to the first bytes of a connection. Then the server reads until the
  // client has gone.
  using Answer = std::function<std::string(const std::string& first_bytes)>;

  explicit ScriptedServer(Answer answer, const PemTexts& tls = {});
  // Waits until the clients have gone.
  ~ScriptedServer();

  int port() const { return port_; }
  // 127.0.0.1, under the name.
  ServerAddress Address(const std::string& host = "127.0.0.1") const;

 private:
  void Serve();
  void ServeOne(int fd);

  const Answer answer_;
  std::shared_ptr<SSL_CTX> tls_;  // null: in the clear
  UniqueFd listener_;
  int port_ = 0;
  std::thread thread_;
};

// A frame of HTTP/2 on stream 1, or of the connection where the type has no stream.
enum class FrameType : char { kData = 0, kHeaders = 1, kSettings = 4 };
std::string Http2Frame(FrameType type, const std::string& payload);

// An address of this machine at which nobody listens.
SocketAddress NobodysAddress();

}  // namespace quire
