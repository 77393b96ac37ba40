// load_speed: how many streamed messages a second one thread of quire-bench serve takes in, from a
// server on another thread that only writes. A load that comes near this figure measures the
// client.
//   load_speed [--streams 64] [--tokens 2000] [--requests 512]

#include <arpa/inet.h>
#include <netinet/in.h>
#include <nghttp2/nghttp2.h>
#include <sys/socket.h>

#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "kernels/base/check.h"
#include "quire/v1/inference.pb.h"
#include "tools/bench/load/grpc_messages.h"
#include "tools/bench/load/load.h"

namespace quire::bench {

namespace {

struct SpeedFlags {
  int64_t num_streams = 64;
  int64_t num_tokens = 2000;
  int64_t num_requests = 512;
};

std::string GrpcBody(int64_t num_tokens) {
  const auto framed = [](const v1::GenerateResponse& response) {
    return GrpcRequest("/", response.SerializeAsString(), "", {}).body;
  };
  v1::GenerateResponse delta, finished;
  delta.mutable_delta()->set_text(" word");
  delta.mutable_delta()->add_token_ids(1234);
  finished.mutable_finished()->mutable_usage()->set_completion_tokens(num_tokens);
  std::string body;
  for (int64_t i = 0; i < num_tokens; ++i) body += framed(delta);
  return body + framed(finished);
}

// A token a chunk, as an HTTP/1.1 server sends them.
std::string SseAnswer(int64_t num_tokens) {
  const std::string event =
      "data: {\"id\": \"cmpl-0123456789abcdef0123456789abcdef\", \"object\": \"text_completion\", "
      "\"created\": 1700000000, \"model\": \"demo\", \"choices\": [{\"index\": 0, \"text\": \" "
      "word\", \"logprobs\": null, \"finish_reason\": null}]}\n\n";
  std::string answer =
      "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
  const std::string chunk = absl::StrCat(absl::Hex(event.size()), "\r\n", event, "\r\n");
  for (int64_t i = 0; i < num_tokens; ++i) answer += chunk;
  return answer + "0\r\n\r\n";
}

void SendWhole(int fd, const uint8_t* bytes, size_t size) {
  while (size > 0) {
    const ssize_t count = send(fd, bytes, size, MSG_NOSIGNAL);
    if (count <= 0) return;
    bytes += count;
    size -= static_cast<size_t>(count);
  }
}

// Answers each request of one connection of HTTP/1.1 with the same bytes.
void ServeHttp1(int fd, const std::string& answer) {
  std::string bytes;
  char buffer[65536];
  for (;;) {
    const ssize_t count = recv(fd, buffer, sizeof(buffer), 0);
    if (count <= 0) return;
    bytes.append(buffer, static_cast<size_t>(count));
    // Requests of this load end with their JSON's bracket.
    if (bytes.back() != '}') continue;
    bytes.clear();
    SendWhole(fd, reinterpret_cast<const uint8_t*>(answer.data()), answer.size());
  }
}

// The same over HTTP/2: a frame for each message, of all streams in turns, as a server of tokens
// has it.
class Http2Server {
 public:
  Http2Server(int fd, const std::string& body, size_t message_bytes)
      : fd_(fd), body_(body), message_bytes_(message_bytes) {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_frame_recv_callback(
        callbacks, [](nghttp2_session*, const nghttp2_frame* frame, void* self) {
          const bool ends = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
          if (ends) static_cast<Http2Server*>(self)->Answer(frame->hd.stream_id);
          return 0;
        });
    nghttp2_session_server_new(&session_, callbacks, this);
    nghttp2_session_callbacks_del(callbacks);
    const nghttp2_settings_entry many = {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1 << 20};
    nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, &many, 1);
  }
  ~Http2Server() { nghttp2_session_del(session_); }

  void Serve() {
    uint8_t buffer[65536];
    for (;;) {
      const uint8_t* bytes = nullptr;
      ssize_t size = 0;
      while ((size = nghttp2_session_mem_send(session_, &bytes)) > 0) {
        SendWhole(fd_, bytes, static_cast<size_t>(size));
      }
      const ssize_t count = recv(fd_, buffer, sizeof(buffer), 0);
      if (count <= 0 ||
          nghttp2_session_mem_recv(session_, buffer, static_cast<size_t>(count)) < 0) {
        return;
      }
    }
  }

