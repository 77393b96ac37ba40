#include "server/wire/http1/http1_answer.h"

#include "absl/strings/str_cat.h"
#include "kernels/base/clock.h"
#include "server/wire/http/http_error.h"

namespace quire {

namespace {

absl::string_view ReasonOf(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "";  // which HTTP allows
  }
}

}  // namespace

void AppendAnswerHead(const Http1AnswerHead& head, absl::Time now, std::string* out) {
  absl::StrAppend(out, "HTTP/1.1 ", head.status, " ", ReasonOf(head.status), "\r\n");
  for (const auto& [name, value] : *head.headers) absl::StrAppend(out, name, ": ", value, "\r\n");
  absl::StrAppend(out,
                  "date: ", absl::FormatTime("%a, %d %b %Y %H:%M:%S GMT", now, absl::UTCTimeZone()),
                  "\r\n");
  if (head.is_chunked) out->append("transfer-encoding: chunked\r\n");
  if (head.is_empty) out->append("content-length: 0\r\n");
  if (head.closes) out->append("connection: close\r\n");
  if (head.says_keep_alive) out->append("connection: keep-alive\r\n");
  out->append("\r\n");
}

std::string Http1Refusal(const Http1Error& error, bool is_head) {
  const std::string body = HttpErrorBody(error.status, error.sentence, "", "");
  HeaderList headers = {{"content-type", "application/json"},
                        {"content-length", absl::StrCat(body.size())}};
  if (error.status == 503) headers.emplace_back("retry-after", "1");
  std::string answer;
  Http1AnswerHead head = {error.status, &headers};
  head.closes = true;
  AppendAnswerHead(head, WallNow(), &answer);
  if (!is_head) answer.append(body);
  return answer;
}

}  // namespace quire
