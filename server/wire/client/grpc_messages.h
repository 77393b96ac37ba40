// gRPC over HTTP/2 as a client sees it: makes requests, cuts bytes into messages, and says why a
// call failed.
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

// How the call ended; UNAVAILABLE if no gRPC server said it.
absl::Status GrpcStatus(const AnswerEnd& end);

// Cuts a body into messages, for any cuts of the body.
class MessageReader {
 public:
  void Add(std::string_view bytes);
  // Whether there is another one; it stays until the next call.
  bool Next(std::string_view* message);
  // A message that is longer than any of ours, or compressed, which was not asked for.
  bool is_broken() const { return is_broken_; }

 private:
  std::string bytes_;  // the bytes from begin_ on are not read yet
  size_t begin_ = 0;
  bool is_broken_ = false;
};

}  // namespace quire
