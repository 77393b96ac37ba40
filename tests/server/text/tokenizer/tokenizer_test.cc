#include "server/text/tokenizer/tokenizer.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/text/tokenizer/test_tokenizers.h"

namespace quire {
namespace {

using nlohmann::json;
using testing::AddToken;
using testing::ByteLevelJson;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Make;
using testing::SentencePieceJson;
using testing::Tokens;

constexpr EncodeOptions kParse = {.add_special_tokens = true, .parse_special_tokens = true};
const json kSpecial = {{"special", true}};
const json kOrdinary = {{"special", false}, {"normalized", false}};

std::vector<std::string> SegmentTokens(const Tokenizer& tokenizer,
                                       const std::vector<Segment>& segments) {
  const auto ids = tokenizer.EncodeSegments(segments, /*add_special_tokens=*/false);
  EXPECT_TRUE(ids.ok()) << ids.status();
  std::vector<std::string> tokens;
  for (const TokenId id : *ids) tokens.emplace_back(tokenizer.IdToToken(id));
  return tokens;
}

TEST(TokenizerTest, SpecialTokensCountOnlyWhenAsked) {
  json file = ByteLevelJson({});
  AddToken(&file, "<e>", kSpecial);
  const auto tokenizer = Make(file);
  EXPECT_THAT(Tokens(*tokenizer, "a<e>", kParse), ElementsAre("a", "<e>"));
  EXPECT_THAT(Tokens(*tokenizer, "a<e>"), ElementsAre("a", "<", "e", ">"));
}

TEST(TokenizerTest, OrdinaryAddedTokensAlwaysCount) {
  json file = ByteLevelJson({});
  AddToken(&file, "<e>", kOrdinary);
  EXPECT_THAT(Tokens(*Make(file), "a<e>"), ElementsAre("a", "<e>"));
}

TEST(TokenizerTest, TheLongestAddedTokenWins) {
  json file = ByteLevelJson({});
  for (const char* token : {"<e", "<e>", "<e>x", "e>xy"}) AddToken(&file, token, kOrdinary);
  EXPECT_THAT(Tokens(*Make(file), "<e>xy<e"), ElementsAre("<e>x", "y", "<e"));
}

TEST(TokenizerTest, AddedTokensTakeBlanksAlongAndStandAlone) {
  json file = ByteLevelJson({});
  AddToken(&file, "<l>", {{"lstrip", true}});
  AddToken(&file, "<r>", {{"rstrip", true}});
  AddToken(&file, "foo", {{"single_word", true}});
  const auto tokenizer = Make(file);
  EXPECT_THAT(Tokens(*tokenizer, "a \n<l> b"), ElementsAre("a", "<l>", "Ġ", "b"));
  EXPECT_THAT(Tokens(*tokenizer, "a <r>\u3000 b"), ElementsAre("a", "Ġ", "<r>", "b"));
  EXPECT_THAT(Tokens(*tokenizer, "<r>  <l>"), ElementsAre("<r>", "<l>"));
  EXPECT_THAT(
      Tokens(*tokenizer, "foo afoo foo_ foo!"),
      ElementsAre("foo", "Ġ", "a", "f", "o", "o", "Ġ", "f", "o", "o", "_", "Ġ", "foo", "!"));
}

TEST(TokenizerTest, OfBlanksThatATokenTookOnlyOneWithoutLstripIsAToken) {
  json file = ByteLevelJson({});
  AddToken(&file, "<r>", {{"rstrip", true}});
  AddToken(&file, "\n", {{"lstrip", true}});
  AddToken(&file, "\t", json::object());
  AddToken(&file, "\r", {{"lstrip", true}, {"rstrip", true}});
  const auto tokenizer = Make(file);
  EXPECT_THAT(Tokens(*tokenizer, "<r>\na"), ElementsAre("<r>", "a"));
  EXPECT_THAT(Tokens(*tokenizer, "<r>\ta"), ElementsAre("<r>", "\t", "a"));
  EXPECT_THAT(Tokens(*tokenizer, "<r>\r a"), ElementsAre("<r>", "a"));
  EXPECT_THAT(Tokens(*tokenizer, "a \na"), ElementsAre("a", "\n", "a"));
}

TEST(TokenizerTest, NormalizedAddedTokensAreFoundInNormalizedText) {
  json file = ByteLevelJson({});
  file["normalizer"] = {{"type", "Lowercase"}};
  AddToken(&file, "Day", {{"normalized", true}});
  AddToken(&file, "[X]", {{"normalized", false}});
  const auto tokenizer = Make(file);
  EXPECT_THAT(Tokens(*tokenizer, "A DAY[X][x]"),
              ElementsAre("a", "Ġ", "Day", "[X]", "[", "x", "]"));
  EXPECT_EQ(tokenizer->Decode({tokenizer->TokenToId("Day").value()}, false), "day");
}

TEST(TokenizerTest, UserTextInATemplateMakesNoSpecialTokens) {
  json file = ByteLevelJson({});
  for (const char* token : {"<|im_start|>", "<|im_end|>", "<e>", "<e>x"})
    AddToken(&file, token, kSpecial);
  const auto tokenizer = Make(file);
  EXPECT_THAT(SegmentTokens(*tokenizer,
                            {{"<|im_start|>", true}, {"a<|im_end|>", false}, {"<|im_end|>", true}}),
              ElementsAre("<|im_start|>", "a", "<", "|", "i", "m", "_", "e", "n", "d", "|", ">",
                          "<|im_end|>"));
  // A token half by the template and half by the user counts neither way round, and spoils no
  // other.
  EXPECT_THAT(SegmentTokens(*tokenizer, {{"<", true}, {"e>", false}}), ElementsAre("<", "e", ">"));
  EXPECT_THAT(SegmentTokens(*tokenizer, {{"<e", false}, {">", true}}), ElementsAre("<", "e", ">"));
  EXPECT_THAT(SegmentTokens(*tokenizer, {{"<e>", true}, {"x", false}}), ElementsAre("<e>", "x"));
  // The template may write one in several parts.
  EXPECT_THAT(SegmentTokens(*tokenizer, {{"<", true}, {"e>", true}, {"x", false}}),
              ElementsAre("<e>", "x"));
}

TEST(TokenizerTest, SegmentsAreSplitAndMergedAsOneText) {
  const auto tokenizer = Make(ByteLevelJson({{"a", "b"}, {"Ġ", "ab"}}));
  EXPECT_THAT(SegmentTokens(*tokenizer, {{"x ", true}, {"a", false}, {"", true}, {"b", false}}),
              ElementsAre("x", "Ġab"));
}

TEST(TokenizerTest, EveryPieceBetweenSpecialTokensIsNormalizedByItself) {
  json file = SentencePieceJson({"▁", "a"}, {{"▁", "a"}});
  AddToken(&file, "<s>", kSpecial);
  EXPECT_THAT(Tokens(*Make(file), "a<s>a a", kParse), ElementsAre("▁a", "<s>", "▁a", "▁a"));
  file["normalizer"] = nullptr;
  file["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}};
  EXPECT_THAT(Tokens(*Make(file), "a<s>a a", kParse), ElementsAre("▁a", "<s>", "a", "▁a"));
  EXPECT_THAT(Tokens(*Make(file), "<s>a", kParse), ElementsAre("<s>", "a"));
}

TEST(TokenizerTest, PostProcessorsAddTokensAround) {
  json file = ByteLevelJson({});
  AddToken(&file, "<s>", kSpecial);
  AddToken(&file, "</s>", kSpecial);
  file["post_processor"] = json::parse(R"({"type": "Sequence", "processors": [{"type": "ByteLevel"},
      {"type": "TemplateProcessing", "pair": [],
       "single": [{"SpecialToken": {"id": "B", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                  {"SpecialToken": {"id": "E", "type_id": 0}}],
       "special_tokens": {"B": {"id": "B", "ids": [256], "tokens": ["<s>"]},
                          "E": {"id": "E", "ids": [257, 256], "tokens": ["</s>", "<s>"]}}}]})");
  EXPECT_THAT(Tokens(*Make(file), "a"), ElementsAre("<s>", "a", "</s>", "<s>"));
  EXPECT_THAT(Tokens(*Make(file), "a", {.add_special_tokens = false}), ElementsAre("a"));
  EXPECT_THAT(Tokens(*Make(file), ""), ElementsAre("<s>", "</s>", "<s>"));
  file["post_processor"] = {
      {"type", "RobertaProcessing"}, {"cls", {"<s>", 256}}, {"sep", {"</s>", 257}}};
  EXPECT_THAT(Tokens(*Make(file), "a"), ElementsAre("<s>", "a", "</s>"));
}

TEST(TokenizerTest, TheConfigNamesBosAndEos) {
  json file = ByteLevelJson({});
  AddToken(&file, "<s>", kSpecial);
  AddToken(&file, "</s>", kSpecial);
  const auto tokenizer = Make(file, R"({"bos_token": "<s>", "eos_token": {"content": "</s>"}})");
  EXPECT_EQ(tokenizer->bos_id(), 256);
  EXPECT_EQ(tokenizer->eos_id(), 257);
  EXPECT_THAT(Tokens(*tokenizer, "a"), ElementsAre("a"));
  EXPECT_EQ(Make(file)->bos_id(), std::nullopt);
  EXPECT_EQ(Make(file, R"({"bos_token": null})")->bos_id(), std::nullopt);
  // Only the post_processor says what comes around a text.
  constexpr char kAdd[] =
      R"({"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": true, "add_eos_token": true})";
  EXPECT_THAT(Tokens(*Make(file, kAdd), "a"), ElementsAre("a"));
  file["post_processor"] = {
      {"type", "RobertaProcessing"}, {"cls", {"<s>", 256}}, {"sep", {"</s>", 257}}};
  constexpr char kNoBos[] = R"({"bos_token": "<s>", "add_bos_token": false})";
  EXPECT_THAT(Tokens(*Make(file, kNoBos), "a"), ElementsAre("<s>", "a", "</s>"));
}

TEST(TokenizerTest, TokensWithAnOfficeAreSpecial) {
  json file = ByteLevelJson({{"<", "y"}});
  AddToken(&file, "<x>", {{"special", false}});
  const auto tokenizer = Make(file, R"({"eos_token": "<x>", "pad_token": "<y",
      "additional_special_tokens": [{"content": "<none>"}], "model_max_length": Infinity})");
  EXPECT_TRUE(tokenizer->IsSpecial(tokenizer->TokenToId("<x>").value()));
  EXPECT_TRUE(tokenizer->IsSpecial(tokenizer->TokenToId("<y").value()));
  EXPECT_EQ(tokenizer->TokenToId("<none>"), std::nullopt);
  EXPECT_THAT(Tokens(*tokenizer, "a<x>", kParse), ElementsAre("a", "<x>"));
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode("a<x>", kParse).value(), true), "a");
}

