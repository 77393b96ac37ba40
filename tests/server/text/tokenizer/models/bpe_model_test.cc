#include "server/text/tokenizer/models/bpe_model.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/text/tokenizer/test_tokenizers.h"

namespace quire {
namespace {

using nlohmann::json;
using testing::AddToken;
using testing::ByteLevelJson;
using ::testing::ElementsAre;
using testing::Make;
using testing::SentencePieceJson;
using testing::Tokens;

TEST(BpeModelTest, MergesByRankThenFromTheLeft) {
  const json by_rank = ByteLevelJson({{"b", "c"}, {"a", "b"}, {"a", "bc"}});
  EXPECT_THAT(Tokens(*Make(by_rank), "abc"), ElementsAre("abc"));
  EXPECT_THAT(Tokens(*Make(by_rank), "ab"), ElementsAre("ab"));
  EXPECT_THAT(Tokens(*Make(ByteLevelJson({{"a", "b"}, {"b", "c"}})), "abc"),
              ElementsAre("ab", "c"));
  EXPECT_THAT(Tokens(*Make(ByteLevelJson({{"a", "a"}})), "aaaaa"), ElementsAre("aa", "aa", "a"));
  EXPECT_THAT(Tokens(*Make(ByteLevelJson({{"a", "a"}, {"aa", "aa"}})), "aaaaaa"),
              ElementsAre("aaaa", "aa"));
}

TEST(BpeModelTest, BothFormsOfMergesAreTheSame) {
  json pairs = ByteLevelJson({{"a", "b"}, {"ab", "c"}});
  json texts = pairs;
  texts["model"]["merges"] = {"#version: 0.2", "a b", "ab c"};
  EXPECT_EQ(Tokens(*Make(texts), "abcab"), Tokens(*Make(pairs), "abcab"));
  EXPECT_THAT(Tokens(*Make(texts), "abcab"), ElementsAre("abc", "ab"));
}

TEST(BpeModelTest, BytesOfCharactersMerge) {
  const json tokenizer = ByteLevelJson({{"Ã", "©"}, {"Ġ", "Ã©"}});  // é is C3 A9
  EXPECT_THAT(Tokens(*Make(tokenizer), "é é"), ElementsAre("Ã©", "ĠÃ©"));
}

TEST(BpeModelTest, IgnoreMergesTakesAWholePiece) {
  json tokenizer = ByteLevelJson({});
  tokenizer["model"]["vocab"]["Ġabc"] = 256;  // no merges lead to it
  EXPECT_THAT(Tokens(*Make(tokenizer), " abc"), ElementsAre("Ġ", "a", "b", "c"));
  tokenizer["model"]["ignore_merges"] = true;
  EXPECT_THAT(Tokens(*Make(tokenizer), " abc"), ElementsAre("Ġabc"));
  EXPECT_THAT(Tokens(*Make(tokenizer), " abcd"), ElementsAre("Ġ", "a", "b", "c", "d"));
}

TEST(BpeModelTest, NoPieceIsATokenThatIsOnlyAdded) {
  json tokenizer = ByteLevelJson({});
  tokenizer["model"]["ignore_merges"] = true;
  AddToken(&tokenizer, "abc", {{"single_word", true}});
  const auto made = Make(tokenizer);
  EXPECT_THAT(Tokens(*made, "abc1"), ElementsAre("a", "b", "c", "1"));
  EXPECT_THAT(Tokens(*made, "1abc"), ElementsAre("1", "a", "b", "c"));
  EXPECT_THAT(Tokens(*made, "abc abc"), ElementsAre("abc", "Ġ", "abc"));
}

TEST(BpeModelTest, NoCharacterOrByteIsATokenThatIsOnlyAdded) {
  json tokenizer = SentencePieceJson({"▁", "a"}, {});
  AddToken(&tokenizer, "é", {{"single_word", true}, {"normalized", false}});
  AddToken(&tokenizer, "b", {{"special", true}});
  EXPECT_THAT(Tokens(*Make(tokenizer), "aéa"), ElementsAre("▁", "a", "<0xC3>", "<0xA9>", "a"));
  EXPECT_THAT(Tokens(*Make(tokenizer), "b"), ElementsAre("▁", "<0x62>"));
  tokenizer["model"]["vocab"].erase("<0x62>");
  AddToken(&tokenizer, "<0x62>", {{"special", true}});
  tokenizer["added_tokens"].back()["id"] = 1000;
  EXPECT_THAT(Tokens(*Make(tokenizer), "b"), ElementsAre("▁", "<unk>"));
}

TEST(BpeModelTest, BlanksThatAreOnlyAddedTokensAreUnknown) {
  json tokenizer = SentencePieceJson({"a"}, {});
  tokenizer["model"]["byte_fallback"] = false;
  AddToken(&tokenizer, "▁", {{"single_word", true}, {"normalized", false}});
  // All of it is unknown: one token, though there are two words.
  EXPECT_THAT(Tokens(*Make(tokenizer), "x y"), ElementsAre("<unk>"));
}

TEST(BpeModelTest, NoAffixedCharacterIsATokenThatIsOnlyAdded) {
  json tokenizer = {{"model",
                     {{"type", "BPE"},
                      {"vocab", {{"a", 0}, {"b", 1}}},
                      {"merges", json::array()},
                      {"continuing_subword_prefix", "##"}}}};
  tokenizer["added_tokens"] = json::array();
  AddToken(&tokenizer, "##b", {{"normalized", false}});
  EXPECT_THAT(Tokens(*Make(tokenizer), "ab"), ElementsAre("a"));
}

TEST(BpeModelTest, FallsBackToBytes) {
  const json tokenizer = SentencePieceJson({"▁", "a"}, {{"▁", "a"}});
  EXPECT_THAT(Tokens(*Make(tokenizer), "aé"), ElementsAre("▁a", "<0xC3>", "<0xA9>"));
}

TEST(BpeModelTest, FallsBackToBytesOfAffixes) {
  json tokenizer = SentencePieceJson({"a"}, {});
  tokenizer.erase("normalizer");
  tokenizer["model"]["continuing_subword_prefix"] = "#";
  tokenizer["model"]["end_of_word_suffix"] = "/";
  EXPECT_THAT(Tokens(*Make(tokenizer), "abc"),
              ElementsAre("a", "<0x23>", "<0x62>", "<0x23>", "<0x63>", "<0x2F>"));
}

TEST(BpeModelTest, ByteLevelFallsBackToBytesOfItsAlphabet) {
  json tokenizer = ByteLevelJson({});
  tokenizer["model"]["byte_fallback"] = true;
  tokenizer["model"]["vocab"].erase("Ġ");  // a blank
  tokenizer["model"]["vocab"]["<0xC4>"] = 256;
  tokenizer["model"]["vocab"]["<0xA0>"] = 257;
  EXPECT_THAT(Tokens(*Make(tokenizer), "a "), ElementsAre("a", "<0xC4>", "<0xA0>"));
}

TEST(BpeModelTest, UnknownCharactersAreFusedOrNot) {
  json tokenizer = SentencePieceJson({"▁", "a"}, {});
  tokenizer["model"]["byte_fallback"] = false;
  EXPECT_THAT(Tokens(*Make(tokenizer), "xya"), ElementsAre("▁", "<unk>", "a"));
  tokenizer["model"]["fuse_unk"] = false;
  EXPECT_THAT(Tokens(*Make(tokenizer), "xya"), ElementsAre("▁", "<unk>", "<unk>", "a"));
  tokenizer["model"]["unk_token"] = nullptr;
  EXPECT_THAT(Tokens(*Make(tokenizer), "xya"), ElementsAre("▁", "a"));
}

TEST(BpeModelTest, AffixesMarkPlacesInAWord) {
  json tokenizer = {{"model",
                     {{"type", "BPE"},
                      {"vocab", {{"a", 0}, {"##b", 1}, {"##c</w>", 2}, {"a</w>", 3}, {"ab", 4}}},
                      {"merges", {"a ##b"}},
                      {"continuing_subword_prefix", "##"},
                      {"end_of_word_suffix", "</w>"}}}};
  tokenizer["pre_tokenizer"] = {{"type", "WhitespaceSplit"}};
  EXPECT_THAT(Tokens(*Make(tokenizer), "abc a"), ElementsAre("ab", "##c</w>", "a</w>"));
}

TEST(BpeModelTest, TextNeverMakesASpecialToken) {
  json tokenizer = ByteLevelJson({{"a", "b"}, {"ab", "c"}});
  tokenizer["model"]["ignore_merges"] = true;
  AddToken(&tokenizer, "abc", {{"special", true}});
  EXPECT_THAT(Tokens(*Make(tokenizer), "abc"), ElementsAre("ab", "c"));
  EXPECT_THAT(Tokens(*Make(tokenizer), "abc", {.parse_special_tokens = true}), ElementsAre("abc"));
}

TEST(BpeModelTest, LongTextWithoutPiecesIsTheSameCutAtItsWords) {
  // The first model may cut at "▁"; a merge across it forbids that to the second, which never uses
  // the merge.
  const testing::Merges merges = {{"▁", "a"}, {"b", "a"},   {"▁a", "ba"},
                                  {"▁", "▁"}, {"▁▁", "▁▁"}, {"a", "b"}};
  const std::vector<std::string> alphabet = {"▁", "a", "b", "c"};
  testing::Merges with_crossing = merges;
  with_crossing.push_back({"c", "▁"});
  const auto cut = Make(SentencePieceJson(alphabet, merges));
  const auto whole = Make(SentencePieceJson(alphabet, with_crossing));
  std::string text;
  uint64_t state = 7;
  for (int i = 0; i < 20000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    text += "  aabb"[(state >> 33) % 6];
  }
  EXPECT_EQ(Tokens(*cut, text), Tokens(*whole, text));
  EXPECT_THAT(Tokens(*whole, "c b"), ElementsAre("▁", "c▁", "b"));
}

TEST(BpeModelTest, LongTextIsTheSameCutWhereNoMergeJoins) {
  // The first model cuts between {a, b} and {c, d}. The second may not: it has merges there, but
  // only for tokens with an 'x', which the text does not have.
  const testing::Merges merges = {{"a", "b"},  {"c", "d"}, {"ab", "ab"}, {"b", "a"},
                                  {"d", "cd"}, {"a", "a"}, {"d", "d"},   {"dcd", "cd"}};
  testing::Merges with_joins = merges;
  for (const std::string left : {"a", "b", "c", "d"}) with_joins.push_back({"x", left});
  for (const std::string right : {"a", "b", "c", "d"}) with_joins.push_back({right, "x"});
  for (const std::string left : {"a", "b", "c", "d"}) {
    for (const std::string right : {"a", "b", "c", "d"})
      with_joins.push_back({"x" + left, right + "x"});
  }
  std::string text;
  uint64_t state = 7;
  for (int i = 0; i < 20000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    text += "abcd"[state >> 62];
  }
  EXPECT_EQ(Tokens(*Make(ByteLevelJson(merges)), text),
            Tokens(*Make(ByteLevelJson(with_joins)), text));
}

TEST(BpeModelTest, BytesAroundOneThatIsDroppedMerge) {
  json tokenizer = ByteLevelJson({{"a", "b"}});
  tokenizer["model"]["vocab"].erase("c");
  EXPECT_THAT(Tokens(*Make(tokenizer), "acb"), ElementsAre("ab"));
}

// Encodes `word` with a model whose merges double runs of 'a', and returns the queue operations it
// took.
int64_t QueuePops(size_t num_bytes) {
  const std::vector<std::string> texts = {"a", "aa", "aaaa", "aaaaaaaa"};
  Vocabulary vocabulary;
  EXPECT_TRUE(vocabulary.Fill({texts.begin(), texts.end()}, {0, 1, 2, 3}).ok());
  const std::vector<BpeModel::Merge> merges = {{"a", "a"}, {"aa", "aa"}, {"aaaa", "aaaa"}};
  const auto model = BpeModel::Create(&vocabulary, {}, merges, {});
  EXPECT_TRUE(model.ok());
  ModelScratch scratch;
  std::vector<TokenId> ids;
  (*model)->Encode(std::string(num_bytes, 'a'), &scratch, &ids);
  EXPECT_EQ(ids.size(), num_bytes / 8);
  return scratch.num_steps;
}

TEST(BpeModelTest, WorkGrowsAsTheWord) {
  for (const size_t num_bytes : {size_t{1} << 10, size_t{1} << 15, size_t{1} << 20}) {
    EXPECT_LT(QueuePops(num_bytes), static_cast<int64_t>(3 * num_bytes));
  }
}

TEST(BpeModelTest, TheCacheChangesNothing) {
  const json tokenizer = ByteLevelJson({{"t", "h"}, {"th", "e"}, {"Ġ", "the"}, {"i", "n"}});
  const auto warm = Make(tokenizer);
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const std::string text = "the in thin the" + testing::RandomText(seed, 30) + " the in";
    ASSERT_EQ(Tokens(*warm, text), Tokens(*Make(tokenizer), text));
  }
}

TEST(BpeModelTest, ErrorsNameTheToken) {
  const auto error = [](const json& tokenizer) {
    return std::string(Tokenizer::FromJson(tokenizer.dump()).status().message());
  };
  json tokenizer = ByteLevelJson({{"a", "b"}});
  tokenizer["model"]["unk_token"] = "<none>";
  EXPECT_THAT(error(tokenizer),
              ::testing::HasSubstr("unk_token \"<none>\" is not in the vocabulary"));
  tokenizer = ByteLevelJson({{"a", "b"}});
  tokenizer["model"]["merges"] = {"a b", "a zz"};
  EXPECT_THAT(error(tokenizer), ::testing::HasSubstr("\"zz\" is not in the vocabulary"));
  tokenizer["model"]["merges"] = {"a c"};
  EXPECT_THAT(error(tokenizer), ::testing::HasSubstr("\"ac\" is not in the vocabulary"));
  for (const char* token : {"ac", "zz"}) AddToken(&tokenizer, token, json::object());
  EXPECT_THAT(error(tokenizer), ::testing::HasSubstr("\"ac\" is not in the vocabulary"));
  tokenizer["model"]["merges"] = {"a b", "a c"};
  EXPECT_THAT(error(tokenizer), ::testing::HasSubstr("\"ac\" is not in the vocabulary"));
  for (const char* merge : {"a zz", "zz a"}) {
    tokenizer["model"]["merges"] = {merge};
    EXPECT_THAT(error(tokenizer), ::testing::HasSubstr("\"zz\" is not in the vocabulary"));
  }
}

}  // namespace
}  // namespace quire
