// ClientConnection: requests on one connection to a server, over HTTP/1.1 or HTTP/2, and their
// answers. Never blocks; the thread of its loop.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "server/wire/http/http_exchange.h"

namespace quire {

struct ClientRequest {
  std::string method = "POST";
  std::string path = {};
  HeaderList headers =
      {};  // names in lower case; the server's name and the body's length are added
  std::string body = {};
};

// How an answer ended.
struct AnswerEnd {
  int http_status = 0;       // 0: there was none
  HeaderList headers = {};   // the answer's, and its trailers
  std::string problem = {};  // why it is not whole; empty: it is

  // The last value, or empty: a trailer wins.
  std::string_view Find(std::string_view name) const {
    for (auto it = headers.rbegin(); it != headers.rend(); ++it) {
      if (it->first == name) return it->second;
    }
    return {};
  }
};

// Gets one answer. Only its own OnEnd may destroy it.
class AnswerSink {
 public:
  virtual ~AnswerSink() = default;
  virtual void OnBody(std::string_view bytes) = 0;
  virtual void OnEnd(const AnswerEnd& end) = 0;  // once, last; never from within Start
};

class ClientConnection {
 public:
  virtual ~ClientConnection() = default;
  // How many more requests it takes now that can be on their way at once; 0 once it is lost.
  virtual int64_t NumFree() const = 0;
  // CHECKs that there is room.
  virtual void Start(const ClientRequest& request, AnswerSink* sink) = 0;
  // The answer is no longer wanted: during this call the sink is told its end, with a problem. Not
  // from within a sink.
  virtual void Cancel(AnswerSink* sink) = 0;
  // Nothing more comes from this connection. It may be destroyed, but not from within a sink.
  virtual bool is_lost() const = 0;
};

}  // namespace quire
