#include "server/text/tokenizer/models/unigram_model.h"

#include <limits>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/text/tokenizer/test_tokenizers.h"

namespace quire {
namespace {

using nlohmann::json;
using testing::AddToken;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Make;
using testing::Tokens;
using testing::UnigramJson;

std::string Error(const json& tokenizer) {
  return std::string(Tokenizer::FromJson(tokenizer.dump()).status().message());
}

TEST(UnigramModelTest, TheHighestSumOfScoresWins) {
  const auto tokenizer = Make(UnigramJson(
      {{"a", 0}, {"b", 0}, {"c", 0}, {"d", 0}, {"cd", 1}, {"ab", 2}, {"abc", 5}, {"abcd", 10}}));
  EXPECT_THAT(Tokens(*tokenizer, "abcdacd"), ElementsAre("abcd", "a", "cd"));
  EXPECT_THAT(Tokens(*tokenizer, "abcabd"), ElementsAre("abc", "ab", "d"));
}

TEST(UnigramModelTest, OfEqualSumsTheFirstFoundStays) {
  const auto tokenizer =
      Make(UnigramJson({{"a", -1}, {"b", -1}, {"c", -1}, {"ab", -2}, {"bc", -2}, {"abc", -3}}));
  EXPECT_THAT(Tokens(*tokenizer, "ab"), ElementsAre("ab"));
  EXPECT_THAT(Tokens(*tokenizer, "abc"), ElementsAre("abc"));
  EXPECT_THAT(Tokens(*tokenizer, "bcab"), ElementsAre("bc", "ab"));
}

TEST(UnigramModelTest, ScoresThatAddUpToNearlyTheSameAreReadAsTheReferenceDoes) {
  // The nearest doubles add up to the same, for which "aé" would stay; the reference reads others.
  const auto tokenizer = Make(UnigramJson(
      {{"a", -13.681245208571708}, {"é", -5.367717521961298}, {"aé", -19.048962730533006}}));
  EXPECT_THAT(Tokens(*tokenizer, "aé"), ElementsAre("a", "é"));
}

TEST(UnigramModelTest, TheBestOfAllSpellings) {
  // Against every way to cut short words of two letters.
  std::mt19937 random(3);
  testing::Pieces pieces;
  for (const char* text : {"a", "b", "aa", "ab", "ba", "abb", "bab", "aaba", "bbbb"}) {
    pieces.emplace_back(text, -static_cast<double>(random() % 1000) / 64);
  }
  const auto tokenizer = Make(UnigramJson(pieces));
  const auto score_of = [&](std::string_view text) {
    for (const auto& [piece, score] : pieces) {
      if (piece == text) return score;
    }
    return -std::numeric_limits<double>::infinity();
  };
  for (uint32_t letters = 0; letters < 1 << 9; ++letters) {
    std::string word;
    for (int i = 0; i < 9; ++i) word += letters >> i & 1 ? 'a' : 'b';
    double best = -std::numeric_limits<double>::infinity();
    for (uint32_t cuts = 0; cuts < 1 << 8; ++cuts) {
      double sum = 0;
      size_t begin = 0;
      for (size_t end = 1; end <= word.size(); ++end) {
        if (end < word.size() && !(cuts >> (end - 1) & 1)) continue;
        sum += score_of(word.substr(begin, end - begin));
        begin = end;
      }
      best = std::max(best, sum);
    }
    double sum = 0;
    for (const std::string& token : Tokens(*tokenizer, word)) sum += score_of(token);
    ASSERT_EQ(sum, best) << word;
  }
}

TEST(UnigramModelTest, UnknownCharactersMakeOneTokenOrBytes) {
  json file = UnigramJson({{"a", -1}, {"b", -2}});
  EXPECT_THAT(Tokens(*Make(file), "aéxbx"), ElementsAre("a", "<unk>", "b", "<unk>"));
  file["model"]["byte_fallback"] = true;
  EXPECT_THAT(Tokens(*Make(file), "aéb"), ElementsAre("a", "<unk>", "b"));  // no byte tokens
  file = UnigramJson({{"a", -1}, {"<0xC3>", 0}, {"<0xA9>", 0}});
  file["model"]["byte_fallback"] = true;
  EXPECT_THAT(Tokens(*Make(file), "aé"), ElementsAre("a", "<0xC3>", "<0xA9>"));
  EXPECT_THAT(Tokens(*Make(file), "éxa"), ElementsAre("<unk>", "a"));  // x has no byte token
  file["model"]["byte_fallback"] = false;
  EXPECT_THAT(Tokens(*Make(file), "aé"), ElementsAre("a", "<unk>"));
}

TEST(UnigramModelTest, AnUnknownCharacterIsWorseThanTheWorstPiece) {
  EXPECT_THAT(Tokens(*Make(UnigramJson({{"a", -1}, {"ab", -11.5}})), "ab"), ElementsAre("ab"));
  // The unknown token's score counts among all scores, too.
  EXPECT_THAT(Tokens(*Make(UnigramJson({{"a", -1}, {"ab", -20}}, /*unk_score=*/-5)), "ab"),
              ElementsAre("ab"));
}

TEST(UnigramModelTest, TextNeverMakesASpecialToken) {
  json file = UnigramJson({{"<e>", 9}, {"<", -1}, {"e", -1}, {">", -1}, {"e>", -1}});
  EXPECT_THAT(Tokens(*Make(file), "<e>"), ElementsAre("<e>"));
  AddToken(&file, "<e>", {{"special", true}});
  EXPECT_THAT(Tokens(*Make(file), "<e>"), ElementsAre("<", "e>"));
  EXPECT_THAT(Tokens(*Make(file), "<e>", {.parse_special_tokens = true}), ElementsAre("<e>"));
}

TEST(UnigramModelTest, OfEqualPiecesTheLastCounts) {
  json file = UnigramJson({{"ab", 5}, {"a", -1}, {"b", -1}, {"ab", -9}});
  EXPECT_THAT(Tokens(*Make(file), "ab"), ElementsAre("a", "b"));
}

TEST(UnigramModelTest, ErrorsNameWhatIsWrong) {
  json file = UnigramJson({{"a", -1}});
  file["model"]["unk_id"] = nullptr;
  EXPECT_THAT(Error(file), HasSubstr("unk_id"));
  file["model"]["unk_id"] = 2;
  EXPECT_THAT(Error(file), HasSubstr("unk_id"));
  for (const char* vocab :
       {"[[\"a\"]]", "[[1, \"a\"]]", "[[\"a\", 1, 2]]", "[\"a\"]", "[[\"a\", null]]",
        "[[[\"a\", 1]]]", "[{\"a\": 1}]", "[[\"a\", \"b\"]]", "[1]"}) {
    file["model"]["vocab"] = json::parse(vocab);
    EXPECT_THAT(Error(file), HasSubstr("must list pairs of a text and a number")) << vocab;
  }
  for (const char* vocab : {"[]", "{\"a\": 0}"}) {
    file["model"]["vocab"] = json::parse(vocab);
    EXPECT_THAT(Error(file), HasSubstr("Unigram needs")) << vocab;
  }
  file["model"]["vocab"] = json::array();
  std::string text = file.dump();
  text.replace(text.find("[]", text.find("vocab")), 2, R"([["a", 1.79769313486231563240e308]])");
  EXPECT_THAT(std::string(Tokenizer::FromJson(text, "").status().message()),
              HasSubstr("a score that is out of range"));
  file = UnigramJson({{std::string(2000, 'a'), -1}});
  EXPECT_THAT(Error(file), HasSubstr("a token of 2000 bytes"));
  file = UnigramJson({{"a", -1}});
  file["pre_tokenizer"] = {{"type", "ByteLevel"}};
  EXPECT_THAT(Error(file), HasSubstr("ByteLevel"));
  file = UnigramJson({{"a", -1}});
  file["model"]["type"] = "BPE";
  EXPECT_THAT(Error(file), HasSubstr("BPE needs"));
}

TEST(UnigramModelTest, TheCacheChangesNothing) {
  const json file = UnigramJson({{"a", -1}, {"b", -2}, {"ab", -2.5}, {"é", -3}, {"aé", -3.5}});
  const auto warm = Make(file);
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const std::string text = "abaéx" + testing::RandomText(seed, 5);
    EXPECT_EQ(Tokens(*warm, text), Tokens(*Make(file), text));
    EXPECT_EQ(Tokens(*warm, text), Tokens(*Make(file), text));
  }
}

TEST(UnigramModelTest, WorkGrowsAsTheText) {
  constexpr size_t kLongest = 16;
  UnigramOptions options = {{"<unk>"}, {0}, /*unk_id=*/0, /*byte_fallback=*/false};
  const std::string run(kLongest, 'a');
  for (size_t size = 1; size <= kLongest; ++size) {
    options.texts.push_back(std::string_view(run).substr(0, size));
    options.scores.push_back(-1);
  }
  const auto model = UnigramModel::Create(options, {});
  ASSERT_TRUE(model.ok()) << model.status();
  for (const size_t num_bytes : {size_t{1} << 10, size_t{1} << 15, size_t{1} << 20}) {
    ModelScratch scratch;
    std::vector<TokenId> ids;
    (*model)->Encode(std::string(num_bytes, 'a'), &scratch, &ids);
    EXPECT_EQ(ids.size(), num_bytes / kLongest);
    EXPECT_LE(scratch.num_steps, static_cast<int64_t>(num_bytes * (kLongest + 1)));
  }
}

}  // namespace
}  // namespace quire
