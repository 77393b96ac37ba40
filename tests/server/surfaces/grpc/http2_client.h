// A small HTTP/2 client for tests, over one end of a socket pair, or whatever carries its bytes.
// Blocking; one thread.
#pragma once

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/wire/http/message_prefix.h"
#include "server/wire/transport/unique_fd.h"
#include "tests/server/surfaces/grpc/client_pipe.h"

namespace quire::testing {

// The answer that came back on one stream.
struct StreamAnswer {
  std::map<std::string, std::string> headers;  // trailers too
  std::string body;
  bool closed = false;
  uint32_t reset_code = 0;

  std::string Get(const std::string& name) const {
    const auto it = headers.find(name);
    return it == headers.end() ? "" : it->second;
  }
};

class Http2Client {
 public:
  explicit Http2Client(UniqueFd fd, uint32_t window_bytes = 1 << 20)
      : Http2Client(std::make_unique<SocketPipe>(std::move(fd)), window_bytes) {}
  // `window_bytes`: what the server may send on a stream before it is told to go on.
  explicit Http2Client(std::unique_ptr<ClientPipe> pipe, uint32_t window_bytes = 1 << 20)
      : pipe_(std::move(pipe)) {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_header_callback(
        callbacks,
        [](nghttp2_session*, const nghttp2_frame* frame, const uint8_t* name, size_t name_size,
           const uint8_t* value, size_t value_size, uint8_t, void* self) {
          Of(self).answers_[frame->hd.stream_id].headers.insert_or_assign(
              std::string(reinterpret_cast<const char*>(name), name_size),
              std::string(reinterpret_cast<const char*>(value), value_size));
          return 0;
        });
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(
        callbacks,
        [](nghttp2_session*, uint8_t, int32_t id, const uint8_t* data, size_t size, void* self) {
          Of(self).answers_[id].body.append(reinterpret_cast<const char*>(data), size);
          return 0;
        });
    nghttp2_session_callbacks_set_on_stream_close_callback(
        callbacks, [](nghttp2_session*, int32_t id, uint32_t code, void* self) {
          Of(self).answers_[id].closed = true;
          Of(self).answers_[id].reset_code = code;
          return 0;
        });
    nghttp2_session_callbacks_set_on_frame_recv_callback(
        callbacks, [](nghttp2_session*, const nghttp2_frame* frame, void* self) {
          const nghttp2_goaway& goaway = frame->goaway;
          if (frame->hd.type != NGHTTP2_GOAWAY) return 0;
          Of(self).goaways_.push_back(
              {goaway.last_stream_id,
               {reinterpret_cast<const char*>(goaway.opaque_data), goaway.opaque_data_len}});
          return 0;
        });
    nghttp2_option* option = nullptr;
    nghttp2_option_new(&option);
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_session_client_new2(&session_, callbacks, this, option);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    const nghttp2_settings_entry window = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window_bytes};
    nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, &window, 1);
  }
  ~Http2Client() { nghttp2_session_del(session_); }

  using Headers = std::vector<std::pair<std::string, std::string>>;

  // A POST with this body; `ends`: it is all of the request.
  int32_t Request(const std::string& path, std::string body, bool ends = true,
                  const Headers& extra = {}) {
    Headers headers = {{":method", "POST"}, {":scheme", "http"},
                       {":path", path},     {":authority", "test"},
                       {"te", "trailers"},  {"content-type", "application/grpc"}};
    headers.insert(headers.end(), extra.begin(), extra.end());
    std::vector<nghttp2_nv> fields;
    for (auto& [name, value] : headers) {
      fields.push_back({reinterpret_cast<uint8_t*>(name.data()),
                        reinterpret_cast<uint8_t*>(value.data()), name.size(), value.size(),
                        NGHTTP2_NV_FLAG_NONE});
    }
    bodies_.push_back(std::make_unique<Body>(Body{std::move(body), 0, ends}));
    nghttp2_data_provider provider = {};
    provider.source.ptr = bodies_.back().get();
    provider.read_callback = [](nghttp2_session*, int32_t, uint8_t* buffer, size_t size,
                                uint32_t* flags, nghttp2_data_source* source, void*) -> ssize_t {
      auto& from = *static_cast<Body*>(source->ptr);
      const size_t count = std::min(size, from.bytes.size() - from.begin);
      if (count == 0 && !from.ends) return NGHTTP2_ERR_DEFERRED;
      std::copy_n(from.bytes.data() + from.begin, count, buffer);
      from.begin += count;
      if (from.ends && from.begin == from.bytes.size()) *flags |= NGHTTP2_DATA_FLAG_EOF;
      return static_cast<ssize_t>(count);
    };
    return nghttp2_submit_request(session_, nullptr, fields.data(), fields.size(), &provider,
                                  nullptr);
  }
  // One message, framed.
  int32_t Call(const std::string& path, const std::string& message, const Headers& extra = {}) {
    std::string body;
    AppendMessagePrefix(message.size(), &body);
    return Request(path, body + message, true, extra);
  }

  // Lets the server send this much more on the stream.
  void Widen(int32_t id, int32_t bytes) {
    nghttp2_submit_window_update(session_, NGHTTP2_FLAG_NONE, id, bytes);
  }
  void Cancel(int32_t id) {
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
  }

  // Talks until `done`; false when the connection ended before, or nothing came for 20 s.
  template <typename Done>
  bool TalkUntil(const Done& done) {
    while (!done()) {
      SendAll();
      char buffer[65536];
      const ssize_t count = pipe_->Receive(buffer, sizeof(buffer));
      timed_out_ = count < 0 && errno == EAGAIN;
      if (count <= 0) return false;
      if (nghttp2_session_mem_recv(session_, reinterpret_cast<uint8_t*>(buffer),
                                   static_cast<size_t>(count)) < 0) {
        return false;
      }
    }
    SendAll();
    return true;
  }
  // Whether the last talk ended because nothing came.
  bool timed_out() const { return timed_out_; }
  // The whole answer on a stream.
  const StreamAnswer& Wait(int32_t id) {
    TalkUntil([&] { return answers_[id].closed; });
    return answers_[id];
  }
  StreamAnswer& answer(int32_t id) { return answers_[id]; }
  // The last stream that each GOAWAY takes, and why it came.
  using Goaway = std::pair<int32_t, std::string>;
  const std::vector<Goaway>& goaways() const { return goaways_; }
  void SendAll() {
    const uint8_t* bytes = nullptr;
    ssize_t size = 0;
    while ((size = nghttp2_session_mem_send(session_, &bytes)) > 0) {
      pipe_->Send(bytes, static_cast<size_t>(size));
    }
  }

 private:
  struct Body {
    std::string bytes;
    size_t begin;
    bool ends;
  };
  static Http2Client& Of(void* self) { return *static_cast<Http2Client*>(self); }

  const std::unique_ptr<ClientPipe> pipe_;
  bool timed_out_ = false;
  nghttp2_session* session_ = nullptr;
  std::map<int32_t, StreamAnswer> answers_;
  std::vector<Goaway> goaways_;
  std::vector<std::unique_ptr<Body>> bodies_;
};

}  // namespace quire::testing
