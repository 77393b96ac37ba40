#include "server/text/tokenizer/regex/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/text/tokenizer/regex/known_patterns.h"
#include "tests/server/text/tokenizer/test_tokenizers.h"

namespace quire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<Span> FindSpans(const Regex& regex, std::string_view text) {
  RegexScratch scratch;
  std::vector<Span> spans;
  const absl::Status status = regex.FindSpans(text, &scratch, [&](const Span& span) {
    spans.push_back(span);
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  return spans;
}

// The matches of `pattern` in `text`, as texts; gaps as "(gap)".
std::vector<std::string> Parts(std::string_view pattern, std::string_view text) {
  const absl::StatusOr<Regex> regex = Regex::Compile(pattern);
  EXPECT_TRUE(regex.ok()) << regex.status();
  std::vector<std::string> parts;
  if (!regex.ok()) return parts;
  size_t covered = 0;
  for (const Span& span : FindSpans(*regex, text)) {
    EXPECT_EQ(span.begin, covered);
    covered = span.end;
    const std::string part(text.substr(span.begin, span.end - span.begin));
    parts.push_back(span.is_match ? part : "(" + part + ")");
  }
  EXPECT_EQ(covered, text.size());
  return parts;
}

TEST(RegexTest, FindsMatchesAndGaps) {
  EXPECT_THAT(Parts("b+", "abbcb"), ElementsAre("(a)", "bb", "(c)", "b"));
  EXPECT_THAT(Parts("x", "abc"), ElementsAre("(abc)"));
  EXPECT_THAT(Parts("x", ""), ElementsAre());
}

TEST(RegexTest, EmptyMatchesCutBetweenCharacters) {
  EXPECT_THAT(Parts("(?=[A-Z])", "aBéC"), ElementsAre("(a)", "", "(Bé)", "", "(C)"));
  EXPECT_THAT(Parts("a*", "aab"), ElementsAre("aa", "(b)", ""));
}

// Pieces of one character are not searched; those that empty matches cut are.
TEST(RegexTest, PiecesOfOneCharacter) {
  EXPECT_THAT(Parts("[a-y\\x00]", "a"), ElementsAre("a"));
  EXPECT_THAT(Parts("[a-y\\x00]", "z"), ElementsAre("(z)"));
  EXPECT_THAT(Parts("[a-y\\x00]", std::string_view("\0", 1)), ElementsAre(std::string("\0", 1)));
  EXPECT_THAT(Parts("\x7F", "\x7F"), ElementsAre("\x7F"));
  EXPECT_THAT(Parts("a(?=b)", "a"), ElementsAre("(a)"));
  EXPECT_THAT(Parts("(?=a)", "a"), ElementsAre("", "(a)"));
  EXPECT_THAT(Parts("a|$", "b"), ElementsAre("(b)", ""));
  EXPECT_THAT(Parts("é", "é"), ElementsAre("é"));
}

TEST(RegexTest, ClassesAreThoseOfUnicode16) {
  EXPECT_THAT(Parts("\\s", "a\u180Eb\u2003c"), ElementsAre("(a\u180Eb)", "\u2003", "(c)"));
  EXPECT_THAT(Parts("\\S+", "a\u180Eb\u2003c"), ElementsAre("a\u180Eb", "(\u2003)", "c"));
  EXPECT_THAT(Parts("\\p{L}+", "a\u1C89\U00010D4A1"), ElementsAre("a\u1C89\U00010D4A", "(1)"));
  EXPECT_THAT(Parts("\\p{Han}+", "日\U00031350\u3001本"),
              ElementsAre("日\U00031350", "(\u3001)", "本"));
}

TEST(RegexTest, WordClassesAreOnigurumas) {
  EXPECT_THAT(Parts("\\w+", "e\u0301_\u203F2!"), ElementsAre("e\u0301_\u203F2", "(!)"));
  EXPECT_THAT(Parts("\\W", "a\u0301-"), ElementsAre("(a\u0301)", "-"));
  EXPECT_THAT(Parts("[\\w-]+", "a\u0301-+"), ElementsAre("a\u0301-", "(+)"));
  EXPECT_THAT(Parts("\\w+", "a\u2167\u3007Ⓐ🅰²½+"), ElementsAre("a\u2167\u3007Ⓐ🅰²½", "(+)"));
  EXPECT_THAT(Parts("[\\w]+", "aⅧⒶ²½"), ElementsAre("aⅧⒶ", "(²½)"));
  EXPECT_THAT(Parts("\\w\\b", "aⅧ²"), ElementsAre("(aⅧ)", "²"));
  EXPECT_THAT(Parts("e\\b", "e\u0301 e"), ElementsAre("(e\u0301 )", "e"));
  EXPECT_THAT(Parts("\\h+", "0aFg"), ElementsAre("0aF", "(g)"));
}

TEST(RegexTest, LinesAreRubys) {
  EXPECT_THAT(Parts("^b$", "a\nb\nc"), ElementsAre("(a\n)", "b", "(\nc)"));
  EXPECT_THAT(Parts(".+", "a\rb\nc"), ElementsAre("a\rb", "(\n)", "c"));
}

TEST(RegexTest, RefusesWhatPcreReadsDifferently) {
  for (const char* pattern :
       {"[a&&b]", "[a[bc]]", "[[:alpha:]]", "a{2}+", "(?m:.)", "(?x) a", "\\Ka", "\\R", "\\X",
        "\\Ca", "(?R)", "(*UTF)a", "\\1", "[\\W]", "\\p{L", "[]a]", "\\", "[a"}) {
    const absl::StatusOr<Regex> regex = Regex::Compile(pattern);
    EXPECT_EQ(regex.status().code(), absl::StatusCode::kInvalidArgument) << pattern;
    EXPECT_THAT(std::string(regex.status().message()), HasSubstr(pattern));
  }
}

TEST(RegexTest, SyntaxErrorsNameTheirPlace) {
  const absl::Status status = Regex::Compile("ab(c").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("offset 4"));
  EXPECT_FALSE(Regex::Compile("\\p{NoSuchScript}").ok());
  EXPECT_FALSE(Regex::Compile(std::string(1000, '(') + std::string(1000, ')')).ok());
}

TEST(RegexTest, GivesUpInsteadOfRunningForever) {
  const absl::StatusOr<Regex> regex = Regex::Compile("(?:a|aa)+(?=d)");
  ASSERT_TRUE(regex.ok());
  RegexScratch scratch;
  const absl::Status status = regex->FindSpans(absl::StrCat(std::string(200, 'a'), "c"), &scratch,
                                               [](const Span&) { return absl::OkStatus(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
}

// The steps that PCRE2 takes to cut `text` by `pattern`: one per item of the pattern that it tries.
int64_t CountSteps(std::string_view pattern, std::string_view text) {
  const std::string translated = TranslatePattern(pattern).value();
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_AUTO_CALLOUT, &error, &offset, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  int64_t num_steps = 0;
  const auto count = [](pcre2_callout_block*, void* steps) {
    ++*static_cast<int64_t*>(steps);
    return 0;
  };
  pcre2_set_callout(context, count, &num_steps);
  size_t at = 0;
  while (at < text.size() && pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()),
                                         text.size(), at, PCRE2_NO_UTF_CHECK, data, context) > 0) {
    at = pcre2_get_ovector_pointer(data)[1];
  }
  EXPECT_EQ(at, text.size()) << "these patterns leave no gaps";
  pcre2_match_data_free(data);
  pcre2_match_context_free(context);
  pcre2_code_free(code);
  return num_steps;
}

TEST(RegexTest, TheStepsOfWellKnownPatternsGrowAsTheText) {
  constexpr char kO200k[] =
      R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
      R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
      R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  constexpr char kLlama2[] = "\u2581+[^\u2581]*|[^\u2581]+";
  for (const std::string_view pattern :
       {PatternText(KnownPattern::kGpt2), PatternText(KnownPattern::kLlama3),
        PatternText(KnownPattern::kQwen2), std::string_view(kO200k), std::string_view(kLlama2)}) {
    for (const std::string_view unit : {"a", "A", "日", "½", "!", " ", "\n", " \n", "\u0301", "'s",
                                        "aA", "A\u0301", "\u2581", "1a", "! "}) {
      for (const std::string_view tail : {"", "a", "1", "!", "\n"}) {
        std::string text;
        while (text.size() < 20000) text.append(unit);
        text.append(tail);
        ASSERT_LT(CountSteps(pattern, text), static_cast<int64_t>(40 * text.size()))
            << pattern << " on " << unit << ", then " << tail;
      }
    }
  }
}

TEST(KnownPatternsTest, AreRecognisedToTheLetter) {
  for (KnownPattern pattern : {KnownPattern::kGpt2, KnownPattern::kLlama3, KnownPattern::kQwen2}) {
    EXPECT_EQ(RecognizePattern(PatternText(pattern)), pattern);
    EXPECT_EQ(RecognizePattern(std::string(PatternText(pattern)) + " "), std::nullopt);
  }
}

TEST(KnownPatternsTest, EqualTheRegularExpressions) {
  for (KnownPattern pattern : {KnownPattern::kGpt2, KnownPattern::kLlama3, KnownPattern::kQwen2}) {
    const absl::StatusOr<Regex> regex = Regex::Compile(PatternText(pattern));
    ASSERT_TRUE(regex.ok()) << regex.status();
    for (uint64_t seed = 0; seed < 4000; ++seed) {
      const std::string text = testing::RandomText(seed, 1 + seed % 60);
      std::vector<Span> spans;
      const auto collect = [&](const Span& span) {
        spans.push_back(span);
        return absl::OkStatus();
      };
      ASSERT_TRUE(FindKnownPattern(pattern, text, collect).ok());
      ASSERT_EQ(spans, FindSpans(*regex, text)) << PatternText(pattern) << "\n" << text;
    }
  }
}

}  // namespace
}  // namespace quire
