#include "server/call/http_server.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/call/shown_credentials.h"
#include "server/request/field_error.h"
#include "server/request/limits.h"
#include "server/request/retry_pushback.h"
#include "server/wire/http/http_error.h"

namespace quire {

namespace {

// Whether a browser that asks for `host`, "localhost:8000", can only mean an address by it. A name
// in somebody else's domain may have been made to mean this machine after the browser had loaded a
// page from there (DNS rebinding). That page then has the same origin as ours.
bool IsAddress(absl::string_view host) {
  if (host.empty() || absl::StartsWith(host, "[")) return true;  // no browser's, IPv6
  host = host.substr(0, host.find(':'));
  // "localhost." is the same name, and "example.com." as little ours as without the dot.
  absl::ConsumeSuffix(&host, ".");
  if (absl::EqualsIgnoreCase(host, "localhost") || absl::EndsWithIgnoreCase(host, ".localhost")) {
    return true;
  }
  const size_t last_dot = host.rfind('.');
  const absl::string_view last = last_dot == host.npos ? host : host.substr(last_dot + 1);
  // No domain ends with a number.
  return !last.empty() &&
         std::all_of(last.begin(), last.end(), [](char c) { return absl::ascii_isdigit(c); });
}

// A page of somebody else's in a browser, which may run on this machine itself.
bool IsForeignPage(const RequestHead& head) {
  const absl::string_view origin = head.Find("origin");
  if (origin.empty()) return false;
  const size_t host = origin.find("://");
  return host == absl::string_view::npos || origin.substr(host + 3) != head.Find("host");
}

// A client that administers without a key may do so because it calls from this machine. Every page
// in a browser of this machine also calls from there. Returns 200, or the refusal.
HttpAnswer CheckOwnPage(const RequestHead& head) {
  if (IsForeignPage(head)) return ErrorAnswer(403, "pages of other origins need a key for this");
  if (IsAddress(head.Find("host"))) return {};
  return ErrorAnswer(403, absl::StrCat("without keys this is for http://localhost and addresses, "
                                       "not for the host ",
                                       head.Find("host"), ", which may be anybody's name"));
}

bool IsJson(absl::string_view content_type) {
  const absl::string_view type =
      absl::StripAsciiWhitespace(content_type.substr(0, content_type.find(';')));
  return absl::EqualsIgnoreCase(type, "application/json");
}

// "%2F" -> "/"; what is no such code stays.
std::string DecodePercent(absl::string_view text) {
  const auto is_digit = [&](size_t i) {
    return i < text.size() && absl::ascii_isxdigit(static_cast<unsigned char>(text[i]));
  };
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && is_digit(i + 1) && is_digit(i + 2)) {
      decoded += absl::HexStringToBytes(text.substr(i + 1, 2));
      i += 2;
    } else {
      decoded.push_back(text[i]);
    }
  }
  return decoded;
}

}  // namespace

HttpAnswer ErrorAnswer(int http_status, absl::string_view message, absl::string_view code) {
  return {.status = http_status, .body = HttpErrorBody(http_status, message, "", code)};
}

HttpAnswer ErrorAnswer(const absl::Status& status) {
  const int http_status = HttpStatusOf(status.code());
  const std::string field = FieldOf(status);
  const std::string sentence =
      field.empty() ? std::string(status.message()) : absl::StrCat(field, ": ", status.message());
  HttpAnswer answer = {.status = http_status,
                       .body = HttpErrorBody(http_status, sentence, field, ErrorCodeOf(status))};
  if (const auto pushback_ms = RetryPushbackMs(status)) {
    answer.headers.emplace_back("retry-after", absl::StrCat((*pushback_ms + 999) / 1000));
    answer.headers.emplace_back("retry-after-ms", absl::StrCat(*pushback_ms));
  } else if (http_status == 503 || http_status == 429) {
    answer.headers.emplace_back("retry-after", "1");
  }
  if (http_status == 401) answer.headers.emplace_back("www-authenticate", "Bearer");
  return answer;
}

HeaderList RequestIdHeader(const std::string& id) {
  const bool is_visible = std::all_of(id.begin(), id.end(), absl::ascii_isgraph);
  if (id.empty() || !is_visible) return {};
  return {{"x-request-id", id}};
}

HttpAnswer EventStreamHead(const std::string& id) {
  HttpAnswer head = {.content_type = "text/event-stream; charset=utf-8",
                     .headers = RequestIdHeader(id)};
  head.headers.insert(head.headers.end(),
                      {{"cache-control", "no-cache"}, {"x-accel-buffering", "no"}});
  return head;
}

HttpRoute TellingRoute(std::string path, std::optional<Role> role,
                       std::function<HttpAnswer(const HttpRequest& request)> tell) {
  return {"GET", std::move(path), role,
          [tell = std::move(tell)](const HttpCallRef& call, const HttpRequest& request) {
            call->AnswerNow(tell(request));
          }};
}

HttpServer::HttpServer(const Gate* gate, Cors cors, std::vector<HttpRoute> routes,
                       AccessLog* access_log, ServerMetrics* metrics,
                       RecentRequests* recent_requests, absl::Duration ping_interval)
    : gate_(*gate),
      cors_(std::move(cors)),
      watch_{&live_calls_, access_log, metrics, recent_requests, ping_interval},
      routes_(std::move(routes)) {
  for (const HttpRoute& route : routes_) by_path_[route.path].push_back(&route);
  for (const auto& [path, of_path] : by_path_) {
    if (absl::EndsWith(path, "/*")) folders_.push_back(path.substr(0, path.size() - 1));
  }
  std::sort(folders_.begin(), folders_.end(),
            [](const auto& a, const auto& b) { return a.size() > b.size(); });
}

