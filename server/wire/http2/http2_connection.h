// Http2Connection: HTTP/2 (RFC 9113) on one connection, by nghttp2, with bounds for everything that
// a client can make the server hold or do: header bytes, streams, frames that serve nobody, time.
// The thread of the connection's loop.
#pragma once

#include <nghttp2/nghttp2.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "server/base/token_bucket.h"
#include "server/wire/http/http_exchange.h"
#include "server/wire/transport/connection_handler.h"

namespace quire {

struct Http2Limits {
  uint32_t max_concurrent_streams = 1024;  // of a connection
  uint32_t stream_window_bytes = 256 << 10;
  uint32_t connection_window_bytes = 1 << 20;
  size_t max_header_bytes = 16 << 10;             // of one request, as RFC 9113 6.5.2 counts
  absl::Duration handshake = absl::Seconds(10);   // preface, SETTINGS both ways, a header block
  absl::Duration request = absl::Seconds(30);     // from its headers to its end
  absl::Duration ping_after = absl::Seconds(60);  // of silence; this finds dead peers
  absl::Duration ping_timeout = absl::Seconds(20);
  // Clients that call in this time after the notice of a shutdown still get an answer.
  absl::Duration shutdown_notice = absl::Milliseconds(100);
};

class Http2Connection final : public ConnectionHandler {
 public:
  Http2Connection(ConnectionControl* control, const Http2Limits& limits,
                  const StartExchange& start_exchange);
  ~Http2Connection() override;

  void OnInput(std::string_view bytes) override;
  void FillOutput(std::string* output, size_t limit) override;
  bool IsDone() const override;
  void BeginShutdown(bool at_once) override;

 private:
  class Stream;
  friend struct Http2Callbacks;

  int OnBeginHeaders(int32_t stream_id);
  int OnHeader(int32_t stream_id, std::string_view name, std::string_view value);
  int OnFrame(const nghttp2_frame& frame);
  void OnFrameSent(const nghttp2_frame& frame);
  void OnData(int32_t stream_id, std::string_view bytes);
  void OnRequestHead(int32_t stream_id);
  void OnStreamClosed(int32_t stream_id);
  Stream* Find(int32_t stream_id);

  static constexpr double kRequestCost = 4;
  void Charge(double frames);
  void EarnDataCredit();
  void ChangeActive(int change);
  bool IsBlocked() const;
  void NoteBlocked();
  bool PayForTable();
  void EndFor(int nghttp2_error);
  void Fail(uint32_t error_code, std::string_view reason);
  void PauseIfWasteful();
  void StartTimer();
  void OnTimer();
  void SayLastWord();
  void EndSlowRequests(absl::Time now);

  ConnectionControl* const control_;
  const Http2Limits limits_;
  const StartExchange& start_exchange_;
  nghttp2_session* session_ = nullptr;
  absl::flat_hash_map<int32_t, std::unique_ptr<Stream>> streams_;
  absl::flat_hash_set<int32_t> incomplete_;  // streams whose request has not ended
  TokenBucket waste_;                        // frames that served nobody
  double credit_ = 0;                        // such frames that answers have paid for
  bool failed_ = false;                      // nothing more is read
  bool is_dead_ = false;                     // nothing more can be sent either
  bool shutting_down_ = false;
  int num_debts_ = 0;                // in a row
  bool gave_way_ = false;            // it ends, whatever its passive streams wait for
  int num_active_ = 0;               // streams whose request is whole, and that are not passive
  bool is_blocked_ = false;          // no window lets out anything for the active streams
  bool cuts_off_ = false;            // it cuts off the active streams when it gives way
  bool has_settings_ = false;        // the client's first
  bool has_taken_settings_ = false;  // it has acknowledged ours
  int64_t paid_for_table_ = 0;       // of the account, for a large HPACK table
  absl::Time header_block_begin_ = absl::InfiniteFuture();
  absl::Time last_input_;
  absl::Time ping_sent_ = absl::InfiniteFuture();
  bool owes_notice_ = false;                        // of a shutdown
  absl::Time notice_end_ = absl::InfiniteFuture();  // the notice's end
  bool said_last_word_ = false;                     // the GOAWAY that names the last call
  EventLoop::TimerId timer_;
  const absl::Time begin_;
};

}  // namespace quire
