#include "server/observe/trace/otlp_client.h"

#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "kernels/base/check.h"
#include "kernels/base/clock.h"

namespace quire {
namespace {

// As OpenTelemetry's exporters have it.
constexpr absl::Duration kCallTimeout = absl::Seconds(10);
constexpr size_t kPrefixBytes = 5;
constexpr size_t kMaxAnswerBytes = 64 << 10;
constexpr size_t kMaxSentenceBytes = 200;
constexpr char kMethod[] = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

struct Answer {
  int http_status = 0;
  std::optional<int> grpc_status;
  std::string sentence;
  std::string body;
};

// Headers and, after the body, trailers.
size_t OnHeader(char* data, size_t size, size_t count, void* user) {
  Answer& answer = *static_cast<Answer*>(user);
  const absl::string_view line = absl::StripAsciiWhitespace({data, size * count});
  if (absl::StartsWith(line, "HTTP/")) {
    answer = {};
    const size_t space = std::min(line.find(' '), line.size());
    const absl::string_view status = absl::StripAsciiWhitespace(line.substr(space)).substr(0, 3);
    if (!absl::SimpleAtoi(status, &answer.http_status)) answer.http_status = 0;
    return size * count;
  }
  const size_t colon = std::min(line.find(':'), line.size());
  const absl::string_view name = line.substr(0, colon);
  const absl::string_view value =
      absl::StripAsciiWhitespace(line.substr(std::min(colon + 1, line.size())));
  int code = 0;
  if (absl::EqualsIgnoreCase(name, "grpc-status") && absl::SimpleAtoi(value, &code)) {
    answer.grpc_status = code;
  } else if (absl::EqualsIgnoreCase(name, "grpc-message")) {
    answer.sentence = std::string(value.substr(0, kMaxSentenceBytes));
  }
  return size * count;
}

size_t OnBody(char* data, size_t size, size_t count, void* user) {
  std::string& body = static_cast<Answer*>(user)->body;
  if (body.size() + size * count > kMaxAnswerBytes) return 0;
  body.append(data, size * count);
  return size * count;
}

std::string WithPrefix(const std::string& message) {
  std::string bytes(1, '\0');  // not compressed
  for (const int shift : {24, 16, 8, 0}) {
    bytes.push_back(static_cast<char>(message.size() >> shift));
  }
  return bytes.append(message);
}

// The answer's message, or why there is none.
absl::StatusOr<std::string> Read(const Answer& answer) {
  if (!answer.grpc_status.has_value()) {
    return absl::UnavailableError(
        absl::StrCat("no gRPC server is there: it answers with HTTP status ", answer.http_status));
  }
  if (*answer.grpc_status != 0) {
    const int code = *answer.grpc_status;
    const bool is_known = code > 0 && code <= 16;
    return absl::Status(is_known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown,
                        answer.sentence);
  }
  if (answer.body.size() < kPrefixBytes || answer.body[0] != 0) return std::string();
  return answer.body.substr(kPrefixBytes);
}

void InitializeLibrary() {
  static std::once_flag once;
  std::call_once(once, [] { CHECK_EQ(curl_global_init(CURL_GLOBAL_DEFAULT), CURLE_OK); });
}

CURL* NewEasy() {
  InitializeLibrary();
  CURL* const easy = curl_easy_init();
  CHECK(easy != nullptr) << "out of memory";
  return easy;
}

CURLM* NewMulti() {
  CURLM* const multi = curl_multi_init();
  CHECK(multi != nullptr) << "out of memory";
  return multi;
}

}  // namespace

OtlpClient::OtlpClient(const OtlpOptions& options) : easy_(NewEasy()), multi_(NewMulti()) {
  for (const char* header : {"content-type: application/grpc", "te: trailers", "accept:"}) {
    headers_ = curl_slist_append(headers_, header);
  }
  for (const auto& [name, value] : options.headers) {
    headers_ = curl_slist_append(headers_, absl::StrCat(name, ": ", value).c_str());
  }
  curl_easy_setopt(easy_, CURLOPT_URL, absl::StrCat(options.origin, kMethod).c_str());
  curl_easy_setopt(easy_, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy_, CURLOPT_HTTP_VERSION,
                   static_cast<long>(options.uses_tls  // NOLINT(google-runtime-int)
                                         ? CURL_HTTP_VERSION_2TLS
                                         : CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE));
  curl_easy_setopt(easy_, CURLOPT_USERAGENT, "quire/" QUIRE_VERSION);
  curl_easy_setopt(easy_, CURLOPT_HTTPHEADER, headers_);
  // As gRPC's own clients do where the environment names a proxy.
  curl_easy_setopt(easy_, CURLOPT_HTTPPROXYTUNNEL, 1L);
  curl_easy_setopt(easy_, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  if (!options.ca_file.empty()) {
    curl_easy_setopt(easy_, CURLOPT_CAINFO, options.ca_file.c_str());
  }
  curl_easy_setopt(easy_, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy_, CURLOPT_QUICK_EXIT, 1L);  // does not wait for a name that is looked up
  // libcurl 7.88, Debian 12's, does not find its way into a kept HTTP/2 connection without TLS.
  curl_easy_setopt(easy_, CURLOPT_FORBID_REUSE, 1L);
  curl_easy_setopt(easy_, CURLOPT_HEADERFUNCTION, &OnHeader);
  curl_easy_setopt(easy_, CURLOPT_WRITEFUNCTION, &OnBody);
}

OtlpClient::~OtlpClient() {
  curl_multi_cleanup(multi_);
  curl_easy_cleanup(easy_);
  curl_slist_free_all(headers_);
}

absl::StatusOr<std::string> OtlpClient::Export(const std::string& request) {
  const std::string body = WithPrefix(request);
  Answer answer;
  curl_easy_setopt(easy_, CURLOPT_POSTFIELDS, body.data());
  curl_easy_setopt(easy_, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  curl_easy_setopt(easy_, CURLOPT_HEADERDATA, &answer);
  curl_easy_setopt(easy_, CURLOPT_WRITEDATA, &answer);
  if (absl::Status status = Perform(); !status.ok()) return status;
  return Read(answer);
}

absl::Status OtlpClient::Perform() {
  std::array<char, CURL_ERROR_SIZE> error = {};
  curl_easy_setopt(easy_, CURLOPT_ERRORBUFFER, error.data());
  CHECK_EQ(curl_multi_add_handle(multi_, easy_), CURLM_OK);
  const absl::Time timeout = MonotonicNow() + kCallTimeout;
  int num_running = 1;
  absl::Duration left;
  while (curl_multi_perform(multi_, &num_running) == CURLM_OK && num_running > 0) {
    left = std::min(timeout, absl::FromUnixNanos(end_by_ns_)) - MonotonicNow();
    if (left <= absl::ZeroDuration()) break;
    const int64_t left_ms = absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1)));
    curl_multi_poll(multi_, nullptr, 0, static_cast<int>(left_ms), nullptr);
  }
  int num_messages = 0;
  const CURLMsg* const message = curl_multi_info_read(multi_, &num_messages);
  const CURLcode code = message != nullptr ? message->data.result : CURLE_OPERATION_TIMEDOUT;
  CHECK_EQ(curl_multi_remove_handle(multi_, easy_), CURLM_OK);
  curl_easy_setopt(easy_, CURLOPT_ERRORBUFFER, nullptr);
  if (code == CURLE_OK) return absl::OkStatus();
  if (message == nullptr) return absl::DeadlineExceededError("it does not answer in time");
  return absl::UnavailableError(error[0] != '\0' ? error.data() : curl_easy_strerror(code));
}

void OtlpClient::EndBy(absl::Time deadline) {
  end_by_ns_ = absl::ToUnixNanos(deadline);
  curl_multi_wakeup(multi_);
}

}  // namespace quire
