// Random patterns against PCRE2: what the two mean alike must match the same texts.
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "server/grammar/regex/regex_expr.h"
#include "tests/server/grammar/regex/matches.h"

namespace quire {
namespace {

// Draws patterns and texts. No characters on which PCRE2 and ECMA-262 differ: line ends other than
// \n, spaces beyond ASCII.
class PatternMaker {
 public:
  explicit PatternMaker(uint64_t seed) : random_(seed) {}

  std::string Pattern() {
    const std::string pattern = Alternation(3);
    return Chance(8) ? "(?i)" + pattern : Chance(10) ? "(?m)" + pattern : pattern;
  }

  std::string Text() {
    std::string text;
    for (size_t i = Below(Chance(4) ? 12 : 6); i > 0; --i)
      text +=
          Pick({"a", "a", "b", "b", "A", "c", "_", "-", " ", "\n", "0", "é", "É", "☃", "\"", "\\"});
    return text;
  }

  size_t Below(size_t bound) { return random_() % bound; }
  bool Chance(size_t one_in) { return Below(one_in) == 0; }

 private:
  std::string Pick(const std::vector<std::string>& choices) {
    return choices[Below(choices.size())];
  }

  std::string Alternation(int depth) {
    std::string result = Sequence(depth);
    while (Chance(3)) result += "|" + Sequence(depth);
    return result;
  }

  std::string Sequence(int depth) {
    std::string result;
    for (size_t i = Below(4); i > 0; --i) {
      result += Chance(5) ? Assertion(depth) : Term(depth) + (Chance(2) ? Quantifier() : "");
    }
    return result;
  }

  std::string Quantifier() {
    return Pick({"*", "+", "?", "*?", "+?", "??", "{2}", "{0,2}", "{1,3}", "{2,}", "{2,3}?"});
  }

  std::string Assertion(int depth) {
    if (depth > 0 && Chance(3)) return Pick({"(?=", "(?!"}) + Alternation(depth - 1) + ")";
    return Pick({"^", "^", "$", "$", "\\b", "\\B", "(?<=a)", "(?<!b)", "(?<=[^a])", "\\A", "\\z"});
  }

  std::string Term(int depth) {
    if (depth > 0 && Chance(3)) {
      return Pick({"(", "(?:", "(?i:", "(?s:"}) + Alternation(depth - 1) + ")";
    }
    if (depth > 0 && Chance(12)) return "(?:(?!" + Pick({"ab", "a|bc", "aa", "ab*"}) + ").)";
    return Pick({"a",    "b",      "a",      "b",     "c",    "é",   "☃",    "-",   "0",
                 "\\n",  ".",      ".",      "\\w",   "\\W",  "\\d", "\\s",  "\\S", "[ab]",
                 "[^a]", "[a-c_]", "[^\\w]", "[é-ü]", "\\\\", "\"",  "\\x61"});
  }

  std::mt19937_64 random_;
};

// nullopt if PCRE2 gives up.
class Reference {
 public:
  explicit Reference(const std::string& pattern) {
    int error;
    PCRE2_SIZE offset;
    code_ = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                          PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_ALT_CIRCUMFLEX, &error, &offset,
                          nullptr);
    data_ = pcre2_match_data_create(1, nullptr);
  }
  ~Reference() {
    pcre2_code_free(code_);
    pcre2_match_data_free(data_);
  }
  Reference(const Reference&) = delete;
  Reference& operator=(const Reference&) = delete;

  bool ok() const { return code_ != nullptr; }
  std::optional<bool> Matches(const std::string& text, bool whole) const {
    const int result = pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0,
                                   whole ? PCRE2_ANCHORED | PCRE2_ENDANCHORED : 0, data_, nullptr);
    if (result < 0 && result != PCRE2_ERROR_NOMATCH) return std::nullopt;
    return result >= 0;
  }

 private:
  pcre2_code* code_;
  pcre2_match_data* data_;
};

TEST(RegexParityTest, RandomPatternsMatchAsInPcre2) {
  constexpr uint64_t kSeed = 20'261;
  constexpr int kNumPatterns = 6'000, kNumTexts = 12;
  PatternMaker maker(kSeed);
  int num_refused = 0, num_compared = 0, num_matching = 0;
  for (int i = 0; i < kNumPatterns; ++i) {
    const std::string pattern = maker.Pattern();
    const Reference reference(pattern);
    const bool whole = maker.Chance(2), is_json = maker.Chance(2);
    ExprStore store(size_t{16} << 20);
    const auto expr =
        RegexExpr(&store, pattern,
                  {.spelling = is_json ? Spelling::kJsonString : Spelling::kText, .whole = whole});
    if (!reference.ok() || absl::IsUnimplemented(expr.status())) {
      ++num_refused;
      continue;
    }
    ASSERT_TRUE(expr.ok()) << pattern << ": " << expr.status();
    for (int j = 0; j < kNumTexts; ++j) {
      const std::string text = maker.Text();
      const std::optional<bool> expected = reference.Matches(text, whole);
      if (!expected.has_value()) continue;
      ++num_compared;
      num_matching += *expected;
      ASSERT_EQ(Matches(&store, *expr, is_json ? JsonSpelling(text) : text), *expected)
          << "seed " << kSeed << ", pattern " << i << ": " << testing::PrintToString(pattern)
          << (whole ? " as a whole" : "") << (is_json ? " in JSON" : "") << " with "
          << testing::PrintToString(text);
    }
    ASSERT_FALSE(store.overflowed()) << pattern;
  }
  // The comparison is worth something: most patterns are compared, with both outcomes.
  EXPECT_LT(num_refused, kNumPatterns / 5);
  EXPECT_GT(num_matching, num_compared / 5);
  EXPECT_LT(num_matching, num_compared * 4 / 5);
  RecordProperty("refused", num_refused);
  RecordProperty("compared", num_compared);
  RecordProperty("matching", num_matching);
}

}  // namespace
}  // namespace quire
