#include "server/wire/http1/http1_head.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace quire {

namespace {

constexpr size_t kMaxMethodBytes = 32;
constexpr size_t kMaxHeaders = 100;
constexpr size_t kMaxLengthDigits = 18;

using Error = std::optional<Http1Error>;

Error Bad(absl::string_view sentence) { return Http1Error{400, std::string(sentence)}; }

// RFC 9110, 5.6.2.
bool IsTokenChar(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
         (c != '\0' && absl::string_view("!#$%&'*+-.^_`|~").find(c) != absl::string_view::npos);
}

bool IsToken(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), IsTokenChar);
}

bool IsVisible(char c) { return c > 0x20 && c < 0x7f; }

// A tab, a space, what can be seen, or a byte of another character set.
bool IsValueChar(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return c == '\t' || (byte >= 0x20 && byte != 0x7f);
}

absl::string_view TrimSpaces(absl::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == absl::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// "http://host/path" names a path of this server as "/path" does.
Error TakeTarget(absl::string_view target, Http1Head* head) {
  if (target.empty() || !std::all_of(target.begin(), target.end(), IsVisible)) {
    return Bad("the request's target has bytes that must be written as %XX");
  }
  for (const absl::string_view scheme : {"http://", "https://"}) {
    if (!absl::StartsWithIgnoreCase(target, scheme)) continue;
    target.remove_prefix(scheme.size());
    const size_t path = target.find_first_of("/?");
    target = path == absl::string_view::npos ? absl::string_view() : target.substr(path);
    head->request.path = absl::StrCat(absl::StartsWith(target, "/") ? "" : "/", target);
    return std::nullopt;
  }
  if (target[0] != '/' && target != "*") return Bad("the request's target must begin with '/'");
  head->request.path = std::string(target);
  return std::nullopt;
}

Error TakeVersion(absl::string_view version, Http1Head* head) {
  if (version == "HTTP/1.1" || version == "HTTP/1.0") {
    head->is_http11 = version.back() == '1';
    return std::nullopt;
  }
  const bool is_version = version.size() == 8 && absl::StartsWith(version, "HTTP/") &&
                          absl::ascii_isdigit(version[5]) && version[6] == '.' &&
                          absl::ascii_isdigit(version[7]);
  if (!is_version) return Bad("the first line must be a method, a target and HTTP/1.1");
  return Http1Error{505, "this server speaks HTTP/1.0, HTTP/1.1 and HTTP/2"};
}

Error TakeRequestLine(absl::string_view line, Http1Head* head) {
  const size_t method_end = line.find(' '), target_end = line.rfind(' ');
  if (method_end == absl::string_view::npos || target_end <= method_end) {
    return Bad("the first line must be a method, a target and HTTP/1.1");
  }
  const absl::string_view method = line.substr(0, method_end);
  if (!IsToken(method) || method.size() > kMaxMethodBytes) {
    return Bad("the request's method is no word");
  }
  head->request.method = std::string(method);
  if (Error error = TakeVersion(line.substr(target_end + 1), head)) return error;
  if (method == "CONNECT") return Http1Error{501, "this server is no proxy"};
  return TakeTarget(line.substr(method_end + 1, target_end - method_end - 1), head);
}

Error TakeField(absl::string_view line, Http1Head* head) {
  if (line[0] == ' ' || line[0] == '\t') return Bad("a header may not go on in the next line");
  const size_t colon = line.find(':');
  if (colon == absl::string_view::npos || !IsToken(line.substr(0, colon))) {
    return Bad("a header is not of the form \"name: value\"");
  }
  const absl::string_view value = line.substr(colon + 1);
  if (!std::all_of(value.begin(), value.end(), IsValueChar)) {
    return Bad("a header's value has a control character");
  }
  if (head->request.headers.size() == kMaxHeaders) {
    return Http1Error{431, absl::StrCat("more than ", kMaxHeaders, " headers")};
  }
  head->request.headers.emplace_back(absl::AsciiStrToLower(absl::string_view(line.data(), colon)),
                                     TrimSpaces(value));
  return std::nullopt;
}

int CountFields(const RequestHead& request, absl::string_view name) {
  return static_cast<int>(std::count_if(request.headers.begin(), request.headers.end(),
                                        [&](const auto& field) { return field.first == name; }));
}

// The head must say once, and in one way, where the body ends.
Error TakeBodyLength(Http1Head* head) {
  const int num_lengths = CountFields(head->request, "content-length");
  const int num_encodings = CountFields(head->request, "transfer-encoding");
  if (num_lengths + num_encodings == 0) return std::nullopt;
  if (num_lengths + num_encodings > 1) {
    return Bad("say the body's length once: by one Content-Length or one Transfer-Encoding");
  }
  if (num_lengths == 1) {
    const absl::string_view length = head->request.Find("content-length");
    const bool is_number = !length.empty() && length.size() <= kMaxLengthDigits &&
                           std::all_of(length.begin(), length.end(), absl::ascii_isdigit);
    if (!is_number || !absl::SimpleAtoi(length, &head->content_length)) {
      return Bad("Content-Length is no number of bytes");
    }
    return std::nullopt;
  }
  if (!head->is_http11) return Bad("HTTP/1.0 has no Transfer-Encoding");
  if (!absl::EqualsIgnoreCase(head->request.Find("transfer-encoding"), "chunked")) {
    return Http1Error{501, "the only Transfer-Encoding that is taken is chunked"};
  }
  head->is_chunked = true;
  return std::nullopt;
}

Error TakeConnection(Http1Head* head) {
  bool closes = false, keeps = false;
  for (const auto& [name, value] : head->request.headers) {
    if (name != "connection") continue;
    for (const absl::string_view word : absl::StrSplit(value, ',')) {
      const absl::string_view option = absl::StripAsciiWhitespace(word);
      closes |= absl::EqualsIgnoreCase(option, "close");
      keeps |= absl::EqualsIgnoreCase(option, "keep-alive");
    }
  }
  head->keeps_alive = !closes && (head->is_http11 || keeps);
  const absl::string_view expected = head->request.Find("expect");
  if (expected.empty() || !head->is_http11) return std::nullopt;
  if (!absl::EqualsIgnoreCase(expected, "100-continue")) {
    return Http1Error{417, "the only thing to Expect is 100-continue"};
  }
  head->expects_continue = true;
  return std::nullopt;
}

Error CheckHost(const Http1Head& head) {
  const int num_hosts = CountFields(head.request, "host");
  if (num_hosts > 1 || (num_hosts == 0 && head.is_http11)) {
    return Bad("a request has one Host header");
  }
  return std::nullopt;
}

}  // namespace

std::optional<Http1Error> ParseHttp1Head(std::string_view bytes, Http1Head* head) {
  absl::string_view text(bytes.data(), bytes.size());
  bool is_first = true;
  while (true) {
    const size_t end = text.find('\n');
    if (end == absl::string_view::npos || end == 0 || text[end - 1] != '\r') {
      return Bad("a line of the head does not end with CR and LF");
    }
    const absl::string_view line = text.substr(0, end - 1);
    text.remove_prefix(end + 1);
    if (line.empty() && !is_first) break;
    Error error = is_first ? TakeRequestLine(line, head) : TakeField(line, head);
    if (error) return error;
    is_first = false;
  }
  if (Error error = CheckHost(*head)) return error;
  if (Error error = TakeBodyLength(head)) return error;
  return TakeConnection(head);
}

bool MayBeHttp1Head(std::string_view beginning) {
  const size_t end = std::min(beginning.find_first_of(" \r\n"), beginning.size());
  if (end > kMaxMethodBytes || (end < beginning.size() && (end == 0 || beginning[end] != ' '))) {
    return false;
  }
  return std::all_of(beginning.begin(), beginning.begin() + static_cast<ptrdiff_t>(end),
                     IsTokenChar);
}

}  // namespace quire
