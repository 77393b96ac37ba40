#include "server/wire/client/http2_client_connection.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "kernels/base/check.h"

namespace quire {

namespace {

constexpr size_t kMaxHeaderBytes = 64 << 10;  // of an answer, trailers included
// What a server may send ahead: no stream waits for the window.
constexpr int32_t kWindowBytes = 1 << 30;
// Before the server has said how many it takes: what RFC 9113 asks of every server.
constexpr uint32_t kStreamsAtFirst = 100;

std::string_view View(const uint8_t* bytes, size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

nghttp2_nv Field(std::string_view name, std::string_view value) {
  return {reinterpret_cast<uint8_t*>(const_cast<char*>(name.data())),
          reinterpret_cast<uint8_t*>(const_cast<char*>(value.data())), name.size(), value.size(),
          NGHTTP2_NV_FLAG_NONE};
}

}  // namespace

nghttp2_session_callbacks* Http2ClientConnection::Callbacks() {
  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_session_callbacks_new(&callbacks);
  nghttp2_session_callbacks_set_on_header_callback(
      callbacks,
      [](nghttp2_session*, const nghttp2_frame* frame, const uint8_t* name, size_t name_size,
         const uint8_t* value, size_t value_size, uint8_t, void* self) {
        auto& client = *static_cast<Http2ClientConnection*>(self);
        const auto it = client.streams_.find(frame->hd.stream_id);
        if (it == client.streams_.end()) return 0;
        it->second->num_header_bytes += name_size + value_size;
        if (it->second->num_header_bytes > kMaxHeaderBytes) {
          it->second->end.problem = "the answer's headers are too long";
          return int{NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE};  // resets the stream
        }
        AnswerEnd& end = it->second->end;
        if (View(name, name_size) == ":status") {
          (void)absl::SimpleAtoi(
              absl::string_view(reinterpret_cast<const char*>(value), value_size),
              &end.http_status);
        } else {
          end.headers.emplace_back(View(name, name_size), View(value, value_size));
        }
        return 0;
      });
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(
      callbacks,
      [](nghttp2_session*, uint8_t, int32_t id, const uint8_t* data, size_t size, void* self) {
        auto& client = *static_cast<Http2ClientConnection*>(self);
        const auto it = client.streams_.find(id);
        if (it != client.streams_.end()) it->second->sink->OnBody(View(data, size));
        return 0;
      });
  nghttp2_session_callbacks_set_on_stream_close_callback(
      callbacks, [](nghttp2_session*, int32_t id, uint32_t code, void* self) {
        static_cast<Http2ClientConnection*>(self)->closed_.emplace_back(id, code);
        return 0;
      });
  nghttp2_session_callbacks_set_on_frame_recv_callback(
      callbacks, [](nghttp2_session*, const nghttp2_frame* frame, void* self) {
        auto& client = *static_cast<Http2ClientConnection*>(self);
        if (frame->hd.type == NGHTTP2_GOAWAY) client.is_going_away_ = true;
        if (frame->hd.type == NGHTTP2_SETTINGS) client.has_settings_ = true;
        return 0;
      });
  return callbacks;
}

Http2ClientConnection::Http2ClientConnection(IoLoop* loop, const ServerAddress& server)
    : authority_(server.authority),
      scheme_(server.tls != nullptr ? "https" : "http"),
      socket_(loop, server, "h2", this) {
  nghttp2_session_callbacks* callbacks = Callbacks();
  CHECK_EQ(nghttp2_session_client_new(&session_, callbacks, this), 0);
  nghttp2_session_callbacks_del(callbacks);
  const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kWindowBytes},
                                             {NGHTTP2_SETTINGS_ENABLE_PUSH, 0}};
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings, std::size(settings));
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, kWindowBytes);
  is_lost_ = socket_.is_lost();
  SendAll();
}

Http2ClientConnection::~Http2ClientConnection() { nghttp2_session_del(session_); }

