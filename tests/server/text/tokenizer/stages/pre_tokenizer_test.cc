#include "server/text/tokenizer/stages/pre_tokenizer.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/text/tokenizer/regex/known_patterns.h"
#include "tests/server/text/tokenizer/test_tokenizers.h"

namespace quire {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Pieces = std::vector<std::string>;

Pieces Split(const json& pre_tokenizer, std::string_view text, bool at_start = true) {
  const absl::StatusOr<PreTokenizer> parsed = PreTokenizer::Parse(pre_tokenizer);
  if (!parsed.ok()) return {"error: " + std::string(parsed.status().message())};
  RegexScratch scratch;
  Pieces pieces;
  const auto add = [&](const Piece& piece) {
    pieces.emplace_back(piece.text);
    return absl::OkStatus();
  };
  EXPECT_TRUE(parsed->Apply({text, at_start}, &scratch, add).ok());
  return pieces;
}

Pieces Split(const char* pre_tokenizer, std::string_view text, bool at_start = true) {
  return Split(json::parse(pre_tokenizer), text, at_start);
}

json SplitOn(const char* behavior, const char* kind = "String", const char* pattern = "-",
             bool invert = false) {
  return {{"type", "Split"},
          {"behavior", behavior},
          {"invert", invert},
          {"pattern", {{kind, pattern}}}};
}

TEST(PreTokenizerTest, NullKeepsOnePiece) {
  EXPECT_THAT(Split("null", "a b"), ElementsAre("a b"));
  EXPECT_THAT(Split("null", ""), ElementsAre());
}

TEST(PreTokenizerTest, SplitBehaviors) {
  constexpr char kText[] = "the-final--countdown-";
  EXPECT_THAT(Split(SplitOn("Removed"), kText), ElementsAre("the", "final", "countdown"));
  EXPECT_THAT(Split(SplitOn("Isolated"), kText),
              ElementsAre("the", "-", "final", "-", "-", "countdown", "-"));
  EXPECT_THAT(Split(SplitOn("MergedWithPrevious"), kText),
              ElementsAre("the-", "final-", "-", "countdown-"));
  EXPECT_THAT(Split(SplitOn("MergedWithNext"), kText),
              ElementsAre("the", "-final", "-", "-countdown", "-"));
  EXPECT_THAT(Split(SplitOn("Contiguous"), kText),
              ElementsAre("the", "-", "final", "--", "countdown", "-"));
}

TEST(PreTokenizerTest, SplitAtTheStartOfAText) {
  EXPECT_THAT(Split(SplitOn("MergedWithPrevious"), "--a"), ElementsAre("-", "-", "a"));
  EXPECT_THAT(Split(SplitOn("MergedWithNext"), "--a"), ElementsAre("-", "-a"));
  EXPECT_THAT(Split(SplitOn("Contiguous"), "--a"), ElementsAre("--", "a"));
}

TEST(PreTokenizerTest, SplitByRegexAndInverted) {
  EXPECT_THAT(Split(SplitOn("Isolated", "Regex", "\\d+"), "ab12c"), ElementsAre("ab", "12", "c"));
  EXPECT_THAT(Split(SplitOn("Removed", "Regex", "\\d+", true), "ab12c3"), ElementsAre("12", "3"));
  EXPECT_THAT(Split(SplitOn("MergedWithNext", "Regex", "(?=[A-Z])"), "aBcD"),
              ElementsAre("a", "Bc", "D"));
  EXPECT_THAT(Split(SplitOn("Isolated", "Regex", "(?=[A-Z])"), "aBcD"),
              ElementsAre("a", "Bc", "D"));
}

TEST(PreTokenizerTest, ByteLevel) {
  EXPECT_THAT(Split(R"({"type": "ByteLevel", "add_prefix_space": false})", "It's  12 über!"),
              ElementsAre("It", "'s", " ", " 12", " über", "!"));
  EXPECT_THAT(Split(R"({"type": "ByteLevel", "add_prefix_space": true})", "ab"),
              ElementsAre(" ab"));
  EXPECT_THAT(Split(R"({"type": "ByteLevel", "add_prefix_space": true})", " ab"),
              ElementsAre(" ab"));
  EXPECT_THAT(
      Split(R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false})", "a b"),
      ElementsAre("a b"));
  EXPECT_THAT(
      Split(R"({"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true},
                        {"type": "ByteLevel", "add_prefix_space": true, "use_regex": false}]})",
            "a1"),
      ElementsAre(" a", " 1"));
}

TEST(PreTokenizerTest, Llama3AndQwen2) {
  constexpr char kText[] = "I'LL pay $1234\n\n  now_ (a)\t";
  EXPECT_THAT(Split(testing::SplitThenBytes(PatternText(KnownPattern::kLlama3)), kText),
              ElementsAre("I", "'LL", " pay", " $", "123", "4", "\n\n", " ", " now", "_", " (", "a",
                          ")", "\t"));
  EXPECT_THAT(Split(testing::SplitThenBytes(PatternText(KnownPattern::kQwen2)), "12 3\r\n"),
              ElementsAre("1", "2", " ", "3", "\r\n"));
}

