#include "server/wire/http2/http2_callbacks.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "kernels/base/check.h"
#include "server/wire/http2/http2_connection.h"

namespace quire {

// Has access to the connection's private parts on behalf of the functions below.
struct Http2Callbacks {
  static Http2Connection& Of(void* user_data) { return *static_cast<Http2Connection*>(user_data); }

  static int OnBeginHeaders(nghttp2_session*, const nghttp2_frame* frame, void* user_data) {
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
    return Of(user_data).OnBeginHeaders(frame->hd.stream_id);
  }

  static int OnHeader(nghttp2_session*, const nghttp2_frame* frame, const uint8_t* name,
                      size_t name_size, const uint8_t* value, size_t value_size, uint8_t,
                      void* user_data) {
    return Of(user_data).OnHeader(frame->hd.stream_id,
                                  {reinterpret_cast<const char*>(name), name_size},
                                  {reinterpret_cast<const char*>(value), value_size});
  }

  // RFC 9113, 8.2.1: a request with such a field is malformed; nghttp2 would drop only the field.
  static int OnInvalidHeader(nghttp2_session*, const nghttp2_frame*, const uint8_t*, size_t,
                             const uint8_t*, size_t, uint8_t, void*) {
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  }

  static int OnFrame(nghttp2_session*, const nghttp2_frame* frame, void* user_data) {
    return Of(user_data).OnFrame(*frame);
  }

  static int OnFrameSent(nghttp2_session*, const nghttp2_frame* frame, void* user_data) {
    Of(user_data).OnFrameSent(*frame);
    return 0;
  }

  static int OnData(nghttp2_session*, uint8_t, int32_t stream_id, const uint8_t* bytes, size_t size,
                    void* user_data) {
    Of(user_data).OnData(stream_id, {reinterpret_cast<const char*>(bytes), size});
    return 0;
  }

  static int OnStreamClose(nghttp2_session*, int32_t stream_id, uint32_t, void* user_data) {
    Of(user_data).OnStreamClosed(stream_id);
    return 0;
  }

  static int OnInvalidFrame(nghttp2_session*, const nghttp2_frame*, int, void* user_data) {
    Of(user_data).Charge(1);
    return 0;
  }
};

namespace {

// A session has a buffer for the longest frame that it may send, 16 KiB, of which most sessions
// write only the beginning. In memory that is used again its pages would be there from the start.
void* AllocateLazily(void* old, size_t size, void*) {
  constexpr size_t kFewPages = size_t{16} << 10;
  void* memory = std::realloc(old, size);
  if (old != nullptr || memory == nullptr || size < kFewPages) return memory;
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  const size_t before = (page - begin % page) % page, after = (begin + size) % page;
  madvise(static_cast<char*>(memory) + before, size - before - after, MADV_DONTNEED);
  return memory;
}

nghttp2_mem LazyMemory() {
  return {.mem_user_data = nullptr,
          .malloc = [](size_t size, void*) { return std::malloc(size); },
          .free = [](void* memory, void*) { std::free(memory); },
          .calloc = [](size_t count, size_t size, void*) { return std::calloc(count, size); },
          .realloc = AllocateLazily};
}

}  // namespace

nghttp2_session* NewServerSession(Http2Connection* connection) {
  nghttp2_session_callbacks* callbacks = nullptr;
  CHECK_EQ(nghttp2_session_callbacks_new(&callbacks), 0) << "out of memory";
  nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks,
                                                          Http2Callbacks::OnBeginHeaders);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, Http2Callbacks::OnHeader);
  nghttp2_session_callbacks_set_on_invalid_header_callback(callbacks,
                                                           Http2Callbacks::OnInvalidHeader);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, Http2Callbacks::OnFrame);
  nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, Http2Callbacks::OnFrameSent);
  nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks,
                                                               Http2Callbacks::OnInvalidFrame);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, Http2Callbacks::OnData);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, Http2Callbacks::OnStreamClose);

  nghttp2_option* option = nullptr;
  CHECK_EQ(nghttp2_option_new(&option), 0) << "out of memory";
  nghttp2_option_set_no_auto_window_update(option, 1);
  nghttp2_option_set_no_closed_streams(option, 1);
  nghttp2_option_set_max_outbound_ack(option, 1'000);
  nghttp2_option_set_max_settings(option, 32);
  nghttp2_option_set_max_continuations(option, 8);
  // The rate that hurts is bounded by Http2Connection's own account; this is for what it misses.
  nghttp2_option_set_stream_reset_rate_limit(option, 10'000, 1'000);
  nghttp2_session* session = nullptr;
  nghttp2_mem memory = LazyMemory();
  CHECK_EQ(nghttp2_session_server_new3(&session, callbacks, connection, option, &memory), 0)
      << "out of memory";
  nghttp2_option_del(option);
  nghttp2_session_callbacks_del(callbacks);
  return session;
}

}  // namespace quire