int64_t Http2ClientConnection::NumFree() const {
  if (is_lost_ || is_going_away_) return 0;
  uint32_t limit =
      nghttp2_session_get_remote_settings(session_, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
  if (!has_settings_) limit = std::min(limit, kStreamsAtFirst);
  return std::max<int64_t>(0, int64_t{limit} - static_cast<int64_t>(streams_.size()));
}

void Http2ClientConnection::Start(const ClientRequest& request, AnswerSink* sink) {
  CHECK_GT(NumFree(), 0);
  std::vector<nghttp2_nv> fields = {Field(":method", request.method), Field(":scheme", scheme_),
                                    Field(":path", request.path), Field(":authority", authority_)};
  for (const auto& [name, value] : request.headers) fields.push_back(Field(name, value));
  auto stream = std::make_unique<Stream>(Stream{.sink = sink, .body = request.body});
  nghttp2_data_provider provider = {};
  provider.source.ptr = stream.get();
  provider.read_callback = ReadBody;
  const int32_t id = nghttp2_submit_request(session_, nullptr, fields.data(), fields.size(),
                                            request.body.empty() ? nullptr : &provider, nullptr);
  CHECK_GT(id, 0) << nghttp2_strerror(id);
  streams_.emplace(id, std::move(stream));
  SendAll();
}

ssize_t Http2ClientConnection::ReadBody(nghttp2_session*, int32_t, uint8_t* buffer, size_t size,
                                        uint32_t* flags, nghttp2_data_source* source, void*) {
  auto& stream = *static_cast<Stream*>(source->ptr);
  const size_t count = std::min(size, stream.body.size() - stream.num_sent);
  std::copy_n(stream.body.data() + stream.num_sent, count, buffer);
  stream.num_sent += count;
  if (stream.num_sent == stream.body.size()) *flags |= NGHTTP2_DATA_FLAG_EOF;
  return static_cast<ssize_t>(count);
}

void Http2ClientConnection::Cancel(AnswerSink* sink) {
  for (auto& [id, stream] : streams_) {
    if (stream->sink != sink) continue;
    const int32_t cancelled = id;
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, cancelled, NGHTTP2_CANCEL);
    SendAll();  // closes the stream: nothing more is read into it
    End(cancelled, "cancelled");
    return;
  }
}

void Http2ClientConnection::OnBytes(std::string_view bytes) {
  if (is_lost_) return;
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  const ssize_t result = nghttp2_session_mem_recv(session_, data, bytes.size());
  SendAll();
  EndClosed();
  if (result < 0) {
    OnLost(absl::StrCat("this is not HTTP/2: ", nghttp2_strerror(static_cast<int>(result))));
  } else if (nghttp2_session_want_read(session_) == 0 &&
             nghttp2_session_want_write(session_) == 0) {
    // nghttp2 has ended the session over what it read, or the last answer before a GOAWAY is there.
    OnLost(has_settings_ ? "the server broke the rules of HTTP/2" : "this is not HTTP/2");
  }
}

void Http2ClientConnection::EndClosed() {
  const auto closed = std::exchange(closed_, {});
  for (const auto& [id, code] : closed) {
    End(id, code == NGHTTP2_NO_ERROR
                ? ""
                : absl::StrCat("the server ended the stream: ", nghttp2_http2_strerror(code)));
  }
}

void Http2ClientConnection::End(int32_t id, const std::string& problem) {
  const auto it = streams_.find(id);
  if (it == streams_.end()) return;
  const std::unique_ptr<Stream> stream = std::move(it->second);
  streams_.erase(it);
  if (stream->end.problem.empty()) stream->end.problem = problem;
  stream->sink->OnEnd(stream->end);
}

void Http2ClientConnection::OnLost(const std::string& why) {
  is_lost_ = true;
  while (!streams_.empty()) End(streams_.begin()->first, why);
}

void Http2ClientConnection::SendAll() {
  const uint8_t* bytes = nullptr;
  ssize_t size = 0;
  std::string out;
  while ((size = nghttp2_session_mem_send(session_, &bytes)) > 0) out.append(View(bytes, size));
  if (!out.empty()) socket_.Send(out);
}

}  // namespace quire
