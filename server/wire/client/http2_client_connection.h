// Http2ClientConnection: HTTP/2 with prior knowledge (or ALPN) on one connection, by nghttp2: as
// many requests at once as the server allows.
#pragma once

#include <nghttp2/nghttp2.h>

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "server/wire/client/client_connection.h"
#include "server/wire/client/client_socket.h"

namespace quire {

class Http2ClientConnection final : public ClientConnection, private ClientSocket::User {
 public:
  Http2ClientConnection(IoLoop* loop, const ServerAddress& server);
  ~Http2ClientConnection() override;

  int64_t NumFree() const override;
  void Start(const ClientRequest& request, AnswerSink* sink) override;
  void Cancel(AnswerSink* sink) override;
  bool is_lost() const override { return is_lost_; }

 private:
  struct Stream {
    AnswerSink* sink;
    std::string body;  // of the request
    size_t num_sent = 0;
    size_t num_header_bytes = 0;  // of the answer
    AnswerEnd end = {};
  };

  void OnBytes(std::string_view bytes) override;
  void OnLost(const std::string& why) override;
  static nghttp2_session_callbacks* Callbacks();
  static ssize_t ReadBody(nghttp2_session* session, int32_t id, uint8_t* buffer, size_t size,
                          uint32_t* flags, nghttp2_data_source* source, void* self);
  void SendAll();
  void End(int32_t id, const std::string& problem);
  void EndClosed();

  const std::string authority_;
  const std::string scheme_;
  nghttp2_session* session_ = nullptr;
  std::unordered_map<int32_t, std::unique_ptr<Stream>> streams_;
  // Streams that nghttp2 has closed while it read, with their error codes: sinks hear it
  // afterwards.
  std::vector<std::pair<int32_t, uint32_t>> closed_;
  bool has_settings_ = false;  // the server has said how many streams it takes
  bool is_lost_ = false;
  bool is_going_away_ = false;  // the server takes nothing new
  ClientSocket socket_;
};

}  // namespace quire
