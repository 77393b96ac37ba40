// The head of an HTTP/1.1 request (RFC 9112), read strictly: a head that two readers could
// understand differently is refused, so that nobody can smuggle a request past a proxy. Pure; any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/wire/http/http_exchange.h"

namespace quire {

struct Http1Head {
  RequestHead request;  // its path without scheme and authority
  bool is_http11 = true;
  bool keeps_alive = true;
  bool expects_continue = false;  // the body comes once it is asked for
  bool is_chunked = false;
  uint64_t content_length = 0;

  bool has_body() const { return is_chunked || content_length > 0; }
};

// Why a request is refused: an HTTP status and a sentence that says what to change.
struct Http1Error {
  int status;
  std::string sentence;
};

// `text` is the whole head with the empty line that ends it. Returns the error, if there is one.
std::optional<Http1Error> ParseHttp1Head(std::string_view text, Http1Head* head);

// Whether the bytes, which end before the head does, can be the beginning of a head: a client that
// does not speak HTTP shall not wait for a timeout.
bool MayBeHttp1Head(std::string_view beginning);

}  // namespace quire
