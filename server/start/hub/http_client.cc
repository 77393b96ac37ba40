#include "server/start/hub/http_client.h"

#include <curl/curl.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "kernels/base/check.h"
#include "server/base/environment.h"

namespace quire {
namespace {

constexpr int kMaxAttempts = 5;
constexpr absl::Duration kFirstWait = absl::Milliseconds(500);
constexpr absl::Duration kMaxWait = absl::Minutes(2);
constexpr long kMaxRedirects = 10;         // NOLINT(google-runtime-int): libcurl's type
constexpr long kBufferBytes = 256 * 1024;  // NOLINT(google-runtime-int)
constexpr size_t kMaxHeaders = 200;
constexpr size_t kMaxHeaderBytes = 16384;
constexpr int64_t kMaxErrorBodyBytes = 64 * 1024;

struct Transfer {
  const HubRequest* request;
  const BodySink* sink;
  HubResponse response;
  bool stopped = false;  // by the sink
};

size_t OnHeader(char* data, size_t size, size_t count, void* user) {
  HubResponse& response = static_cast<Transfer*>(user)->response;
  const absl::string_view line = absl::StripAsciiWhitespace({data, size * count});
  if (absl::StartsWith(line, "HTTP/")) {
    response.headers.clear();  // the next answer of a chain of redirects
    response.status = 0;
    const size_t space = line.find(' ');
    if (space != line.npos && !absl::SimpleAtoi(line.substr(space + 1, 3), &response.status)) {
      response.status = 0;
    }
  }
  const size_t colon = line.find(':');
  if (colon != line.npos && line.size() <= kMaxHeaderBytes &&
      response.headers.size() < kMaxHeaders) {
    response.headers[absl::AsciiStrToLower(line.substr(0, colon))] =
        std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
  }
  return size * count;
}

size_t OnBody(char* data, size_t size, size_t count, void* user) {
  Transfer& transfer = *static_cast<Transfer*>(user);
  HubResponse& response = transfer.response;
  const absl::string_view bytes(data, size * count);
  const bool good = response.status == 200 || response.status == 206;
  if (good && *transfer.sink) {
    if ((*transfer.sink)(response, bytes)) return bytes.size();
    transfer.stopped = true;
    return bytes.empty() ? 1 : 0;
  }
  const int64_t limit = good ? transfer.request->max_body_bytes : kMaxErrorBodyBytes;
  if (static_cast<int64_t>(response.body.size() + bytes.size()) > limit) {
    response.too_large = good;
    return good ? 0 : bytes.size();
  }
  response.body.append(bytes.data(), bytes.size());
  return bytes.size();
}

int OnProgress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  const std::atomic<bool>* const stop = static_cast<Transfer*>(user)->request->stop;
  return stop != nullptr && *stop ? 1 : 0;
}

// 0 stands for "no limit" in libcurl.
long Milliseconds(absl::Duration duration) {  // NOLINT(google-runtime-int)
  return duration == absl::InfiniteDuration() ? 0 : absl::ToInt64Milliseconds(duration);
}

curl_slist* MakeHeaders(const HubOptions& options) {
  curl_slist* headers = curl_slist_append(nullptr, "Accept-Encoding: identity");
  if (!options.token.empty()) {
    // libcurl drops this header when a redirect leads to another host, port or protocol.
    const std::string header = absl::StrCat("Authorization: Bearer ", options.token);
    headers = curl_slist_append(headers, header.c_str());
  }
  return headers;
}

void SetOptions(CURL* curl, const HubRequest& request, const HubOptions& options,
                Transfer* transfer) {
  curl_easy_reset(curl);
  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_NOBODY, request.head ? 1L : 0L);
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, request.follow_redirects ? 1L : 0L);
  curl_easy_setopt(curl, CURLOPT_MAXREDIRS, kMaxRedirects);
  // A transfer that began encrypted stays encrypted.
  const bool encrypted = absl::StartsWith(request.url, "https:");
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, encrypted ? "https" : "http,https");
  curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));  // NOLINT
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "quire/" QUIRE_VERSION);
  curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, kBufferBytes);
  if (!request.range.empty()) curl_easy_setopt(curl, CURLOPT_RANGE, request.range.c_str());
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, Milliseconds(options.answer_timeout));
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, Milliseconds(request.total_timeout));
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME,
                   static_cast<long>(absl::ToInt64Seconds(request.stall_timeout)));  // NOLINT
  if (const std::string file = CertificateFile(); !file.empty()) {
    curl_easy_setopt(curl, CURLOPT_CAINFO, file.c_str());
  }
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, &OnHeader);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, transfer);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &OnBody);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, transfer);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, &OnProgress);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, transfer);
}

CURL* NewHandle() {
  static std::once_flag once;
  std::call_once(once, [] { CHECK_EQ(curl_global_init(CURL_GLOBAL_DEFAULT), CURLE_OK); });
  CURL* const curl = curl_easy_init();
  CHECK(curl != nullptr) << "out of memory";
  return curl;
}

}  // namespace

std::string HubResponse::Header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

HttpClient::HttpClient(const HubOptions& options) : options_(options), curl_(NewHandle()) {}

HttpClient::~HttpClient() { curl_easy_cleanup(curl_); }

HubResponse HttpClient::Perform(const HubRequest& request, const BodySink& sink) {
  Transfer transfer = {&request, &sink, {}, false};
  SetOptions(curl_, request, options_, &transfer);
  char message[CURL_ERROR_SIZE] = "";
  curl_easy_setopt(curl_, CURLOPT_ERRORBUFFER, message);
  curl_slist* const headers = MakeHeaders(options_);
  curl_easy_setopt(curl_, CURLOPT_HTTPHEADER, headers);
  const CURLcode code = curl_easy_perform(curl_);
  curl_slist_free_all(headers);
  HubResponse response = std::move(transfer.response);
  if (code != CURLE_OK && !transfer.stopped && !response.too_large) {
    response.error = message[0] != '\0' ? message : curl_easy_strerror(code);
    response.bad_certificate =
        code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE;
  }
  return response;
}

std::optional<absl::Duration> Retries::NextWait(const HubResponse& response) {
  const bool passing = !response.error.empty() || response.status < 400 || response.status >= 500 ||
                       response.status == 408 || response.status == 429;
  if (!passing || response.bad_certificate || ++num_failures_ >= kMaxAttempts) return std::nullopt;
  absl::Duration wait = kFirstWait * (1 << (num_failures_ - 1));
  int seconds = 0;
  if (absl::SimpleAtoi(response.Header("retry-after"), &seconds) && seconds > 0) {
    wait = std::max(wait, absl::Seconds(seconds));
  }
  if (wait > kMaxWait) return std::nullopt;
  return wait;
}

}  // namespace quire