TEST(TokenizerTest, SettingsOfTokensThatCannotBeReadNameFileAndKey) {
  const std::string file = ByteLevelJson({}).dump();
  const auto error = [&](const char* config, const char* map, const char* added) {
    return std::string(Tokenizer::FromJson(file, config, map, added).status().message());
  };
  EXPECT_THAT(error(R"({"eos_token": 3})", "", ""),
              HasSubstr("tokenizer_config.json: eos_token must be a string or an object"));
  EXPECT_THAT(error("", R"({"bos_token": {"x": 1}})", ""),
              HasSubstr("special_tokens_map.json: bos_token: content is missing"));
  EXPECT_THAT(error("", "", R"({"<a>": "b"})"), HasSubstr("added_tokens.json: <a> must be"));
  EXPECT_THAT(error(R"({"added_tokens_decoder": {"x": "<a>"}})", "", ""),
              HasSubstr("added_tokens_decoder: \"x\" is no id"));
  EXPECT_THAT(error(R"({"added_tokens_decoder": []})", "", ""), HasSubstr("must be an object"));
  EXPECT_THAT(error(R"({"split_special_tokens": true})", "", ""), HasSubstr("set it to false"));
}

TEST(TokenizerTest, InvalidTextIsRefusedByItsOffset) {
  const auto tokenizer = Make(ByteLevelJson({}));
  const absl::Status status = tokenizer->Encode("abc\xFF").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("at byte 3"));
  const Segment segments[] = {{"ab", true}, {"\xE4\xB8", false}};
  EXPECT_THAT(std::string(tokenizer->EncodeSegments(segments, false).status().message()),
              HasSubstr("at byte 2"));
  EXPECT_EQ(tokenizer->Encode(std::string(kMaxTextBytes + 1, 'a')).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(TokenizerTest, LooksUpTokens) {
  json file = ByteLevelJson({{"Ġ", "a"}});
  const TokenId end = AddToken(&file, "<e>", kSpecial);
  const auto tokenizer = Make(file);
  EXPECT_EQ(tokenizer->vocab_size(), 258);
  EXPECT_EQ(tokenizer->TokenToId("Ġa"), 256);
  EXPECT_EQ(tokenizer->TokenToId("none"), std::nullopt);
  EXPECT_EQ(tokenizer->IdToToken(256), "Ġa");
  EXPECT_EQ(tokenizer->IdToToken(-1), "");
  EXPECT_EQ(tokenizer->IdToToken(1000), "");
  EXPECT_TRUE(tokenizer->IsSpecial(end));
  EXPECT_FALSE(tokenizer->IsSpecial('a'));
  EXPECT_EQ(tokenizer->TokenBytes(256), " a");
  EXPECT_EQ(tokenizer->TokenBytes(0xC3), "\xC3");
  EXPECT_EQ(tokenizer->TokenBytes(end), "<e>");
  EXPECT_EQ(tokenizer->TokenBytes(-1), "");
  const auto pieces = Make(SentencePieceJson({"▁", "a"}, {{"▁", "a"}}));
  EXPECT_EQ(pieces->TokenBytes(pieces->TokenToId("▁a").value()), " a");
  EXPECT_EQ(pieces->TokenBytes(pieces->TokenToId("<0xC3>").value()), "\xC3");
}

TEST(TokenizerTest, ManyThreadsShareOne) {
  const auto tokenizer = Make(ByteLevelJson({{"t", "h"}, {"th", "e"}, {"Ġ", "the"}}));
  std::vector<std::string> texts;
  std::vector<std::vector<TokenId>> expected;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    texts.push_back("the the " + testing::RandomText(seed, 200));
    expected.push_back(tokenizer->Encode(texts.back()).value());
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (size_t t = 0; t < texts.size(); ++t)
        EXPECT_EQ(tokenizer->Encode(texts[t]).value(), expected[t]);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

class TokenizerFolderTest : public ::testing::Test {
 protected:
  TokenizerFolderTest()
      : folder_(std::filesystem::path(::testing::TempDir()) / "quire_tokenizer_test") {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~TokenizerFolderTest() override { std::filesystem::remove_all(folder_); }

  void Write(const char* name, std::string_view contents) {
    std::ofstream(folder_ / name, std::ios::binary) << contents;
  }

  const std::filesystem::path folder_;
};

TEST_F(TokenizerFolderTest, LoadsBothFiles) {
  json file = ByteLevelJson({});
  AddToken(&file, "<s>", kSpecial);
  Write("tokenizer.json", file.dump());
  EXPECT_EQ(Tokenizer::Load(folder_).value()->bos_id(), std::nullopt);
  Write("tokenizer_config.json", R"({"bos_token": "<s>"})");
  EXPECT_EQ(Tokenizer::Load(folder_).value()->bos_id(), 256);
}

TEST_F(TokenizerFolderTest, ErrorsNameTheFile) {
  EXPECT_EQ(Tokenizer::Load(folder_).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(Tokenizer::Load(folder_).status().message()),
              HasSubstr("tokenizer.json"));
  Write("tokenizer.json", ByteLevelJson({}).dump());
  Write("tokenizer_config.json", R"({"eos_token": "<none>"})");
  const std::string message(Tokenizer::Load(folder_).status().message());
  EXPECT_THAT(message, HasSubstr(folder_.string()));
  EXPECT_THAT(message, HasSubstr("tokenizer_config.json: \"eos_token\" is \"<none>\""));
  Write("tokenizer_config.json", "{");
  EXPECT_FALSE(Tokenizer::Load(folder_).ok());
}

TEST(TokenizerTest, ErrorsNameWhatIsWrong) {
  const auto error = [](const char* path, const json& value) {
    json file = ByteLevelJson({{"a", "b"}});
    file[json::json_pointer(path)] = value;
    const absl::Status status = Tokenizer::FromJson(file.dump()).status();
    EXPECT_FALSE(status.ok()) << path;
    return std::string(status.message());
  };
  EXPECT_THAT(error("/model/type", "WordPiece"),
              HasSubstr("model type \"WordPiece\" is not supported"));
  EXPECT_THAT(error("/model/type", 1), HasSubstr("type must be a string, not 1"));
  EXPECT_THAT(error("/model", nullptr), HasSubstr("vocab"));
  EXPECT_THAT(error("/model/dropout", 0.1), HasSubstr("dropout"));
  EXPECT_THAT(error("/model/byte_fallback", "yes"), HasSubstr("byte_fallback"));
  EXPECT_THAT(error("/model/vocab/zz", "text"), HasSubstr("vocab\" must map texts to integers"));
  EXPECT_THAT(error("/model/vocab/zz", json::array()),
              HasSubstr("vocab\" must map texts to integers"));
  EXPECT_THAT(error("/model/vocab/zz", -1), HasSubstr("\"zz\" has the id -1"));
  EXPECT_THAT(error("/model/vocab/zz", int64_t{1} << 40), HasSubstr("ids go from 0 to"));
  EXPECT_THAT(error("/model/vocab/zz", uint64_t{1} << 63), HasSubstr("ids go from 0 to"));
  EXPECT_THAT(error("/model/vocab/zz", 97), HasSubstr("same id 97"));
  EXPECT_THAT(error("/model/merges", {"ab"}), HasSubstr("merges"));
  EXPECT_THAT(error("/model/merges", {"a b c"}), HasSubstr("merges"));
  EXPECT_THAT(error("/model/merges", {{"a"}}), HasSubstr("merges"));
  EXPECT_THAT(error("/model/merges", {{"a", "b", "c"}}), HasSubstr("merges"));
  EXPECT_THAT(error("/model/merges", {1}), HasSubstr("merges"));
  EXPECT_THAT(error("/added_tokens", 1), HasSubstr("\"added_tokens\" must be an array"));
  EXPECT_THAT(error("/added_tokens", {{{"content", "x"}}}),
              HasSubstr("id is missing; it must be an integer"));
  EXPECT_THAT(error("/added_tokens", {{{"content", "x"}, {"id", 1}}}), HasSubstr("gives it 120"));
  EXPECT_THAT(error("/added_tokens", {{{"content", "xy"}, {"id", 97}}}),
              HasSubstr("which is that of \"a\""));
  EXPECT_THAT(error("/added_tokens", {{{"content", std::string(5000, 'x')}, {"id", 300}}}),
              HasSubstr("5000"));
  EXPECT_THAT(error("/post_processor", {{"type", "Other"}}),
              HasSubstr("\"Other\" is not supported"));
  EXPECT_THAT(error("/normalizer", {{"type", "Precompiled"}}),
              HasSubstr("\"Precompiled\" is not supported"));
  EXPECT_THAT(error("/pre_tokenizer", {{"type", "FixedLength"}}), HasSubstr("FixedLength"));
  EXPECT_THAT(error("/decoder", {{"type", "WordPiece"}}), HasSubstr("WordPiece"));
}

TEST(TokenizerTest, ACancelledEncodingEndsAndLeavesNothingWrongBehind) {
  const std::string word(1 << 16, 'a');
  std::string words;
  for (int i = 0; i < 1 << 14; ++i) words += "aaaa ";
  testing::Pieces pieces = {{"▁", -1}, {"a", -2}, {"aa", -3}, {"aaaa", -3}};
  json spaced = ByteLevelJson({{"a", "a"}, {"aa", "aa"}});
  spaced["pre_tokenizer"] = testing::SplitThenBytes(" ");
  for (const json& file :
       {ByteLevelJson({{"a", "a"}, {"aa", "aa"}}), spaced, testing::UnigramJson(pieces),
        SentencePieceJson({"▁", "a"}, {{"a", "a"}, {"aa", "aa"}})}) {
    const auto fresh = Make(file);
    const auto tokenizer = Make(file);
    for (const std::string& text : {word, words}) {
      const auto expected = fresh->Encode(text);
      ASSERT_TRUE(expected.ok());
      std::atomic<bool> cancelled = true;
      Fuel fuel(Fuel::kUnlimited, &cancelled);
      const auto given_up = tokenizer->Encode(text, {.fuel = &fuel});
      EXPECT_EQ(given_up.status().code(), absl::StatusCode::kCancelled);
      Fuel enough(text.size() + 1000);
      EXPECT_EQ(*tokenizer->Encode(text, {.fuel = &enough}), *expected);
      // Wherever it ends, what was remembered is right.
      for (size_t steps = 1; steps < enough.num_burned(); steps += 1 + steps / 3) {
        Fuel some(steps);
        EXPECT_FALSE(tokenizer->Encode(text, {.fuel = &some}).ok());
        ASSERT_EQ(*tokenizer->Encode(text), *expected) << steps;
      }
    }
  }
}

}  // namespace
}  // namespace quire
