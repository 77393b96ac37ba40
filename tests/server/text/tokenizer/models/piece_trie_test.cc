#include "server/text/tokenizer/models/piece_trie.h"

#include <map>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace quire {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

using Found = std::vector<std::pair<size_t, int32_t>>;

Found Prefixes(const PieceTrie& trie, std::string_view text) {
  Found found;
  trie.VisitPrefixes(
      text, [&](size_t num_bytes, int32_t value) { found.emplace_back(num_bytes, value); });
  return found;
}

TEST(PieceTrieTest, FindsEveryPrefixFromTheShortest) {
  const PieceTrie trie({{"abc", 3}, {"a", 0}, {"b", 7}, {"abcd", 1}, {"é", 2}});
  EXPECT_THAT(Prefixes(trie, "abcx"), ElementsAre(Pair(1, 0), Pair(3, 3)));
  EXPECT_THAT(Prefixes(trie, "ab"), ElementsAre(Pair(1, 0)));
  EXPECT_THAT(Prefixes(trie, "éa"), ElementsAre(Pair(2, 2)));
  EXPECT_THAT(Prefixes(trie, "x"), IsEmpty());
  EXPECT_THAT(Prefixes(trie, ""), IsEmpty());
}

TEST(PieceTrieTest, AnEmptyTrieHasNothing) {
  EXPECT_THAT(Prefixes(PieceTrie(), "a"), IsEmpty());
  EXPECT_THAT(Prefixes(PieceTrie(std::vector<PieceTrie::Piece>()), "a"), IsEmpty());
  EXPECT_EQ(PieceTrie().Find("a"), PieceTrie::kNoValue);
}

TEST(PieceTrieTest, TakesNoMoreStepsThanTheLongestText) {
  const PieceTrie trie({{"aaaa", 0}});
  const auto ignore = [](size_t, int32_t) {};
  EXPECT_EQ(trie.VisitPrefixes(std::string(1000, 'a'), ignore), 5u);
  EXPECT_EQ(trie.VisitPrefixes("b", ignore), 1u);
}

TEST(PieceTrieTest, EqualsAMap) {
  std::mt19937 random(5);
  std::map<std::string, int32_t> map;
  // Every byte at the root, and long and short texts below few of them.
  for (int i = 0; i < 256; ++i) map.emplace(std::string(1, static_cast<char>(i)), i);
  for (int32_t i = 256; i < 2000; ++i) {
    std::string text;
    const size_t size = 1 + random() % 9;
    while (text.size() < size) text += static_cast<char>(random() % 3 * 127);
    map.emplace(text, i);
  }
  const PieceTrie trie(std::vector<PieceTrie::Piece>(map.begin(), map.end()));
  for (int round = 0; round < 5000; ++round) {
    std::string text;
    const size_t size = random() % 12;
    while (text.size() < size) text += static_cast<char>(random() % 4 * 85);
    Found expected;
    for (size_t n = 1; n <= text.size(); ++n) {
      const auto it = map.find(text.substr(0, n));
      EXPECT_EQ(trie.Find(text.substr(0, n)), it == map.end() ? PieceTrie::kNoValue : it->second);
      if (it != map.end()) expected.emplace_back(n, it->second);
    }
    ASSERT_EQ(Prefixes(trie, text), expected);
  }
}

}  // namespace
}  // namespace quire
