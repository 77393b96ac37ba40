// Which pages of other origins may call this server from a browser (CORS, the Fetch standard). A
// browser asks before it sends a page's JSON, and hides the answer from the page unless the server
// names the page's origin. Other clients do not ask. Immutable; any thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/call/http_route.h"
#include "server/wire/http/http_exchange.h"

namespace quire {

class Cors {
 public:
  // No page.
  Cors() = default;
  // Origins as browsers write them ("https://chat.example.org"); "*": every page. OUT_OF_RANGE
  // names an origin that no browser writes in this form.
  static absl::StatusOr<Cors> Parse(std::vector<std::string> allowed);

  bool Allows(absl::string_view origin) const;
  // The headers that every answer to this request has.
  HeaderList AnswerHeaders(const RequestHead& head) const;
  // True for the question of a browser before it calls.
  static bool IsQuestion(const RequestHead& head);
  HttpAnswer AnswerQuestion(const RequestHead& head) const;

 private:
  explicit Cors(std::vector<std::string> allowed) : allowed_(std::move(allowed)) {}
  bool allows_all() const;

  std::vector<std::string> allowed_;
};

}  // namespace quire
