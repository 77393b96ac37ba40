// Http1ClientConnection: HTTP/1.1 on one connection, which is kept alive: one request at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "server/wire/client/client_connection.h"
#include "server/wire/client/client_socket.h"
#include "server/wire/http1/chunked_body.h"

namespace quire {

class Http1ClientConnection final : public ClientConnection, private ClientSocket::User {
 public:
  Http1ClientConnection(IoLoop* loop, const ServerAddress& server);

  int64_t NumFree() const override { return is_lost_ || sink_ != nullptr ? 0 : 1; }
  void Start(const ClientRequest& request, AnswerSink* sink) override;
  void Cancel(AnswerSink* sink) override;  // loses the connection: HTTP/1.1 has no other way
  bool is_lost() const override { return is_lost_; }

 private:
  enum class Body : uint8_t { kNone, kLength, kChunked, kUntilClose };

  void OnBytes(std::string_view bytes) override;
  void OnLost(const std::string& why) override;
  void TakeHead(std::string_view* bytes);
  std::string ReadHead(std::string_view head);
  bool TakeBody(std::string_view* bytes);
  void End(const std::string& problem);

  const std::string authority_;
  AnswerSink* sink_ = nullptr;  // of the request that is under way
  AnswerEnd end_;
  bool has_head_ = false;
  std::string head_;  // the bytes of the answer's head so far
  Body body_ = Body::kNone;
  uint64_t num_left_ = 0;  // of a body with a length
  ChunkedBody chunks_;
  bool keeps_alive_ = true;
  bool is_lost_ = false;
  ClientSocket socket_;
};

}  // namespace quire
