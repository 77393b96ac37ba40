// HTTP/2 and gRPC as a connection sees them: whatever the frames, however they are cut, nothing
// stays behind when the connection is gone: no bytes on its account, no call. Input: a byte for the
// cuts, what follows the client's preface.
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "kernels/base/check.h"
#include "server/call/grpc_call.h"
#include "server/call/grpc_protocol.h"
#include "server/wire/http/message_prefix.h"
#include "server/wire/http2/http2_connection.h"
#include "tests/fuzz/target.h"

namespace quire::fuzz {
namespace {

constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

std::string Frame(uint8_t type, uint8_t flags, uint32_t stream, const std::string& payload) {
  std::string frame;
  for (int shift = 16; shift >= 0; shift -= 8)
    frame.push_back(static_cast<char>(payload.size() >> shift));
  frame.push_back(static_cast<char>(type));
  frame.push_back(static_cast<char>(flags));
  for (int shift = 24; shift >= 0; shift -= 8) frame.push_back(static_cast<char>(stream >> shift));
  return frame + payload;
}

// A literal field that enters no table (RFC 7541, 6.2.2).
std::string Field(const std::string& name, const std::string& value) {
  return std::string(1, '\0') + static_cast<char>(name.size()) + name +
         static_cast<char>(value.size()) + value;
}

std::string Head(const std::string& path) {
  return Field(":method", "POST") + Field(":scheme", "http") + Field(":path", path) +
         Field(":authority", "x") + Field("content-type", "application/grpc") +
         Field("te", "trailers");
}

std::string Message(const std::string& text) {
  std::string bytes;
  AppendMessagePrefix(text.size(), &bytes);
  return bytes + text;
}

class Control final : public ConnectionControl {
 public:
  explicit Control(EventLoop* loop) : loop_(loop), budget_(1 << 20), account_(&budget_, "peer") {}
  EventLoop& loop() override { return *loop_; }
  ByteBudget::Account& account() override { return account_; }
  const std::shared_ptr<TimeAccount>& time_account() override { return time_account_; }
  const PeerAddress& peer() const override { return peer_; }
  const std::optional<std::string>& client_name() const override { return client_name_; }
  void RequestWrite() override {}
  void PauseReading(absl::Time) override {}
  void SetIdle(bool) override {}
  int64_t held_bytes() const { return budget_.held_bytes(); }

 private:
  EventLoop* const loop_;
  ByteBudget budget_;
  const PeerAddress peer_;
  const std::optional<std::string> client_name_;
  ByteBudget::Account account_;
  const std::shared_ptr<TimeAccount> time_account_ = std::make_shared<TimeAccount>();
};

// The methods that requests can name, and the loop that all happens on.
class Server {
 public:
  Server() : loop_(*EventLoop::Start("fuzz")) {
    echo_ = {"/echo", [](const GrpcCallRef& call, std::string message) {
               ++num_accepted;
               call->FinishWith(std::move(message));
             }};
    chat_ = {"/chat", [](const GrpcCallRef& call, std::string message) {
               ++num_accepted;
               call->Send(std::move(message), nullptr);
             }};
    chat_.client_streams = true;
    chat_.on_messages_end = [](const GrpcCallRef& call) { call->Finish(absl::OkStatus()); };
  }

  void Try(std::string_view input, size_t step) {
    OnLoop(
        [&] { connection_ = std::make_unique<Http2Connection>(&control_, Http2Limits(), start_); });
    OnLoop([&] { connection_->OnInput(kPreface); });
    for (size_t begin = 0; begin < input.size(); begin += step) {
      OnLoop([&] {
        connection_->OnInput(input.substr(begin, step));
        Drain();
      });
    }
    OnLoop([&] { Drain(); });
    OnLoop([&] { connection_->BeginShutdown(/*at_once=*/false); });
    OnLoop([&] {
      Drain();
      connection_.reset();
    });
    OnLoop([] {});  // what the last calls posted
    CHECK_EQ(control_.held_bytes(), 0) << "bytes stay on the account of a connection that is gone";
    CHECK(live_calls_.WaitUntilNone(absl::InfiniteFuture()));
  }

 private:
  template <typename Work>
  void OnLoop(const Work& work) {
    absl::Notification done;
    loop_->Post([&] {
      work();
      done.Notify();
    });
    done.WaitForNotification();
  }
  void Drain() {
    std::string output;
    while (true) {
      const size_t size = output.size();
      connection_->FillOutput(&output, size + 65536);
      if (output.size() == size) return;
    }
  }

  const std::unique_ptr<EventLoop> loop_;
  Control control_{loop_.get()};
  GrpcMethod echo_, chat_;
  LiveCalls live_calls_;
  const StartExchange start_ = [this](const RequestHead& head,
                                      HttpStream* stream) -> std::shared_ptr<HttpExchange> {
    if (!IsGrpcContentType(head.Find("content-type"))) {
      stream->SendHeaders(415, {}, /*is_all=*/true);
      return nullptr;
    }
    const GrpcMethod& method = head.path == "/chat" ? chat_ : echo_;
    auto call = std::make_shared<GrpcCall>(method, AnonymousPrincipal(PeerAddress()), stream,
                                           CallWatch{&live_calls_});
    call->Begin(head.Find("grpc-timeout"));
    return call;
  };
  std::unique_ptr<Http2Connection> connection_;
};

}  // namespace

std::vector<std::string> Seeds() {
  const std::string settings = Frame(4, 0, 0, "");
  const std::string echo = Frame(1, 4, 1, Head("/echo")) + Frame(0, 1, 1, Message("hello"));
  const std::string chat = Frame(1, 4, 3, Head("/chat")) + Frame(0, 0, 3, Message("one")) +
                           Frame(0, 1, 3, Message("two") + Message(""));
  const std::string zero_window = Frame(4, 0, 0, std::string("\0\4\0\0\0\0", 6));
  return {
      '\x40' + settings + echo + chat,
      '\1' + settings + echo,
      '\x80' + settings + Frame(1, 0, 1, Head("/echo").substr(0, 20)) +
          Frame(9, 4, 1, Head("/echo").substr(20)) + Frame(0, 1, 1, Message("x")),
      '\x20' + zero_window + echo + Frame(8, 0, 1, std::string("\0\0\1\0", 4)) +
          Frame(3, 0, 1, std::string(4, '\0')),
      '\x10' + settings + Frame(6, 0, 0, "12345678") + chat + Frame(7, 0, 0, std::string(8, '\0')),
      '\x7f' + settings + Frame(1, 4, 1, Head("/echo") + Field("grpc-timeout", "5m")) +
          Frame(0, 0, 1, Message("unfinished").substr(0, 9)) +
          Frame(1, 5, 1, Field("x", "trailer")),
  };
}

std::vector<std::string> Dictionary() {
  return {Frame(0, 1, 1, Message("hello")),
          Frame(1, 5, 5, Head("/echo")),
          Frame(3, 0, 1, std::string(4, '\x8')),
          Frame(4, 1, 0, ""),
          Frame(8, 0, 0, std::string("\0\0\1\0", 4)),
          Field("grpc-timeout", "1S"),
          Field("a", "b"),
          std::string("\0\0\0\0\0", 5),
          std::string("\x3f\xe1\x1f", 3)};
}

}  // namespace quire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire::fuzz;  // NOLINT(build/namespaces)
  static auto* server = new Server;
  InputReader input(data, size);
  const size_t step = 1 + input.TakeByte() * size_t{4};
  // A byte at a time is for short inputs.
  server->Try(input.rest(), std::max(step, input.rest().size() / 16 + 1));
  return 0;
}