HttpServer::Match HttpServer::Find(const std::string& method, const std::string& path) const {
  Match match;
  auto found = by_path_.find(path);
  if (found == by_path_.end() && !absl::EndsWith(path, "/")) {
    // The routes are asked, which are few, and not the path, which may be all slashes.
    for (const std::string& folder : folders_) {
      if (!absl::StartsWith(path, folder)) continue;
      found = by_path_.find(absl::StrCat(folder, "*"));
      match.rest = DecodePercent(path.substr(folder.size()));
      break;
    }
  }
  if (found == by_path_.end()) return match;
  for (const HttpRoute* route : found->second) {
    const bool is_get = route->method == "GET";
    if (route->method == method || (is_get && method == "HEAD")) match.route = route;
    absl::StrAppend(&match.allowed, match.allowed.empty() ? "" : ", ", route->method,
                    is_get ? ", HEAD" : "");
  }
  absl::StrAppend(&match.allowed, ", OPTIONS");
  return match;
}

std::string HttpServer::NoSuchPath(const std::string& method, const std::string& path) const {
  std::string said = absl::StrCat("this server has no ", path);
  // OpenAI's paths begin with /v1, which is part of some clients' base URL and not of others'.
  const std::string likely =
      absl::StartsWith(path, "/v1/v1/") ? path.substr(3) : absl::StrCat("/v1", path);
  if (Find(method, likely).allowed.empty()) return said;
  return absl::StrCat(said, "; did you mean ", likely, "?");
}

std::shared_ptr<HttpExchange> HttpServer::Start(RequestHead head, HttpStream* stream) {
  HttpRequest request;
  const size_t path_end = std::min(head.path.find('?'), head.path.size());
  request.path = head.path.substr(0, path_end);
  if (path_end < head.path.size()) request.query = head.path.substr(path_end + 1);
  request.head = std::move(head);
  if (request.head.method == "OPTIONS") return AnswerOptions(std::move(request), stream);
  Match match = Find(request.head.method, request.path);
  const bool is_open = match.route != nullptr && !match.route->role.has_value();
  const auto principal =
      match.route == nullptr
          ? gate_.authenticator().Authenticate(ShownCredentials(request.head, *stream))
          : gate_.AdmitTo(request.path, match.route->role, ShownCredentials(request.head, *stream));
  if (!principal.ok() && !absl::IsUnimplemented(principal.status())) {
    return Refuse(ErrorAnswer(principal.status()), std::move(request), nullptr, stream);
  }
  if (!principal.ok() || match.allowed.empty()) {
    HttpAnswer answer =
        ErrorAnswer(404, NoSuchPath(request.head.method, request.path), "unknown_url");
    return Refuse(std::move(answer), std::move(request), principal.value_or(nullptr), stream);
  }
  if (match.route == nullptr) {
    HttpAnswer answer =
        ErrorAnswer(405, absl::StrCat("allowed here are ", match.allowed), "method_not_supported");
    answer.headers.emplace_back("allow", match.allowed);
    return Refuse(std::move(answer), std::move(request), *principal, stream);
  }
  if (!is_open && *match.route->role == Role::kAdmin && !gate_.authenticator().is_closed()) {
    if (HttpAnswer answer = CheckOwnPage(request.head); answer.status != 200) {
      return Refuse(std::move(answer), std::move(request), *principal, stream);
    }
  }
  if (match.route->method == "POST") {
    if (!IsJson(request.head.Find("content-type")) ||
        !request.head.Find("content-encoding").empty()) {
      return Refuse(ErrorAnswer(415, "send JSON, not compressed, as content-type application/json"),
                    std::move(request), *principal, stream);
    }
    uint64_t length = 0;
    if (absl::SimpleAtoi(request.head.Find("content-length"), &length) &&
        length > kMaxRequestBytes) {
      return Refuse(ErrorAnswer(413, absl::StrCat("the body has ", length, " bytes; at most ",
                                                  kMaxRequestBytes, " are taken")),
                    std::move(request), *principal, stream);
    }
  }
  request.rest = std::move(match.rest);
  HeaderList headers = cors_.AnswerHeaders(request.head);
  return std::make_shared<HttpCall>(match.route, std::move(request), *principal, std::move(headers),
                                    stream, watch_);
}

std::shared_ptr<HttpCall> HttpServer::Refuse(HttpAnswer answer, HttpRequest request,
                                             std::shared_ptr<const Principal> principal,
                                             HttpStream* stream) {
  HeaderList headers = cors_.AnswerHeaders(request.head);
  auto call = std::make_shared<HttpCall>(nullptr, std::move(request), std::move(principal),
                                         std::move(headers), stream, watch_);
  call->AnswerNow(std::move(answer));
  return call;
}

// Every client may know what can be asked for: it is the same on every server.
std::shared_ptr<HttpCall> HttpServer::AnswerOptions(HttpRequest request, HttpStream* stream) {
  HttpAnswer answer = {.status = 204, .content_type = "", .body = ""};
  if (Cors::IsQuestion(request.head)) {
    answer = cors_.AnswerQuestion(request.head);
  } else {
    const std::string allowed = Find("OPTIONS", request.path).allowed;
    answer.headers.emplace_back("allow", allowed.empty() ? "OPTIONS" : allowed);
  }
  return Refuse(std::move(answer), std::move(request), nullptr, stream);
}

}  // namespace quire