 private:
  void Answer(int32_t id) {
    nghttp2_nv status = Field(":status", "200");
    nghttp2_data_provider provider = {};
    provider.read_callback = [](nghttp2_session* session, int32_t stream, uint8_t* to, size_t room,
                                uint32_t* flags, nghttp2_data_source*, void* self) -> ssize_t {
      auto& server = *static_cast<Http2Server*>(self);
      size_t& begin = server.sent_[stream];
      const size_t count = std::min({room, server.message_bytes_, server.body_.size() - begin});
      std::copy_n(server.body_.data() + begin, count, to);
      begin += count;
      if (begin == server.body_.size()) {
        server.sent_.erase(stream);
        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        nghttp2_nv trailer = Field("grpc-status", "0");
        nghttp2_submit_trailer(session, stream, &trailer, 1);
      }
      return static_cast<ssize_t>(count);
    };
    nghttp2_submit_response(session_, id, &status, 1, &provider);
  }
  static nghttp2_nv Field(const char* name, const char* value) {
    return {reinterpret_cast<uint8_t*>(const_cast<char*>(name)),
            reinterpret_cast<uint8_t*>(const_cast<char*>(value)), strlen(name), strlen(value),
            NGHTTP2_NV_FLAG_NONE};
  }

  const int fd_;
  const std::string& body_;
  const size_t message_bytes_;
  std::map<int32_t, size_t> sent_;
  nghttp2_session* session_ = nullptr;
};

void Measure(const char* name, const SpeedFlags& flags) {
  UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  CHECK_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size);
  listen(listener.get(), 1024);
  const auto backend = MakeLoadBackend(name, {});
  const std::string grpc_body = GrpcBody(flags.num_tokens);
  const std::string sse_answer = SseAnswer(flags.num_tokens);
  const size_t message_bytes = grpc_body.size() / static_cast<size_t>(flags.num_tokens);
  std::deque<std::thread> connections;
  std::thread server([&] {
    for (;;) {
      const int fd = accept(listener.get(), nullptr, nullptr);
      if (fd < 0) return;
      connections.emplace_back([&, fd] {
        const UniqueFd owned(fd);
        if (backend->is_http2()) {
          Http2Server(fd, grpc_body, message_bytes).Serve();
        } else {
          ServeHttp1(fd, sse_answer);
        }
      });
    }
  });
  const auto target = FindServer(absl::StrCat("127.0.0.1:", ntohs(address.sin_port)));
  CHECK(target.ok()) << target.status();
  const std::vector<WorkItem> items(flags.num_requests,
                                    {.prompt = {1, 2, 3}, .output_len = flags.num_tokens});
  const LoadResult result =
      RunLoad(*target, *backend, items, std::vector<double>(items.size(), 0.0),
              {.max_concurrency = flags.num_streams}, nullptr);
  shutdown(listener.get(), SHUT_RDWR);
  server.join();
  for (std::thread& one : connections) one.join();
  int64_t num_messages = 0;
  for (const RequestRecord& record : result.records) {
    CHECK(record.outcome == Outcome::kCompleted) << record.problem;
    num_messages += record.num_tokens;
  }
  const auto count = static_cast<double>(num_messages);
  std::printf(
      "%-12s %9.0f messages/s, %.2f us of the client's thread each: at most %.0f a second\n", name,
      count / result.effort.seconds, 1e6 * result.effort.cpu_seconds / count,
      count / result.effort.cpu_seconds);
}

}  // namespace

int RunLoadSpeed(int argc, char** argv) {
  SpeedFlags flags;
  CLI::App app("How fast a load can be taken in.");
  app.add_option("--streams", flags.num_streams, "At once")->check(CLI::Range(1, 10000));
  app.add_option("--tokens", flags.num_tokens, "Messages of each")->check(CLI::Range(1, 100000));
  app.add_option("--requests", flags.num_requests, "In all")->check(CLI::Range(1, 100000));
  CLI11_PARSE(app, argc, argv);
  for (const char* name : {"quire", "openai"}) Measure(name, flags);
  return 0;
}

}  // namespace quire::bench

int main(int argc, char** argv) { return quire::bench::RunLoadSpeed(argc, argv); }
