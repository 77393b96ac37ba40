// ClientSocket: one connection to a server, in the clear or through TLS. Never blocks; the thread
// of the loop.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "server/wire/client/io_loop.h"
#include "server/wire/client/server_address.h"
#include "server/wire/transport/byte_stream.h"
#include "server/wire/transport/unique_fd.h"

namespace quire {

class ClientSocket final : public IoLoop::Watcher {
 public:
  // The user that speaks over the socket. Neither call may destroy the socket.
  class User {
   public:
    virtual ~User() = default;
    virtual void OnBytes(std::string_view bytes) = 0;
    // Once, last: the connection is lost, or the server has closed it.
    virtual void OnLost(const std::string& why) = 0;
  };

  // Begins to connect to the first of the server's addresses that takes the connection. `server`
  // outlives the socket. `alpn`: the protocol, as TLS names it, "h2" or "http/1.1".
  ClientSocket(IoLoop* loop, const ServerAddress& server, std::string_view alpn, User* user);
  ~ClientSocket() override;

  // Sends after everything that was given before, as soon as that is possible. Dropped when the
  // connection is lost.
  void Send(std::string_view bytes);
  bool is_lost() const { return is_lost_; }

  void OnReady(uint32_t epoll_events) override;

 private:
  bool ConnectToNext();
  bool FinishConnecting();
  void ReadSome();
  void SendPending();
  void UpdateWatch();
  std::string WhyBroken() const;
  void Lose(const std::string& why);

  IoLoop& loop_;
  const ServerAddress& server_;
  const std::string alpn_;
  User& user_;
  UniqueFd fd_;  // watched while it is open
  std::unique_ptr<ByteStream> stream_;
  TlsStream* tls_ = nullptr;  // of the stream; null in the clear
  std::string pending_;       // from pending_begin_ on, output that the system has not taken
  size_t pending_begin_ = 0;
  size_t num_tried_ = 0;  // of the server's addresses
  uint32_t watched_events_ = 0;
  int connect_error_ = 0;  // that was known at once
  bool is_connecting_ = true;
  bool read_wants_write_ = false;  // TLS has to write before it can read on
  bool write_wants_read_ = false;
  bool is_lost_ = false;
};

}  // namespace quire
