// HttpRoute: what the server does for one path, over every version of HTTP. A page that only tells
// something takes one line: TellingRoute("/metrics", Role::kInference, [] { return ...; }).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "server/auth/principal.h"
#include "server/wire/http/http_exchange.h"

namespace quire {

class HttpCall;
using HttpCallRef = std::shared_ptr<HttpCall>;

struct HttpRequest {
  RequestHead head;
  std::string path;   // without the '?' and what follows it
  std::string query;  // what follows the '?'
  std::string rest;   // the part for which the '*' of the route's path stands, decoded
  std::string body;
};

struct HttpAnswer {
  int status = 200;
  std::string content_type = "application/json";
  std::string body = {};
  HeaderList headers = {};  // further ones
};

// The answer for an error, in OpenAI's JSON: its sentence, the field it blames, and when to come
// back.
HttpAnswer ErrorAnswer(const absl::Status& status);
HttpAnswer ErrorAnswer(int http_status, absl::string_view message, absl::string_view code = "");

// The header by which a client can name its request to the operator; nothing for an id that cannot
// be a header.
HeaderList RequestIdHeader(const std::string& id);

// The head of a stream of server-sent events for this request.
HttpAnswer EventStreamHead(const std::string& id);

struct HttpRoute {
  std::string method;  // "GET" answers HEAD, too; "POST" takes only JSON
  std::string path;    // "/v1/models"; "/v1/models/*": every path below
  // Who may call it; nothing: everyone who may ask for the server's health.
  std::optional<Role> role;
  // Called on the connection's loop, and must not block; the call is answered from any thread.
  std::function<void(const HttpCallRef& call, HttpRequest request)> handle;
};

// A page for GET; `tell` is called on the connection's loop and must be quick.
HttpRoute TellingRoute(std::string path, std::optional<Role> role,
                       std::function<HttpAnswer(const HttpRequest& request)> tell);

}  // namespace quire
