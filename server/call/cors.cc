#include "server/call/cors.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace quire {

absl::StatusOr<Cors> Cors::Parse(std::vector<std::string> allowed) {
  for (const std::string& origin : allowed) {
    const size_t host = origin.find("://");
    const bool is_origin = host != std::string::npos && host > 0 && host + 3 < origin.size() &&
                           origin.find_first_of("/*[]\"' ", host + 3) == std::string::npos;
    // An address of IPv6 stands in brackets.
    const bool is_ipv6 = host != std::string::npos && origin.substr(host + 3, 1) == "[" &&
                         origin.find_first_of("/*\"' ", host + 3) == std::string::npos;
    if (origin == "*" || is_origin || is_ipv6) continue;
    return absl::OutOfRangeError(absl::StrCat("--allowed-origins: ", origin,
                                              " is no origin; write https://HOST[:PORT], or *"));
  }
  return Cors(std::move(allowed));
}

bool Cors::allows_all() const {
  return std::find(allowed_.begin(), allowed_.end(), "*") != allowed_.end();
}

bool Cors::Allows(absl::string_view origin) const {
  return allows_all() || std::find(allowed_.begin(), allowed_.end(), origin) != allowed_.end();
}

HeaderList Cors::AnswerHeaders(const RequestHead& head) const {
  if (allowed_.empty()) return {};
  HeaderList headers;
  // So that a cache does not give one page what was for another.
  if (!allows_all()) headers.emplace_back("vary", "origin");
  const absl::string_view origin = head.Find("origin");
  if (origin.empty() || !Allows(origin)) return headers;
  headers.emplace_back("access-control-allow-origin", allows_all() ? "*" : std::string(origin));
  headers.emplace_back("access-control-expose-headers",
                       "x-request-id, retry-after, retry-after-ms");
  return headers;
}

bool Cors::IsQuestion(const RequestHead& head) {
  return head.method == "OPTIONS" && !head.Find("origin").empty() &&
         !head.Find("access-control-request-method").empty();
}

HttpAnswer Cors::AnswerQuestion(const RequestHead& head) const {
  if (!Allows(head.Find("origin"))) {
    return ErrorAnswer(403, "pages of this origin may not call: see --allowed-origins");
  }
  HttpAnswer answer = {.status = 204, .content_type = "", .body = ""};
  const absl::string_view asked = head.Find("access-control-request-headers");
  answer.headers = {
      {"access-control-allow-methods", "GET, POST, DELETE, OPTIONS"},
      {"access-control-allow-headers",
       asked.empty() ? "authorization, content-type" : std::string(asked)},
      {"access-control-max-age", "600"},
  };
  // A public page that calls a server on the reader's own machine asks for this.
  if (head.Find("access-control-request-private-network") == "true") {
    answer.headers.emplace_back("access-control-allow-private-network", "true");
  }
  return answer;
}

}  // namespace quire
