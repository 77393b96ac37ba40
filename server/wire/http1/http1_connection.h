// Http1Connection: HTTP/1.1 (RFC 9112) on one connection: one request at a time; requests that were
// sent ahead wait within bounds. Its demands on clients, and the bytes that it keeps of them, have
// the same kinds of bounds as on HTTP/2. The thread of the connection's loop.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "server/base/token_bucket.h"
#include "server/wire/http/http_exchange.h"
#include "server/wire/http1/chunked_body.h"
#include "server/wire/http1/http1_head.h"
#include "server/wire/transport/connection_handler.h"

namespace quire {

struct Http1Limits {
  size_t max_header_bytes = size_t{16} << 10;
  // Input that was sent ahead of the answer that is under way. One buffer of reading may come on
  // top.
  size_t max_waiting_bytes = size_t{64} << 10;
  // The part of a refused request's body that is read and dropped, so that the connection can go
  // on.
  size_t max_dropped_bytes = size_t{64} << 10;
  absl::Duration dropped = absl::Seconds(1);   // from the refusal to that body's end
  absl::Duration header = absl::Seconds(10);   // from a head's first byte to its last
  absl::Duration request = absl::Seconds(30);  // from the head to the body's end
  // Longer than clients and proxies keep their connections (Go 90 s, others 120 s), so that they
  // end connections and no request meets the end.
  absl::Duration idle = absl::Seconds(125);
  // Requests that come in this time after the end of the server was decided still get an answer.
  absl::Duration shutdown_notice = absl::Milliseconds(100);
};

class Http1Connection final : public ConnectionHandler, private HttpStream {
 public:
  Http1Connection(ConnectionControl* control, const Http1Limits& limits,
                  const StartExchange& start_exchange);
  ~Http1Connection() override;

  void OnInput(std::string_view bytes) override;
  void FillOutput(std::string* output, size_t limit) override;
  bool IsDone() const override { return is_done_; }
  void BeginShutdown(bool at_once) override;

 private:
  struct Request;
  enum class Reading : uint8_t {
    kHead,     // of the next request, if one comes
    kBody,     // of the request; once it has its answer, of no request
    kWaiting,  // for the end of the answer
    kNothing,  // any more
  };

  ConnectionControl& connection() override { return *control_; }
  void SendHeaders(int http_status, const HeaderList& headers, bool is_all) override;
  void ResumeBody() override { control_->RequestWrite(); }
  void SetTrailers(HeaderList) override {}
  void SendTrailersNow() override { Reset(0); }
  void Reset(uint32_t error_code) override;
  void CountAsServed() override;
  void CountMessage() override;
  void SetPassive() override;

  size_t Take(std::string_view bytes);
  std::optional<std::string_view> TakeHead(std::string_view* bytes);
  void BeginRequest(std::string_view text);
  bool TakeBody(std::string_view* bytes);
  void TakePiece(std::string_view piece);
  void EndBody();
  bool Keep(std::string_view bytes);
  void TakeKept();
  void PauseForAnswer();
  void GoOnReading();

  void Refuse(const Http1Error& error);
  void BeginAnswer(std::string* output);
  bool AddBody(std::string* output, size_t limit);
  void EndAnswer();
  void EndRequest();
  void DropRequest();

  void PauseIfWasteful();
  void SetDeadline(absl::Time deadline);
  void OnDeadline();
  void CloseWhenSent();

  ConnectionControl* const control_;
  const Http1Limits& limits_;
  const StartExchange& start_exchange_;
  Reading reading_ = Reading::kHead;
  std::string kept_;          // input that is not taken yet
  size_t scanned_bytes_ = 0;  // bytes of kept_ in which no head ends
  std::unique_ptr<Request> request_;
  std::string output_;   // goes before the rest: 100 Continue, a refusal
  bool closes_ = false;  // after the answer
  bool is_done_ = false;
  bool is_reset_ = false;  // ends after the output that is sent already
  bool shutting_down_ = false;
  bool waits_to_read_ = false;  // for the end of an answer
  TokenBucket waste_;           // requests that served nobody
  int num_debts_ = 0;           // in a row
  absl::Time head_begin_ = absl::InfiniteFuture();
  absl::Time deadline_ = absl::InfiniteFuture();
  EventLoop::TimerId timer_;  // at the deadline or before it
  bool has_timer_ = false;
  EventLoop::TimerId next_timer_;  // to take the input in kept_
  bool has_next_timer_ = false;
};

}  // namespace quire
