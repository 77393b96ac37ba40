// Regular expressions: for each construct, texts that match and texts that do not.
#include "server/grammar/regex/regex_expr.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "server/grammar/expr/automaton.h"
#include "server/text/utf8.h"
#include "tests/server/grammar/regex/matches.h"

namespace quire {
namespace {

using ::testing::HasSubstr;
using Texts = std::vector<std::string_view>;

// In both spellings.
void Expect(std::string_view pattern, bool whole, const Texts& matching, const Texts& others) {
  for (const Spelling spelling : {Spelling::kText, Spelling::kJsonString}) {
    ExprStore store;
    const auto expr = RegexExpr(&store, pattern, {.spelling = spelling, .whole = whole});
    ASSERT_TRUE(expr.ok()) << pattern << ": " << expr.status();
    const auto matches = [&](std::string_view text) {
      const bool is_json = spelling == Spelling::kJsonString;
      return Matches(&store, *expr, is_json ? JsonSpelling(text) : std::string(text));
    };
    for (const std::string_view text : matching)
      EXPECT_TRUE(matches(text)) << pattern << " should match " << testing::PrintToString(text);
    for (const std::string_view text : others)
      EXPECT_FALSE(matches(text)) << pattern << " matches " << testing::PrintToString(text);
    EXPECT_FALSE(store.overflowed());
  }
}

void Whole(std::string_view pattern, const Texts& matching, const Texts& others) {
  Expect(pattern, true, matching, others);
}

void Anywhere(std::string_view pattern, const Texts& matching, const Texts& others) {
  Expect(pattern, false, matching, others);
}

absl::Status ErrorOf(std::string_view pattern) {
  ExprStore store;
  return RegexExpr(&store, pattern, {}).status();
}

TEST(RegexExprTest, LiteralsAlternativesAndGroups) {
  Whole("", {""}, {"a"});
  Whole("abc", {"abc"}, {"", "ab", "abcd", "xabc"});
  Whole("a|bc|", {"a", "bc", ""}, {"b", "abc"});
  Whole("(a|b)(?:c|d)(?<n>e)(?P<m>f)(?'k'g)(?#no, a comment)", {"acefg", "bdefg"}, {"abefg"});
  Whole("(?|(a)|(b))", {"a", "b"}, {"ab"});
  Whole("é☃😀", {"é☃😀"}, {"é☃", "e"});
  Whole("a{b}{,c]}-", {"a{b}{,c]}-"}, {"a"});
}

TEST(RegexExprTest, Escapes) {
  Whole(R"(\t\n\r\f\v\a\e)", {"\t\n\r\f\v\a\x1B"}, {"tnrfv"});
  Whole(R"(\x41\u0042\u{43}\x{44}\U00000045)", {"ABCDE"}, {"A"});
  Whole(R"(\ud83d\ude00|\u{1F600}\0\012)", {"😀", std::string_view("😀\0\n", 6)}, {""});
  Whole(R"(\cA\cz)", {"\x01\x1A"}, {"Az"});
  Whole(R"(\.\*\+\?\(\)\[\]\{\}\|\^\$\\\/\-\_\é)", {".*+?()[]{}|^$\\/-_é"}, {""});
  Whole(R"([\b\-\]\\\x41-\x43])", {"\b", "-", "]", "\\", "B"}, {"b", "D", "x"});
  // A surrogate without its other half is in no text.
  Whole(R"(a|\ud800)", {"a"}, {"", "\xED\xA0\x80"});
  Whole(R"([^\ud800-\udfff])", {"a", "😀"}, {""});
}

TEST(RegexExprTest, Classes) {
  Whole("[a-cx]", {"a", "b", "c", "x"}, {"d", "", "ab", "-"});
  Whole("[^a-c]", {"d", "é", "\n", "😀"}, {"a", "", "dd"});
  Whole("[-a]|[b-]|[c-\\d]|[\\w-.]", {"-", "a", "b", "c", "5", ".", "_"}, {"!"});
  Whole("[0-9-_ ().]", {"-", "_", " ", "5"}, {":", ","});
  Whole("[[a]]", {"[]", "a]"}, {"[", "a"});
  Whole("[$^|.*]", {"$", "^", "|", ".", "*"}, {"a"});
  Whole("a[]|b", {"b"}, {"a", "a]"});
  Whole("[^]", {"]", "\n", "😀"}, {""});
  Whole("[à-ü☀-☃😀-😂]", {"é", "☁", "😁"}, {"a", "☄", "😃", "\xC3"});
  Whole("[[:alpha:][:digit:]_][[:^space:]]", {"a!", "5x", "_é"}, {"!a", "a "});
}

TEST(RegexExprTest, NamedClassesAreThoseOfEcma) {
  Whole("\\d", {"0", "9"}, {"a", "٣"});
  Whole("\\D", {"a", "٣", "\n"}, {"5"});
  Whole("\\w", {"a", "Z", "_", "5"}, {"-", "é"});
  Whole("\\W", {"-", "é"}, {"a"});
  Whole("\\s", {" ", "\t", "\v", "\xC2\xA0", "\xEF\xBB\xBF", "\xE2\x80\xA8"}, {"a", "\x1F"});
  Whole("\\S", {"a", "é"}, {" ", "\xC2\xA0"});
  Whole("[^\\s\\d]", {"a"}, {" ", "5"});
  Whole(".", {"a", "é", "\t"}, {"", "\n", "\r", "\xE2\x80\xA8", "\xE2\x80\xA9"});
  Whole("\\p{Lu}\\p{L}\\pN\\P{Lu}\\p{^Lu}", {"Éé5a5", "Aé٣é☃"}, {"éA5aa", "AA5AA"});
  Whole("\\p{gc=Nd}[\\p{Sc}\\p{Punctuation}]\\p{Any}", {"5€a", "5!a"}, {"5aa"});
}

TEST(RegexExprTest, Repeats) {
  Whole("a*b+c?", {"b", "aabbc", "abc"}, {"a", "ac", "bcc"});
  Whole("a*?b+?c??", {"b", "aabbc"}, {"ac"});
  Whole("a{2}", {"aa"}, {"a", "aaa"});
  Whole("a{2,}", {"aa", "aaaaa"}, {"a"});
  Whole("a{1,3}?", {"a", "aaa"}, {"", "aaaa"});
  Whole("a{,2}", {"", "aa"}, {"aaa"});
  Whole("(ab|c){2,3}", {"abab", "abcc", "ccab"}, {"ab", "cccc"});
  Whole("(a?){3}(){5}", {"", "aaa"}, {"aaaa"});
  Whole("x{0}y", {"y"}, {"xy"});
  Whole("(?:é{2}){2}", {"éééé"}, {"ééé"});
  ExprStore store;
  EXPECT_TRUE(RegexExpr(&store, "[a-z]{100000}", {}).ok());
  EXPECT_LT(store.size(), 100u);
}

TEST(RegexExprTest, Flags) {
  Whole("(?i)aé[b-d]k", {"AÉCK", "aébk", "aÉd\xE2\x84\xAA"}, {"aééé"});
  Whole("a(?i:b)c", {"abc", "aBc"}, {"Abc", "aBC"});
  Whole("(?i:a(?-i:b)c)", {"abC", "Abc"}, {"aBc"});
  Whole("(a(?i)b|c)d", {"aBd", "Cd"}, {"ABd", "cD"});
  Whole("(?i)[^a]", {"b", "B"}, {"a", "A"});
  Whole("(?s).", {"\n", "\xE2\x80\xA8"}, {""});
  Whole("(?s-s:.)|(?is:.b)", {"a", "\nB"}, {"\n"});
  Whole("(?x) a b # a comment\n [ ]c", {"ab c"}, {"abc", "a b c"});
  Anywhere("(?m)^b$", {"b", "a\nb", "b\na", "a\r\nb\r\nc"}, {"ab", "ba\n"});
}

TEST(RegexExprTest, APatternMayMatchAnywhere) {
  Anywhere("b", {"b", "abc", "\nb\n", "☃b"},
           {"", "a",
            "\xFF"
            "b"});
  Anywhere("", {"", "a"}, {"\xFF"});
  Anywhere("a*", {"", "b"}, {"\xC3"});
  Anywhere("[a-c]{2,3}", {"ab", "xabcay"}, {"axb"});
  Anywhere(".*x.*", {"x", "\nx\n"}, {"", "y"});
  Anywhere("n", {"n"}, {"\n", "\\", "\x01"});
  Anywhere("u", {"u"}, {"\x01", "\x1F"});
}

TEST(RegexExprTest, Anchors) {
  Anywhere("^a", {"a", "ab"}, {"ba", ""});
  Anywhere("a$", {"a", "ba"}, {"ab", "a\n"});
  Anywhere("^a$", {"a"}, {"aa", "ab", "a\n"});
  Anywhere("^$", {""}, {"a", "\n"});
  Anywhere("\\Aa\\z|\\Ab\\Z", {"a", "b"}, {"ab", "b\n"});
  Anywhere("^a|b$", {"a", "ax", "b", "xb"}, {"xa", "bx"});
  Anywhere("(^a|^b)c$", {"ac", "bc"}, {"xac", "acx", "c"});
  Anywhere("^(a|b)$", {"a", "b"}, {"ab", ""});
  Anywhere("(^|,)x", {"x", "xy", "a,x"}, {"ax", ""});
  Anywhere("x(,|$)", {"x", "ax", "x,y"}, {"xy"});
  Anywhere("a^b|a$b", {}, {"ab", "a", "b"});
  Anywhere("^^a$$", {"a"}, {"aa"});
  Anywhere("(?:a|^)(?:b|$)", {"", "a", "ab", "xab", "b", "bx", "xa"}, {"x", "xb"});
  Anywhere("^(?:^a)?$", {"", "a"}, {"aa"});
  Whole("^a$|b", {"a", "b"}, {"ab"});
}

TEST(RegexExprTest, AnchorsInRepeats) {
  Anywhere("^((^|, )(foo|bar))+$", {"foo", ", foo", "bar, foo, foo"}, {"", "foo, ", "foobar"});
  Anywhere("^(foo(, |$))+$", {"foo", "foo, ", "foo, foo"}, {", foo", "foofoo", ""});
  Anywhere("^((^|,)a($|;)){2}$", {}, {"a;,a,", "a", "a;", "a;a"});
  Anywhere("^((^|,)a($|;)){2}", {"a;,a", ",a;,a;", "a;,a;b"}, {"a;,ab", "a;a", "a;", ";,a"});
  Anywhere("(^a|b)*c", {"c", "abc", "xc", "bac"}, {"ab", ""});
  Anywhere("^(^a|b){2,3}$", {"ab", "bb", "abb", "bbb"}, {"a", "aab", "ba", "bab", "abbb"});
  Anywhere("^(^|a){3}$", {"", "aaa", "a"}, {"aaaa", "b"});
  Anywhere("^(a|b$)+$", {"a", "aab", "b"}, {"ba", "bb", ""});
  Anywhere("^(a|$){3}$", {"", "a", "aaa"}, {"aaaa"});
  Whole("(?:^a|b$|c)*", {"", "a", "acb", "ab", "b", "ccc"}, {"ca", "bc", "aa"});
}

TEST(RegexExprTest, Lookaheads) {
  Anywhere("^(?!tag|category)$", {""}, {"tag", "a"});
  Anywhere("^(?!org\\.)[a-z.]+$", {"com.a", "orgx"}, {"org.a", ""});
  Anywhere("^(?=.*[a-z])(?=.*[0-9]).{3,}$", {"ab1", "1xx"}, {"abc", "123", "a1"});
  Anywhere("^[a-z](?:(?!.*--)[a-z-]*[a-z])?$", {"a", "ab", "a-b"}, {"a--b", "-a", "a-"});
  Anywhere("a(?=b)", {"ab", "xaby"}, {"ac", "a"});
  Anywhere("a(?!b)", {"a", "ac", "aba"}, {"ab", "b"});
  Anywhere("^a(?!b$)", {"a", "abc", "ac"}, {"ab", "b"});
  Anywhere("a(?=b|$)", {"a", "xab"}, {"ac"});
  Anywhere("^(?!)|b", {"b"}, {"a", ""});
  Anywhere("^(?!a*b)*c", {"c"}, {"d"});
  Anywhere("^(?!a)+c", {"c"}, {"ac"});
  Whole("(?!.*\")[^a]*", {"b", "bc"}, {"a", "b\"", "\""});
  Whole("(?=ab)a.*", {"ab", "abc"}, {"a", "ac"});
  Whole("(?!\\n)[^x]", {"a", "\t"}, {"\n", "x"});
}

TEST(RegexExprTest, LookaheadsInRepeats) {
  Anywhere("^((?!foo).)*$", {"", "fo", "barfo"}, {"foo", "xfoox", "\n"});
  Anywhere("^((?!a|bc)[a-d])+$", {"d", "bbd", "cb"}, {"", "a", "dbc", "x"});
  Anywhere("^/\\*(?:(?!\\*/)[^x])*\\*/$", {"/**/", "/*a*/", "/***/"}, {"/*/", "/*a*/*/", "/*x*/"});
  Anywhere("^(?:(?!ab|cde).)*b", {"b", "xb", "cdb"}, {"ab", "abb", "cdeb"});
  Anywhere("^((?!aa).){2}$", {"ab", "ba"}, {"aa", "a"});
  Anywhere("^(?:(?!_)\\w)+$", {"a", "a1"}, {"_", "a_"});
  Anywhere("^(?:(?=[a-f])\\w+,?)+$", {"abc", "a1"}, {"1", "x"});
  Anywhere("^(?:(?!b)[a-c]{2}){2}$", {"abca", "acac"}, {"baca", "acba"});
}

TEST(RegexExprTest, LookbehindsOfOneCharacter) {
  Anywhere("^[a-z-]+(?<!-)$", {"a", "a-b"}, {"a-", "-"});
  Anywhere("(?<=[,;])a", {",a", "x;ab"}, {"a", "xa"});
  Anywhere("(?<![,;])a", {"a", "xa", ",aa"}, {",a"});
  Anywhere("(?<=^|,)a", {"a", ",a"}, {"xa"});
  Anywhere("(?<!^|,)a", {"xa", "aa"}, {"a", ",a"});
  Anywhere("(?<!^)a", {"xa"}, {"a"});
  Whole("a?(?<=a)b", {"ab"}, {"b"});
}

TEST(RegexExprTest, WordBoundaries) {
  Anywhere("\\bfoo\\b", {"foo", "a foo!", "(foo)", "éfooé"}, {"foot", "afoo", "_foo", "foo1"});
  Anywhere("\\Boo\\B", {"foot", "xooy"}, {"foo", "oot", "oo"});
  Anywhere("^\\w+\\b.\\b\\w+$", {"a-b", "ab cd"}, {"ab", "a--b"});
  Anywhere("\\b", {"a", " a"}, {"", "  ", "é"});
  Anywhere("\\B", {"", "aa", " "}, {"a"});
  Anywhere("a*\\b!", {"a!", "b!"}, {"!", " !"});
  Anywhere("^(?:\\bab?\\b ?){1,3}$", {"a", "a ab a"}, {"aa", "a ac"});
}

TEST(RegexExprTest, TermsAreFew) {
  const auto num_terms = [](std::string_view pattern) {
    ExprStore store;
    EXPECT_TRUE(RegexExpr(&store, pattern, {.spelling = Spelling::kJsonString}).ok()) << pattern;
    return store.size();
  };
  EXPECT_LE(num_terms("^[a-zA-Z0-9_.-]{1,253}$"), 60u);
  EXPECT_LE(num_terms("foo"), 60u);
  EXPECT_LE(num_terms("^[a-zA-Z0-9._%+-]+@[a-zA-Z0-9.-]+\\.[a-zA-Z]{2,}$"), 70u);
  EXPECT_LE(
      num_terms("^(0|[1-9]\\d*)\\.(0|[1-9]\\d*)\\.(0|[1-9]\\d*)(?:-((?:0|[1-9]\\d*|\\d*[a-zA-Z-]"
                "[0-9a-zA-Z-]*)(?:\\.(?:0|[1-9]\\d*|\\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
                "(?:\\+([0-9a-zA-Z-]+(?:\\.[0-9a-zA-Z-]+)*))?$"),
      110u);
  std::string ipv6 = "^(?:(?:[0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}|::(?:[0-9a-fA-F]{1,4}:){0,6}";
  for (int i = 1; i < 7; ++i)
    ipv6 += "|(?:[0-9a-fA-F]{1,4}:){1," + std::to_string(i) + "}(?::[0-9a-fA-F]{1,4}){1,6}";
  EXPECT_LE(num_terms(ipv6 + ")$"), 200u);
}

// Once a part has matched, every text may follow, whatever else could have matched.
TEST(RegexExprTest, NothingIsRememberedBehindAMatch) {
  ExprStore store;
  const ExprId any = AnyText(&store, Spelling::kText);
  for (const std::string_view pattern : {"a[a-z]{2,9}|b", "^[a-z]+", "(?:ab|a)b*", "^a{1,5}b?"}) {
    ExprId expr = *RegexExpr(&store, pattern, {});
    for (const char c : std::string_view("abc"))
      expr = Derivative(&store, expr, static_cast<uint8_t>(c));
    EXPECT_EQ(expr, any) << pattern;
  }
}

// Without care, each of these parts doubles the ways through what follows it.
TEST(RegexExprTest, SharedEndsAreLookedAtOnce) {
  std::string edges, dead;
  for (int i = 0; i < 60; ++i) {
    edges += "(?:a?\\b|b?\\B)";
    dead += "(?:a|b\\b)";
  }
  Whole(edges, {"", "a"}, {"c"});
  auto grammar = std::make_unique<Grammar>();
  const auto expr = RegexExpr(&grammar->store, dead + "(?=aa)bb", {});
  ASSERT_TRUE(expr.ok()) << expr.status();
  const RuleId rule = grammar->AddRule(*expr);
  const Automaton automaton(std::move(grammar), {});
  EXPECT_TRUE(automaton.StartOf(rule).is_dead());
}

// Dead ends are seen, so a pattern without texts is known to have none.
TEST(RegexExprTest, APatternWithoutTextsIsDead) {
  for (const std::string_view pattern : {"^a(?!a|b)[ab]$", "a^b", "[]", "(?=a)b", "^(?!a*$)a+$"}) {
    auto grammar = std::make_unique<Grammar>();
    const auto expr = RegexExpr(&grammar->store, pattern, {});
    ASSERT_TRUE(expr.ok()) << expr.status();
    const RuleId rule = grammar->AddRule(*expr);
    const Automaton automaton(std::move(grammar), {});
    EXPECT_TRUE(automaton.StartOf(rule).is_dead()) << pattern;
  }
}

TEST(RegexExprTest, SyntaxErrorsSayWhere) {
  const struct {
    std::string_view pattern;
    const char* message;
  } kCases[] = {
      {"ab)", "at byte 2 of the pattern: this ) is alone"},
      {"a(b", "at byte 1 of the pattern: the group lacks its )"},
      {"[a", "at byte 0 of the pattern: the class lacks its ]"},
      {"*a", "at byte 0 of the pattern: this quantifier has nothing to repeat"},
      {"a|+", "at byte 2 of the pattern: this quantifier"},
      {"{2}", "at byte 0 of the pattern: this quantifier"},
      {"^*", "at byte 1 of the pattern: this quantifier"},
      {"a**", "at byte 1 of the pattern: a quantifier follows another"},
      {"a{2}{3}", "a quantifier follows another"},
      {"a{3,2}", "at byte 1 of the pattern: the second count is below the first"},
      {"a{100001}", "a count is beyond 100000"},
      {"a{99999999999999999999}", "a count is beyond 100000"},
      {"[b-a]", "at byte 1 of the pattern: the range"},
      {"a\\", "at byte 1 of the pattern: nothing is behind"},
      {"\\y", "the escape \\y is unknown"},
      {"\\x4", "at byte 0 of the pattern: an escape lacks hexadecimal digits"},
      {"\\u{110000}", "beyond U+10FFFF"},
      {"(?<1>a)", "the group's name"},
      {"(?ä:a)", "no kind of group"},
      {"a\xFF", "at byte 1 of the pattern: this is not UTF-8"},
  };
  for (const auto& [pattern, message] : kCases) {
    const absl::Status status = ErrorOf(pattern);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << pattern << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message)) << pattern;
  }
}

