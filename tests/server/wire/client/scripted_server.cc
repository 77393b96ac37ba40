#include "tests/server/wire/client/scripted_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <utility>

#include "kernels/base/check.h"

namespace quire {

namespace {

SocketAddress Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  SocketAddress result;
  std::memcpy(&result.address, &address, sizeof(address));
  result.size = sizeof(address);
  return result;
}

// A socket of this machine and its port.
std::pair<UniqueFd, int> BoundSocket() {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const SocketAddress any = Loopback(0);
  CHECK_EQ(bind(fd.get(), reinterpret_cast<const sockaddr*>(&any.address), any.size), 0);
  sockaddr_in address = {};
  socklen_t size = sizeof(address);
  getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return {std::move(fd), ntohs(address.sin_port)};
}

struct FreeSsl {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};

}  // namespace

ScriptedServer::ScriptedServer(Answer answer, const PemTexts& tls) : answer_(std::move(answer)) {
  if (!tls.certificate.empty()) tls_ = *MakeServerContext(tls);
  std::tie(listener_, port_) = BoundSocket();
  CHECK_EQ(listen(listener_.get(), 8), 0);
  thread_ = std::thread([this] { Serve(); });
}

ScriptedServer::~ScriptedServer() {
  shutdown(listener_.get(), SHUT_RDWR);
  thread_.join();
}

ServerAddress ScriptedServer::Address(const std::string& host) const {
  return {.authority = HostPort{.host = host, .port = port_}.ToString(),
          .host = host,
          .addresses = {Loopback(port_)}};
}

void ScriptedServer::Serve() {
  for (;;) {
    const UniqueFd fd(accept(listener_.get(), nullptr, nullptr));
    if (!fd.valid()) return;
    ServeOne(fd.get());
  }
}

void ScriptedServer::ServeOne(int fd) {
  std::string bytes(64 << 10, '\0');
  if (tls_ == nullptr) {
    const ssize_t count = recv(fd, bytes.data(), bytes.size(), 0);
    if (count <= 0) return;
    const std::string text = answer_(bytes.substr(0, static_cast<size_t>(count)));
    send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    while (recv(fd, bytes.data(), bytes.size(), 0) > 0) {
    }
    return;
  }
  const std::unique_ptr<SSL, FreeSsl> ssl(SSL_new(tls_.get()));
  SSL_set_fd(ssl.get(), fd);
  if (SSL_accept(ssl.get()) != 1) return;
  const int count = SSL_read(ssl.get(), bytes.data(), static_cast<int>(bytes.size()));
  if (count <= 0) return;
  const std::string text = answer_(bytes.substr(0, static_cast<size_t>(count)));
  SSL_write(ssl.get(), text.data(), static_cast<int>(text.size()));
  while (SSL_read(ssl.get(), bytes.data(), static_cast<int>(bytes.size())) > 0) {
  }
}

std::string Http2Frame(FrameType type, const std::string& payload) {
  constexpr char kEndHeaders = 4;
  const std::string head = {0,
                            static_cast<char>(payload.size() >> 8),
                            static_cast<char>(payload.size()),
                            static_cast<char>(type),
                            type == FrameType::kHeaders ? kEndHeaders : char{0},
                            0,
                            0,
                            0,
                            type == FrameType::kSettings ? char{0} : char{1}};
  return head + payload;
}

SocketAddress NobodysAddress() { return Loopback(BoundSocket().second); }

}  // namespace quire
