// gRPC over HTTP/2 as a client sees it: requests, messages out of bytes, and why a call failed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/wire/client/client_connection.h"

namespace quire {

// A call of "/package.Service/Method" with one message.
ClientRequest GrpcRequest(std::string path, std::string_view message,
                          const std::string& authorization, const HeaderList& more);

// The one message of a unary answer's body; empty if there is none.
std::string_view OnlyMessage(std::string_view body);

// How the call ended; UNAVAILABLE where no gRPC server said it.
absl::Status GrpcStatus(const AnswerEnd& end);

// Cuts a body into messages, wherever it was cut.
class MessageReader {
 public:
  void Add(std::string_view bytes);
  // Whether there is another one; it stays until the next call.
  bool Next(std::string_view* message);
  // A message that is longer than any of ours, or compressed, which was not asked for.
  bool is_broken() const { return is_broken_; }

 private:
  std::string bytes_;  // beginning with what has not been read from begin_ on
  size_t begin_ = 0;
  bool is_broken_ = false;
};

}  // namespace quire