TEST(RegexExprTest, WhatHasNoMeaningHereIsNamed) {
  const struct {
    std::string_view pattern;
    const char* construct;
  } kCases[] = {
      {"(a)\\1", "at byte 3 of the pattern: a backreference"},
      {"(?<n>a)\\k<n>", "the escape \\k"},
      {"(?P<n>a)(?P=n)", "a backreference"},
      {"a++", "at byte 1 of the pattern: a possessive quantifier"},
      {"(?>a)", "an atomic group"},
      {"(a(?1)?)", "recursion"},
      {"(?R)", "recursion"},
      {"(?P>n)", "recursion"},
      {"(a)?(?(1)b)", "a condition"},
      {"(*ACCEPT)", "a verb"},
      {"(?<=ab)c", "a lookbehind of more than one character"},
      {"\\p{Greek}", "the property \\p{Greek}"},
      {"(?U)a", "a flag"},
      {"\\Q.\\E", "the escape \\Q"},
      {"^(\\ba\\b ?)+$", "a word boundary within a repeat"},
      {"^((?!a.*b)a.)*c", "within a repeat"},
  };
  for (const auto& [pattern, construct] : kCases) {
    const absl::Status status = ErrorOf(pattern);
    EXPECT_TRUE(absl::IsUnimplemented(status)) << pattern << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(construct)) << pattern;
  }
}

TEST(RegexExprTest, SizesAreBounded) {
  EXPECT_TRUE(absl::IsInvalidArgument(ErrorOf(std::string(70'000, 'a'))));
  EXPECT_TRUE(ErrorOf(std::string(60'000, 'a')).ok());
  std::string deep;
  for (int i = 0; i < 100; ++i) deep = "(" + deep + "a)*";
  EXPECT_TRUE(ErrorOf(deep).ok()) << ErrorOf(deep);
  EXPECT_TRUE(absl::IsInvalidArgument(ErrorOf("(" + deep + ")")));
  std::string properties;
  for (char32_t c = 0; c < 10'000; ++c) {
    properties += "[\\pL";
    AppendUtf8(0x4E00 + c, &properties);
    properties += "]";
  }
  EXPECT_TRUE(absl::IsInvalidArgument(ErrorOf(properties.substr(0, 60'000))));
  // Assertions in repeats in repeats, each of which is compiled several times.
  std::string anchored;
  for (int i = 0; i < 90; ++i) anchored = "(?:" + anchored + "^a|b$)*";
  EXPECT_TRUE(absl::IsUnimplemented(ErrorOf("x" + anchored + "$")));
}

}  // namespace
}  // namespace quire
