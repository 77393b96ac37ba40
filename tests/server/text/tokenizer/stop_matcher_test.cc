#include "server/text/tokenizer/stop_matcher.h"

#include "gtest/gtest.h"

namespace quire {
namespace {

struct Outcome {
  std::string text;
  std::optional<size_t> matched;
  bool operator==(const Outcome&) const = default;
};

void PrintTo(const Outcome& outcome, std::ostream* out) {
  *out << '"' << outcome.text << "\", "
       << (outcome.matched ? static_cast<int>(*outcome.matched) : -1);
}

// Feeds `text` in parts of `part_bytes`.
Outcome Feed(const std::vector<std::string>& stops, std::string_view text, size_t part_bytes,
             bool include = false) {
  StopMatcher matcher(std::make_shared<StopStrings>(stops), include);
  Outcome outcome;
  for (size_t pos = 0; pos < text.size(); pos += part_bytes) {
    outcome.text.append(matcher.Append(text.substr(pos, part_bytes)));
  }
  outcome.text.append(matcher.Flush());
  outcome.matched = matcher.matched();
  return outcome;
}

void ExpectForAllParts(const std::vector<std::string>& stops, std::string_view text,
                       const Outcome& expected, bool include = false) {
  for (size_t part_bytes = 1; part_bytes <= text.size(); ++part_bytes) {
    EXPECT_EQ(Feed(stops, text, part_bytes, include), expected)
        << text << " in parts of " << part_bytes;
  }
}

StopMatcher MatcherOf(std::vector<std::string> stops) {
  return StopMatcher(std::make_shared<StopStrings>(std::move(stops)), false);
}

TEST(StopMatcherTest, WithoutStopStringsEverythingPassesAtOnce) {
  StopMatcher matcher = MatcherOf({});
  EXPECT_EQ(matcher.Append("hello"), "hello");
  EXPECT_EQ(matcher.Flush(), "");
  EXPECT_EQ(matcher.matched(), std::nullopt);
}

TEST(StopMatcherTest, FindsStopStringsAcrossParts) {
  ExpectForAllParts({"stop"}, "go on, stop here", {"go on, ", 0});
  ExpectForAllParts({"stop"}, "go on, sto", {"go on, sto", std::nullopt});
  ExpectForAllParts({"stop"}, "ststop", {"st", 0});
  ExpectForAllParts({"aab"}, "aaaaab!", {"aaa", 0});
  ExpectForAllParts({"abab"}, "abaabab", {"aba", 0});
  ExpectForAllParts({"日本"}, "x日日本y", {"x日", 0});
}

TEST(StopMatcherTest, TheFirstToBeCompleteWins) {
  ExpectForAllParts({"abcd", "c"}, "xabcdx", {"xab", 1});
  ExpectForAllParts({"d", "abc"}, "abcd", {"", 1});
}

TEST(StopMatcherTest, AtTheSamePlaceTheFirstInTheListWins) {
  ExpectForAllParts({"b", "ab"}, "xab", {"xa", 0});
  ExpectForAllParts({"ab", "b"}, "xab", {"x", 0});
}

TEST(StopMatcherTest, CanKeepTheStopString) {
  ExpectForAllParts({"stop"}, "go, stop here", {"go, stop", 0}, /*include=*/true);
  ExpectForAllParts({"b", "ab"}, "xabc", {"xab", 0}, /*include=*/true);
}

TEST(StopMatcherTest, HoldsBackOnlyWhatCouldBecomeAStopString) {
  StopMatcher matcher = MatcherOf({"\n\nUser:", "END"});
  EXPECT_EQ(matcher.Append("Hello\n"), "Hello");
  EXPECT_EQ(matcher.Append("\n"), "");
  EXPECT_EQ(matcher.Append("Us"), "");
  EXPECT_EQ(matcher.Append("ing E"), "\n\nUsing ");
  EXPECT_EQ(matcher.Append("N"), "");
  EXPECT_EQ(matcher.Append("E"), "EN");
  EXPECT_EQ(matcher.Flush(), "E");
}

TEST(StopMatcherTest, NothingComesAfterAMatch) {
  StopMatcher matcher = MatcherOf({"x"});
  EXPECT_EQ(matcher.Append("axb"), "a");
  EXPECT_EQ(matcher.matched(), 0u);
  EXPECT_EQ(matcher.stop_string(0), "x");
  EXPECT_EQ(matcher.Append("c"), "");
  EXPECT_EQ(matcher.Flush(), "");
}

TEST(StopMatcherTest, BeforeMinTokensAStopStringIsText) {
  StopMatcher matcher = MatcherOf({"ab"});
  EXPECT_EQ(matcher.Append("1ab2ab", /*may_stop=*/false), "1ab2ab");
  EXPECT_EQ(matcher.Append("a", /*may_stop=*/false), "");
  EXPECT_EQ(matcher.Append("b3"), "");
  EXPECT_EQ(matcher.matched(), 0u);
}

TEST(StopMatcherTest, AgreesWithASearchInTheWholeText) {
  uint64_t state = 1;
  const auto next = [&state](uint64_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
  };
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> stops(1 + next(3));
    for (std::string& stop : stops) {
      for (uint64_t length = 1 + next(4); length > 0; --length)
        stop += static_cast<char>('a' + next(2));
    }
    std::string text;
    for (uint64_t length = 1 + next(20); length > 0; --length)
      text += static_cast<char>('a' + next(3));
    size_t best_end = std::string::npos;
    Outcome expected = {text, std::nullopt};
    for (size_t i = 0; i < stops.size(); ++i) {
      const size_t at = text.find(stops[i]);
      if (at == std::string::npos || at + stops[i].size() >= best_end) continue;
      best_end = at + stops[i].size();
      expected = {text.substr(0, at), i};
    }
    ASSERT_EQ(Feed(stops, text, 1 + next(6)), expected) << text;
  }
}

}  // namespace
}  // namespace quire
