// The head of an HTTP/1.1 answer, and whole answers to input that is not a request. Pure; any
// thread.
#pragma once

#include <string>

#include "absl/time/time.h"
#include "server/wire/http/http_exchange.h"
#include "server/wire/http1/http1_head.h"

namespace quire {

struct Http1AnswerHead {
  int status;
  const HeaderList* headers;
  bool is_chunked = false;
  bool is_empty = false;  // says so by its length
  bool closes = false;
  bool says_keep_alive = false;
};
void AppendAnswerHead(const Http1AnswerHead& head, absl::Time now, std::string* out);

// Closes the connection. `is_head`: without its body.
std::string Http1Refusal(const Http1Error& error, bool is_head);

}  // namespace quire
