// HttpExchange: a protocol's side of one request, over any version of HTTP; HttpStream: what it may
// ask of the connection in return. The thread of the connection's loop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/wire/transport/connection_handler.h"

namespace quire {

using HeaderList = std::vector<std::pair<std::string, std::string>>;  // names in lower case

struct RequestHead {
  std::string method;
  std::string path;    // with the '?' and what follows it
  HeaderList headers;  // the others; of pseudo-headers only :authority, as "host"

  // The first value, or empty.
  absl::string_view Find(std::string_view name) const {
    for (const auto& [key, value] : headers) {
      if (key == name) return value;
    }
    return {};
  }
};

// The connection's side of one request. Ignores everything once the exchange is closed.
class HttpStream {
 public:
  virtual ~HttpStream() = default;
  virtual ConnectionControl& connection() = 0;
  // Begins the answer; `is_all`: without body or trailers.
  virtual void SendHeaders(int http_status, const HeaderList& headers, bool is_all) = 0;
  // The exchange has a body to read (again).
  virtual void ResumeBody() = 0;
  // The trailers that follow the body once ReadBody says that it ends. HTTP/1.1 leaves them out.
  virtual void SetTrailers(HeaderList trailers) = 0;
  // Sends the trailers now, however much of the body is left: they need no room in the client's
  // window.
  virtual void SendTrailersNow() = 0;
  // Ends the stream with an error code of RFC 9113, section 7; over HTTP/1.1, ends the connection.
  virtual void Reset(uint32_t error_code) = 0;
  // The request was worth its cost: it does not count as waste of the client.
  virtual void CountAsServed() = 0;
  // Another message of the request costs as much as a request.
  virtual void CountMessage() = 0;
  // The stream only waits for news: its connection is as good as idle.
  virtual void SetPassive() = 0;
};

class HttpExchange {
 public:
  enum class Body : uint8_t { kMore, kWait, kEnd };

  virtual ~HttpExchange() = default;
  virtual void OnBody(std::string_view bytes) = 0;
  virtual void OnBodyEnd() = 0;
  // Copies the next bytes of the answer's body to `buffer`; kWait with no bytes: not now.
  virtual Body ReadBody(absl::Span<char> buffer, size_t* num_bytes) = 0;
  // The request has not ended in time; the exchange ends itself.
  virtual void OnTooSlow() = 0;
  // The stream is gone, whatever the reason. The last call.
  virtual void OnClosed() = 0;
};

// Begins an exchange on a stream that lives until its OnClosed. Null: the stream has its answer.
using StartExchange =
    std::function<std::shared_ptr<HttpExchange>(RequestHead head, HttpStream* stream)>;

}  // namespace quire
