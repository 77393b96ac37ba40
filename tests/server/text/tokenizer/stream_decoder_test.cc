#include "server/text/tokenizer/stream_decoder.h"

#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/text/utf8.h"
#include "tests/server/text/tokenizer/test_tokenizers.h"

namespace quire {
namespace {

using nlohmann::json;
using testing::AddToken;
using testing::ByteLevelJson;
using testing::Make;
using testing::SentencePieceJson;

// The text of `ids` as a stream; checks that every part is whole characters.
std::string Stream(const std::shared_ptr<const Tokenizer>& tokenizer,
                   const std::vector<TokenId>& ids, bool skip) {
  StreamDecoder decoder(tokenizer, skip);
  std::string text;
  const auto add = [&text](std::string_view part) {
    EXPECT_EQ(FindInvalidUtf8(part), std::nullopt);
    text.append(part);
  };
  for (const TokenId id : ids) add(decoder.Append(id));
  add(decoder.Flush());
  return text;
}

// Random ids, some of them outside the vocabulary.
std::vector<TokenId> RandomIds(const Tokenizer& tokenizer, std::mt19937* random) {
  std::vector<TokenId> ids((*random)() % 20);
  for (TokenId& id : ids) id = static_cast<TokenId>((*random)() % (tokenizer.vocab_size() + 5)) - 2;
  return ids;
}

json WithDecoder(json tokenizer, const char* decoder) {
  tokenizer["decoder"] = json::parse(decoder);
  return tokenizer;
}

std::vector<json> ManyTokenizers() {
  json bytes = ByteLevelJson({{"Ã", "©"}, {"a", "b"}, {"ð", "Ł"}, {"ĺ", "Ģ"}});
  AddToken(&bytes, "<|end|>", {{"special", true}});
  AddToken(&bytes, "日本", {{"special", false}});
  json pieces = SentencePieceJson({"▁", "a", "b", "é"}, {{"▁", "a"}, {"b", "▁"}, {"▁", "▁"}});
  AddToken(&pieces, "</s>", {{"special", true}});
  return {
      bytes,
      pieces,
      WithDecoder(pieces, "null"),
      WithDecoder(pieces,
                  R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"})"),
      WithDecoder(pieces,
                  R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never"})"),
      WithDecoder(pieces, R"({"type": "BPEDecoder", "suffix": "a"})"),
      WithDecoder(pieces,
                  R"({"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"},
                             {"type": "Metaspace", "replacement": "▁"}]})"),
      WithDecoder(pieces, R"({"type": "Strip", "content": "▁", "start": 1, "stop": 1})"),
      WithDecoder(pieces, R"({"type": "Sequence", "decoders": [{"type": "Fuse"},
                             {"type": "Strip", "content": "a", "start": 2, "stop": 3}]})"),
  };
}

TEST(StreamDecoderTest, PartsAddUpToTheWholeText) {
  std::mt19937 random(1);
  for (const json& file : ManyTokenizers()) {
    const auto tokenizer = Make(file);
    for (int round = 0; round < 500; ++round) {
      const std::vector<TokenId> ids = RandomIds(*tokenizer, &random);
      for (const bool skip : {false, true}) {
        ASSERT_EQ(Stream(tokenizer, ids, skip), tokenizer->Decode(ids, skip)) << file["decoder"];
      }
    }
  }
}

TEST(StreamDecoderTest, RoundTripsText) {
  const auto tokenizer = Make(ByteLevelJson({{"Ã", "©"}, {"t", "h"}}));
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const std::string text = testing::RandomText(seed, 40);
    const std::vector<TokenId> ids = tokenizer->Encode(text).value();
    ASSERT_EQ(tokenizer->Decode(ids, true), text);
    ASSERT_EQ(Stream(tokenizer, ids, true), text);
  }
}