TEST(PreTokenizerTest, Metaspace) {
  const auto metaspace = [](const char* scheme, bool split) {
    return json{
        {"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", scheme}, {"split", split}};
  };
  EXPECT_THAT(Split(metaspace("always", true), "a  b"), ElementsAre("▁a", "▁", "▁b"));
  EXPECT_THAT(Split(metaspace("always", false), "a b"), ElementsAre("▁a▁b"));
  EXPECT_THAT(Split(metaspace("always", true), " a"), ElementsAre("▁a"));
  EXPECT_THAT(Split(metaspace("never", true), "a b"), ElementsAre("a", "▁b"));
  EXPECT_THAT(Split(metaspace("first", true), "a b"), ElementsAre("▁a", "▁b"));
  EXPECT_THAT(Split(metaspace("first", true), "a b", /*at_start=*/false), ElementsAre("a", "▁b"));
  EXPECT_THAT(
      Split(R"({"type": "Metaspace", "replacement": "_", "add_prefix_space": false})", "a b"),
      ElementsAre("a", "_b"));
  json after_split = {{"type", "Sequence"},
                      {"pretokenizers", {SplitOn("Isolated"), metaspace("first", false)}}};
  EXPECT_THAT(Split(after_split, "a-b"), ElementsAre("▁a", "-", "b"));
}

TEST(PreTokenizerTest, ByCharacterClasses) {
  EXPECT_THAT(Split(R"({"type": "Digits", "individual_digits": true})", "a12b"),
              ElementsAre("a", "1", "2", "b"));
  EXPECT_THAT(Split(R"({"type": "Digits", "individual_digits": false})", "a12b½"),
              ElementsAre("a", "12", "b", "½"));
  EXPECT_THAT(Split(R"({"type": "Punctuation"})", "Hey! $5。"),
              ElementsAre("Hey", "!", " ", "$", "5", "。"));
  EXPECT_THAT(Split(R"({"type": "Punctuation", "behavior": "Removed"})", "a!b"),
              ElementsAre("a", "b"));
  EXPECT_THAT(Split(R"({"type": "Whitespace"})", "Hey man! é_1"),
              ElementsAre("Hey", "man", "!", "é_1"));
  EXPECT_THAT(Split(R"({"type": "WhitespaceSplit"})", " Hey\u3000man! "),
              ElementsAre("Hey", "man!"));
  EXPECT_THAT(Split(R"({"type": "CharDelimiterSplit", "delimiter": "-"})", "a-b-"),
              ElementsAre("a", "b"));
}

TEST(PreTokenizerTest, ErrorsNameTheComponent) {
  const auto error = [](const char* pre_tokenizer) { return Split(pre_tokenizer, "")[0]; };
  EXPECT_THAT(error(R"({"type": "UnicodeScripts"})"),
              HasSubstr("\"UnicodeScripts\" is not supported"));
  EXPECT_THAT(error(R"({"type": "Metaspace", "replacement": "ab"})"), HasSubstr("one character"));
  EXPECT_THAT(error(R"({"type": "Metaspace", "replacement": ""})"), HasSubstr("one character"));
  EXPECT_THAT(error(R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "x"})"),
              HasSubstr("\"x\""));
  EXPECT_THAT(error(R"({"type": "Split", "pattern": {"String": "a"}, "behavior": "x"})"),
              HasSubstr("\"x\""));
  EXPECT_THAT(error(R"({"type": "Split", "pattern": {"Regex": "["}, "behavior": "Isolated"})"),
              HasSubstr("regular expression"));
  EXPECT_THAT(
      error(
          R"({"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"}, {"type": "Digits"}]})"),
      HasSubstr("\"Digits\" after ByteLevel"));
}

// Both steps match in the working memory of one call, and the first goes on after the second;
// U+1C89 is a character that PCRE2 does not know by itself.
TEST(PreTokenizerTest, StepsTakeTurns) {
  const json steps = {SplitOn("Isolated", "Regex", "\\d"), SplitOn("Isolated", "Regex", "\\p{Lu}")};
  const json sequence = {{"type", "Sequence"}, {"pretokenizers", steps}};
  EXPECT_THAT(Split(sequence, "aBc1\u1C89d2E"),
              ElementsAre("a", "B", "c", "1", "\u1C89", "d", "2", "E"));
}

// However long a text is, its pieces are not kept: the first is handed on before the last is found.
TEST(PreTokenizerTest, AnErrorOfTheSinkEndsTheCutting) {
  for (const char* kind : {"String", "Regex"}) {
    const auto parsed = PreTokenizer::Parse(SplitOn("Isolated", kind));
    ASSERT_TRUE(parsed.ok());
    RegexScratch scratch;
    int num_pieces = 0;
    const auto sink = [&](const Piece&) {
      return ++num_pieces == 3 ? absl::CancelledError("enough") : absl::OkStatus();
    };
    EXPECT_EQ(parsed->Apply({"a-b-c-d-e", true}, &scratch, sink).message(), "enough");
    EXPECT_EQ(num_pieces, 3);
  }
}

TEST(PreTokenizerTest, RefusesMoreStepsThanTheStackHolds) {
  json steps = json::array();
  for (int i = 0; i < 65; ++i) steps.push_back(SplitOn("Isolated"));
  const json sequence = {{"type", "Sequence"}, {"pretokenizers", steps}};
  EXPECT_THAT(Split(sequence, "a"), ElementsAre(HasSubstr("more than 64 steps")));
}

}  // namespace
}  // namespace quire
