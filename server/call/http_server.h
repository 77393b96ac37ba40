// HttpServer: the routes over any version of HTTP. It lets callers in, finds the route of a
// request, and begins its call. By itself it only answers with errors in OpenAI's JSON, and answers
// the questions that browsers ask before they call (CORS). Any thread, except where said.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/auth/gate.h"
#include "server/call/cors.h"
#include "server/call/http_call.h"
#include "server/call/http_route.h"
#include "server/call/live_calls.h"
#include "server/observe/log/access_log.h"
#include "server/observe/log/recent_requests.h"
#include "server/wire/http/http_exchange.h"

namespace quire {

class HttpServer {
 public:
  // The pointers behind the routes may be null.
  HttpServer(const Gate* gate, Cors cors, std::vector<HttpRoute> routes, AccessLog* access_log,
             ServerMetrics* metrics, RecentRequests* recent_requests,
             absl::Duration ping_interval = absl::ZeroDuration());

  // A StartExchange, on the loop of the stream's connection.
  std::shared_ptr<HttpExchange> Start(RequestHead head, HttpStream* stream);

  // Waits until every client has the end of its calls; false when the deadline came first.
  bool FinishCalls(absl::Time deadline) { return live_calls_.WaitUntilNone(deadline); }

 private:
  struct Match {
    const HttpRoute* route = nullptr;
    std::string rest;
    std::string allowed;  // the methods of the path; empty: there is no such path
  };

  Match Find(const std::string& method, const std::string& path) const;
  // A sentence that names the path that was likely meant.
  std::string NoSuchPath(const std::string& method, const std::string& path) const;
  std::shared_ptr<HttpCall> Refuse(HttpAnswer answer, HttpRequest request,
                                   std::shared_ptr<const Principal> principal, HttpStream* stream);
  std::shared_ptr<HttpCall> AnswerOptions(HttpRequest request, HttpStream* stream);

  const Gate& gate_;
  const Cors cors_;
  LiveCalls live_calls_;
  const CallWatch watch_;
  std::vector<HttpRoute> routes_;
  absl::flat_hash_map<std::string, std::vector<const HttpRoute*>> by_path_;
  std::vector<std::string> folders_;  // "/v1/models/" of "/v1/models/*"; the longest first
};

}  // namespace quire