TEST(StreamDecoderTest, ACharacterComesWithItsLastByte) {
  const auto tokenizer = Make(ByteLevelJson({}));
  StreamDecoder decoder(tokenizer, true);
  EXPECT_EQ(decoder.Append(0xF0), "");
  EXPECT_EQ(decoder.Append(0x9F), "");
  EXPECT_EQ(decoder.Append(0x98), "");
  EXPECT_EQ(decoder.Append(0x80), "😀");
  EXPECT_EQ(decoder.Append('a'), "a");
  EXPECT_EQ(decoder.Append(0xE4), "");
  EXPECT_EQ(decoder.Append('b'), "\uFFFDb");
  EXPECT_EQ(decoder.Append(0xE4), "");
  EXPECT_EQ(decoder.Flush(), "\uFFFD");
}

TEST(StreamDecoderTest, SpecialTokensThatAreShownStay) {
  json bytes = ByteLevelJson({});
  AddToken(&bytes, "<tag>", {{"special", true}});
  AddToken(&bytes, "<end>", {{"special", true}});
  const auto tokenizer = Make(bytes);
  const TokenId tag = *tokenizer->TokenToId("<tag>");
  StreamDecoder decoder(tokenizer, /*skip_special_tokens=*/true, {tag});
  EXPECT_EQ(decoder.Append(tag), "<tag>");
  EXPECT_EQ(decoder.Append(*tokenizer->TokenToId("<end>")), "");
}

TEST(StreamDecoderTest, ByteTokensWaitForTheirCharacterOnly) {
  const auto tokenizer = Make(SentencePieceJson({"▁", "a"}, {}));
  const auto id = [&](std::string_view token) { return tokenizer->TokenToId(token).value(); };
  StreamDecoder decoder(tokenizer, true);
  EXPECT_EQ(decoder.Append(id("a")), "a");
  EXPECT_EQ(decoder.Append(id("<0xC3>")), "");
  EXPECT_EQ(decoder.Append(id("<0xA9>")), "é");
  EXPECT_EQ(decoder.Append(id("<0xC3>")), "");
  EXPECT_EQ(decoder.Append(id("▁")), "\uFFFD ");
}

TEST(StreamDecoderTest, AGeneratedTextGoesOnWhereItsPromptEnds) {
  const auto tokenizer = Make(SentencePieceJson({"▁", "a"}, {{"▁", "a"}}));
  const TokenId word = tokenizer->TokenToId("▁a").value();
  StreamDecoder fresh(tokenizer, true);
  EXPECT_EQ(fresh.Append(word), "a");
  StreamDecoder after_prompt(tokenizer, true);
  after_prompt.StartAfter({word, word});
  EXPECT_EQ(after_prompt.Append(word), " a");
}

TEST(StreamDecoderTest, SpecialTokensAreSkippedOrShown) {
  json file = ByteLevelJson({});
  const TokenId end = AddToken(&file, "<|end|>", {{"special", true}});
  const auto tokenizer = Make(file);
  EXPECT_EQ(Stream(tokenizer, {'a', end, 'b'}, /*skip=*/true), "ab");
  EXPECT_EQ(Stream(tokenizer, {'a', end, 'b'}, /*skip=*/false), "a<|end|>b");
}

TEST(DecoderTest, ErrorsNameTheComponent) {
  const auto error = [](const char* decoder) {
    const json file = WithDecoder(ByteLevelJson({}), decoder);
    return std::string(Tokenizer::FromJson(file.dump()).status().message());
  };
  EXPECT_THAT(error(R"({"type": "CTC"})"),
              ::testing::HasSubstr("decoder \"CTC\" is not supported"));
  EXPECT_THAT(error(R"({"type": "Replace", "pattern": {"Regex": "a"}, "content": ""})"),
              ::testing::HasSubstr("Regex"));
  EXPECT_THAT(error(R"({"type": "Strip", "content": "", "start": 0, "stop": 0})"),
              ::testing::HasSubstr("content"));
  EXPECT_THAT(
      error(R"({"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "ByteFallback"}]})"),
      ::testing::HasSubstr("\"ByteFallback\" after one that joins"));
}

}  // namespace
}  // namespace quire
