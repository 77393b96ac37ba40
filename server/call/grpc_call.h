// GrpcCall: one call over gRPC: reads the request's messages off its stream, within bounds, and
// writes the answer's.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "server/call/call.h"

namespace quire {

class GrpcCall;
using GrpcCallRef = std::shared_ptr<GrpcCall>;

// A method of a service. Its functions are called on the connection's loop and must not block.
struct GrpcMethod {
  std::string path;  // "/package.Service/Method"
  // The call's message: the only one, or each of a stream that the client sends.
  std::function<void(const GrpcCallRef& call, std::string message)> on_message;
  bool client_streams = false;
  bool is_passive = false;  // its calls only wait for news: they keep no connection from giving way
  // The client's stream of messages has ended; only for methods with `client_streams`.
  std::function<void(const GrpcCallRef& call)> on_messages_end = nullptr;
};

class GrpcCall final : public Call {
 public:
  // `method` outlives the call.
  GrpcCall(const GrpcMethod& method, std::shared_ptr<const Principal> principal, HttpStream* stream,
           const CallWatch& watch)
      : Call(method.path, std::move(principal), stream, watch), method_(method) {}
  // To be called before anything else, once a pointer holds the call: the deadline begins.
  // `timeout` is the header grpc-timeout, or empty.
  void Begin(absl::string_view timeout);

  // Begins the answer now, before there is a message; any thread.
  void SendHeaders();
  // Ends the call, after `message` if there is one; any thread. Only the first end counts. Parts
  // that were given to Send before an error are lost if they are not read soon.
  void Finish(absl::Status status);
  void Fail(const absl::Status& status) override { Finish(status); }
  void FinishWith(std::string message);

  void OnBody(std::string_view bytes) override;
  void OnBodyEnd() override;
  void OnTooSlow() override;

 private:
  void Write(std::string message, size_t num_held_bytes, std::function<void()> on_sent) override;
  size_t NumHeldBytes(size_t message_bytes) const override;
  void EndWith(const absl::Status& status) override;
  void OnPartRead() override;
  void OnEnd() override;

  void TakePrefix();
  void TakeMessage();
  void HandleMessage();
  void SendHeadersNow();
  void Refuse(const absl::Status& status);

  const GrpcMethod& method_;
  std::string prefix_;  // of the message that is being read
  std::string message_;
  size_t message_bytes_ = 0;   // its length when it is whole
  size_t num_unanswered_ = 0;  // messages of a client's stream that wait for their answer
  bool in_message_ = false;
  bool has_message_ = false;  // a whole one waits for the end of the request
  bool sent_headers_ = false;
};

}  // namespace quire
