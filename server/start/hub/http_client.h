// HTTP as the hub needs it, on libcurl: one request at a time, connections kept between them. The
// token goes only to the endpoint's host and port, never along with a redirect to another.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/start/hub/hub_options.h"

using CURL = void;  // as in curl/curl.h

namespace quire {

struct HubResponse {
  // The failure below HTTP: no route, a cut connection, a stall. Empty: there was none.
  std::string error;
  bool bad_certificate = false;
  bool too_large = false;                      // the answer exceeds max_body_bytes
  int status = 0;                              // of the last answer; 0: there was none
  std::map<std::string, std::string> headers;  // of the last answer; names in lower case
  std::string body;                            // bytes that `sink` did not take

  std::string Header(const std::string& name) const;
};

// Takes bytes of an answer with status 200 or 206, whose status and headers are in the first
// argument. False ends the transfer.
using BodySink = std::function<bool(const HubResponse&, absl::string_view)>;

struct HubRequest {
  std::string url;
  bool head = false;
  bool follow_redirects = true;
  std::string range = "";  // "0-99"; empty: everything
  int64_t max_body_bytes = 1 << 20;
  absl::Duration stall_timeout = absl::Seconds(30);         // between two bytes
  absl::Duration total_timeout = absl::InfiniteDuration();  // for the whole transfer
  const std::atomic<bool>* stop = nullptr;  // ends the transfer within a second once it is true
};

// One thread.
class HttpClient {
 public:
  explicit HttpClient(const HubOptions& options);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  HubResponse Perform(const HubRequest& request, const BodySink& sink = nullptr);

 private:
  const HubOptions options_;
  CURL* const curl_;
};

// The waits between attempts at the same thing: 0.5, 1, 2, 4 s, or the time that Retry-After asks
// for.
class Retries {
 public:
  // How long to wait before the next attempt. Nothing when that attempt would end in the same way,
  // when this was the fifth failure in a row, or when the hub asks for more than two minutes.
  std::optional<absl::Duration> NextWait(const HubResponse& response);

  // Something went well since.
  void Reset() { num_failures_ = 0; }

 private:
  int num_failures_ = 0;
};

}  // namespace quire
