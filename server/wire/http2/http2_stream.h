// One stream of an Http2Connection: collects the request's head and carries the exchange's answer
// to nghttp2. Only http2_connection.cc uses it.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "server/wire/http2/http2_connection.h"

namespace quire {

class Http2Connection::Stream final : public HttpStream {
 public:
  Stream(Http2Connection* connection, int32_t id)
      : connection_(connection), id_(id), begin_(connection->control_->loop().now()) {}

  // False when the head is too large.
  bool AddHeader(std::string_view name, std::string_view value, size_t max_bytes);
  // Answers with this HTTP status and forgets the rest.
  void RefuseHead(int http_status);
  void Start(const StartExchange& start_exchange);
  void OnBody(std::string_view bytes);
  void OnBodyEnd();
  void OnTooSlow();
  // The stream is gone.
  void Close();

  const HttpExchange* exchange() const { return exchange_.get(); }
  bool is_refused() const { return is_refused_; }
  bool is_served() const { return is_served_; }
  // True from the end of its request, unless the stream is passive.
  bool is_active() const { return is_active_; }
  size_t head_bytes() const { return head_bytes_; }  // of the request's fields so far
  absl::Time begin() const { return begin_; }

  ConnectionControl& connection() override { return *connection_->control_; }
  void SendHeaders(int http_status, const HeaderList& headers, bool is_all) override;
  void ResumeBody() override;
  void SetTrailers(HeaderList trailers) override { trailers_ = std::move(trailers); }
  void SendTrailersNow() override;
  void Reset(uint32_t error_code) override;
  void CountAsServed() override { is_served_ = true; }
  void CountMessage() override;
  void SetPassive() override;

 private:
  static ssize_t ReadBody(nghttp2_session* session, int32_t stream_id, uint8_t* buffer, size_t size,
                          uint32_t* data_flags, nghttp2_data_source* source, void* user_data);
  ssize_t ReadBody(absl::Span<char> buffer, uint32_t* data_flags);

  Http2Connection* const connection_;
  const int32_t id_;
  const absl::Time begin_;
  RequestHead head_;
  size_t head_bytes_ = 0;
  bool is_refused_ = false;
  bool is_served_ = false;
  bool is_passive_ = false;
  bool is_active_ = false;
  std::shared_ptr<HttpExchange> exchange_;
  HeaderList trailers_;
};

}  // namespace quire
