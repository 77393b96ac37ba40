#include "server/surfaces/web/page_route.h"

#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "kernels/base/check.h"
#include "server/base/sha256.h"
#include "server/surfaces/web/page_text.h"

namespace quire {

namespace {

std::string Base64Sha256(absl::string_view text) {
  const Sha256 hash = Sha256Of(text);
  return absl::Base64Escape({reinterpret_cast<const char*>(hash.data()), hash.size()});
}

// The text in the only element of this name, as browsers hash it.
absl::string_view ElementText(absl::string_view page, absl::string_view name) {
  const std::string begin = absl::StrCat("<", name, ">");
  const size_t at = page.find(begin);
  CHECK(at != page.npos) << name;
  page.remove_prefix(at + begin.size());
  return page.substr(0, page.find(absl::StrCat("</", name, ">")));
}

// The page's own script and style run, and it talks to this server; whatever else somebody brings
// into it does neither.
std::string ContentSecurityPolicy(absl::string_view page) {
  return absl::StrCat("default-src 'none'; script-src 'sha256-",
                      Base64Sha256(ElementText(page, "script")), "'; style-src 'sha256-",
                      Base64Sha256(ElementText(page, "style")),
                      "'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
                      "frame-ancestors 'none'; require-trusted-types-for 'script'");
}

}  // namespace

HttpRoute PageRoute() {
  const absl::string_view page = PageText();
  const std::string tag = absl::StrCat("\"", Base64Sha256(page), "\"");
  HttpAnswer whole = {.content_type = "text/html; charset=utf-8",
                      .body = std::string(page),
                      .headers = {{"content-security-policy", ContentSecurityPolicy(page)},
                                  {"x-content-type-options", "nosniff"},
                                  {"referrer-policy", "no-referrer"},
                                  {"cross-origin-opener-policy", "same-origin"},
                                  {"cache-control", "no-cache"},
                                  {"etag", tag}}};
  return TellingRoute("/", std::nullopt, [whole = std::move(whole), tag](const HttpRequest& asked) {
    HttpAnswer answer = whole;
    if (asked.head.Find("if-none-match") == tag) {
      answer.status = 304;
      answer.content_type.clear();
      answer.body.clear();
    }
    return answer;
  });
}

}  // namespace quire
