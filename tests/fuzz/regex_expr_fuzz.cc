// Regular expressions of requests: whatever the pattern is, an error has one of two codes, and only
// valid text matches; a text that matches as a whole also has a part that matches, and both
// spellings agree. Input: the pattern, a zero byte, the text.
#include "kernels/base/check.h"
#include "server/grammar/expr/derivative.h"
#include "server/grammar/regex/regex_expr.h"
#include "server/text/utf8.h"
#include "tests/fuzz/target.h"
#include "tests/server/grammar/regex/matches.h"

namespace quire::fuzz {
namespace {

constexpr size_t kMaxStoreBytes = size_t{1} << 20;
constexpr size_t kMaxTextBytes = 300;

enum class Outcome { kMatches, kDiffers, kRefused, kGaveUp };

Outcome Match(std::string_view pattern, bool whole, Spelling spelling, std::string_view text) {
  ExprStore store(kMaxStoreBytes);
  RegexOptions options;
  options.whole = whole;
  options.spelling = spelling;
  options.limits.max_pattern_bytes = 4096;
  const absl::StatusOr<ExprId> expr = RegexExpr(&store, pattern, options);
  if (!expr.ok()) {
    CHECK(absl::IsInvalidArgument(expr.status()) || absl::IsUnimplemented(expr.status()))
        << expr.status();
    CHECK(!expr.status().message().empty());
    return Outcome::kRefused;
  }
  CHECK(!store.has_rules(*expr));
  const bool matches = Matches(&store, *expr, text);
  if (store.overflowed()) return Outcome::kGaveUp;
  return matches ? Outcome::kMatches : Outcome::kDiffers;
}

}  // namespace

std::vector<std::string> Seeds() {
  using std::string_literals::operator""s;
  return {
      "^[a-zA-Z0-9_.-]{1,253}$\0some.name"s,
      "^(0|[1-9]\\d*)\\.(0|[1-9]\\d*)(?:-([\\w-]+(?:\\.[\\w-]+)*))?$\0001.20-rc.1"s,
      "(^|, ?)(foo|b\xC3\xA4r)+($|;)\0foo, b\xC3\xA4r;"s,
      "^(?!.*--)(?=.*[a-z])[^\\s\\p{Lu}]{3,}(?<!-)$\0abc-d"s,
      "\\b(?i:word)\\b.*?\\Bx\0a word xx"s,
      "/\\*((?!\\*/).)*\\*/\0/* a \"comment\" */"s,
      "(?s)\\u{1F600}|[\\ud83d\\ude00-\\ud83d\\ude4f\\x41-\\x5a]\\\\.\\n\0\xF0\x9F\x98\x80\\!\n"s,
      "(?:(?:a?b{2,3})*c|\\b)+(?m:^d$)\0bbabbcc\nd"s};
}

std::vector<std::string> Dictionary() {
  return {"(?:", "(?=", "(?!", "(?<=",       "(?<!",   "(?i)", "(?m)",    "(?x)",
          "^",   "$",   "\\b", "\\B",        "\\A",    "\\z",  "{2,3}",   "{0,1000}",
          "*?",  "[^",  "]",   "[[:alpha:]", "\\p{L}", "\\d",  "\\W",     "\\s",
          ".*",  "|",   ")",   ")*",         "a?",     "\\1",  "\\u{41}", "\xC3\xA9"};
}

}  // namespace quire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;        // NOLINT(build/namespaces)
  using namespace quire::fuzz;  // NOLINT(build/namespaces)
  InputReader input(data, size);
  const std::string_view pattern = input.TakeUntil('\0');
  const std::string_view text = input.rest().substr(0, kMaxTextBytes);
  const Outcome whole = Match(pattern, true, Spelling::kText, text);
  const Outcome part = Match(pattern, false, Spelling::kText, text);
  const Outcome json = Match(pattern, false, Spelling::kJsonString, JsonSpelling(text));
  num_accepted += part == Outcome::kMatches;
  if (whole == Outcome::kMatches) CHECK(part != Outcome::kDiffers) << pattern;
  if (part == Outcome::kMatches) {
    CHECK(IsValidUtf8(text)) << pattern;
    CHECK(json != Outcome::kDiffers) << pattern;
  }
  if (json == Outcome::kMatches) CHECK(part != Outcome::kDiffers) << pattern;
  return 0;
}
