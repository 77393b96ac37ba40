#include "tools/bench/report/result_page.h"

#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "engine/json/parse_json.h"
#include "nlohmann/json.hpp"

namespace quire::bench {

namespace {

// Of UTF-16: what is no text, or turns the direction of the text around it.
bool IsUnwanted(uint32_t code) {
  if (code == '\n' || code == '\t') return false;
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || (code >= 0x202A && code <= 0x202E) ||
         (code >= 0x2066 && code <= 0x2069);
}

// JSON in ASCII for within <script>.
std::string Embedded(const nlohmann::ordered_json& data) {
  constexpr size_t kEscape = 6;  // of \u0000
  const std::string json =
      data.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::ordered_json::error_handler_t::replace);
  std::string text;
  text.reserve(json.size());
  for (size_t i = 0; i < json.size();) {
    uint32_t code = 0;
    const absl::string_view rest = absl::string_view(json).substr(i);
    if (rest[0] == '<' || rest[0] == 0x7F) {
      absl::StrAppend(&text, rest[0] == '<' ? "\\u003c" : "\\ufffd");
      ++i;
    } else if (absl::StartsWith(rest, "\\u") && absl::SimpleHexAtoi(rest.substr(2, 4), &code)) {
      absl::StrAppend(&text, IsUnwanted(code) ? "\\ufffd" : rest.substr(0, kEscape));
      i += kEscape;
    } else {
      const size_t size = rest[0] == '\\' ? 2 : 1;
      const bool is_control = absl::StartsWith(rest, "\\b") || absl::StartsWith(rest, "\\f") ||
                              absl::StartsWith(rest, "\\r");
      absl::StrAppend(&text, is_control ? "\\ufffd" : rest.substr(0, size));
      i += size;
    }
  }
  return text;
}

std::string EscapedTitle(const std::string& title) {
  // By way of JSON, which makes UTF-8 of anything.
  const auto clean = ParseJson<nlohmann::ordered_json>(Embedded(title)).get<std::string>();
  return absl::StrReplaceAll(
      clean, {{"&", "&#38;"}, {"<", "&#60;"}, {">", "&#62;"}, {"\"", "&#34;"}, {"'", "&#39;"}});
}

}  // namespace

std::string ResultPage(const std::string& title, const nlohmann::ordered_json& data) {
  return absl::StrReplaceAll(PageTemplate(),
                             {{"@TITLE@", EscapedTitle(title)}, {"@DATA@", Embedded(data)}});
}

double Short(double value) {
  double number = 0;  // of what is too small to be a number
  return absl::SimpleAtod(absl::StrFormat("%.5g", value), &number) ? number : 0;
}

}  // namespace quire::bench
