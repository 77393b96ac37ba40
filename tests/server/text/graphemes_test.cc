#include "server/text/graphemes.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/text/utf8.h"
#include "tests/server/text/tokenizer/test_tokenizers.h"

namespace quire {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Clusters(std::string_view text) {
  std::vector<std::string> clusters;
  while (!text.empty()) {
    clusters.emplace_back(text.substr(0, GraphemeBytes(text)));
    text.remove_prefix(clusters.back().size());
  }
  return clusters;
}

TEST(GraphemesTest, LineBreaksAndControlsStandAlone) {
  EXPECT_THAT(Clusters("\r\n\n\r\u0301a"), ElementsAre("\r\n", "\n", "\r", "\u0301", "a"));
  EXPECT_THAT(Clusters("a\u00AD\u0301"), ElementsAre("a", "\u00AD", "\u0301"));
  EXPECT_THAT(Clusters("ab"), ElementsAre("a", "b"));
}

TEST(GraphemesTest, MarksJoinWhatIsBeforeThem) {
  EXPECT_THAT(Clusters("e\u0301\u0323x"), ElementsAre("e\u0301\u0323", "x"));
  EXPECT_THAT(Clusters("a\u0903b\u200Cc\u200Dd"),
              ElementsAre("a\u0903", "b\u200C", "c\u200D", "d"));
  EXPECT_THAT(Clusters("\u0600a\u0600\n"), ElementsAre("\u0600a", "\u0600", "\n"));
}

TEST(GraphemesTest, Hangul) {
  EXPECT_THAT(Clusters("\u1100\u1161\u11A8\u1100"), ElementsAre("\u1100\u1161\u11A8", "\u1100"));
  EXPECT_THAT(Clusters("\u1100\u1100가\u11A8각\u1161"),
              ElementsAre("\u1100\u1100가\u11A8", "각", "\u1161"));
  EXPECT_THAT(Clusters("가각\u11A8"), ElementsAre("가", "각\u11A8"));
}

TEST(GraphemesTest, EmojiAndFlags) {
  EXPECT_THAT(Clusters("👩\u200D👩\u200D👧👍🏽"),
              ElementsAre("👩\u200D👩\u200D👧", "👍🏽"));
  EXPECT_THAT(Clusters("👩\u0301\u200D👧"), ElementsAre("👩\u0301\u200D👧"));
  EXPECT_THAT(Clusters("👩\u200D\u200D👧a\u200D👧"),
              ElementsAre("👩\u200D\u200D", "👧", "a\u200D", "👧"));
  EXPECT_THAT(Clusters("🇩🇪🇫🇷🇬a"), ElementsAre("🇩🇪", "🇫🇷", "🇬", "a"));
}

TEST(GraphemesTest, IndicConjuncts) {
  EXPECT_THAT(Clusters("\u0915\u094D\u0915\u0301"), ElementsAre("\u0915\u094D\u0915\u0301"));
  EXPECT_THAT(Clusters("\u0915\u094D\u200D\u0937"), ElementsAre("\u0915\u094D\u200D\u0937"));
  EXPECT_THAT(Clusters("\u0915\u0301\u0937"), ElementsAre("\u0915\u0301", "\u0937"));
  EXPECT_THAT(Clusters("\u0915\u094D\u200C\u0937"), ElementsAre("\u0915\u094D\u200C", "\u0937"));
  EXPECT_THAT(Clusters("a\u094D\u0937"), ElementsAre("a\u094D", "\u0937"));
}

TEST(GraphemesTest, KnowsUnicode17) {
  EXPECT_EQ(GraphemeClassOf(0x11B60), GraphemeClass::kExtend);
  EXPECT_EQ(GraphemeClassOf(0x5C8), GraphemeClass::kOther);
  EXPECT_EQ(GraphemeClassOf(0x10FFFF), GraphemeClass::kOther);
}

TEST(GraphemesTest, ClustersCoverEveryText) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const std::string text = testing::RandomText(seed, 100);
    std::string joined;
    for (const std::string& cluster : Clusters(text)) {
      ASSERT_EQ(FindInvalidUtf8(cluster), std::nullopt);
      joined += cluster;
    }
    ASSERT_EQ(joined, text);
  }
}

}  // namespace
}  // namespace quire
