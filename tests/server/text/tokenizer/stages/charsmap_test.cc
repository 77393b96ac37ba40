#include "server/text/tokenizer/stages/charsmap.h"

#include <random>

#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/text/tokenizer/stages/normalizer.h"
#include "server/text/utf8.h"
#include "tests/server/text/tokenizer/test_tokenizers.h"

namespace quire {
namespace {

using testing::CharsmapBlob;
using ::testing::HasSubstr;
std::string Normalized(const std::string& blob, std::string_view text) {
  const absl::StatusOr<Charsmap> map = Charsmap::Parse(blob);
  EXPECT_TRUE(map.ok()) << map.status();
  std::string out;
  if (map.ok()) map->Append(text, size_t{1} << 20, &out);
  return out;
}

TEST(CharsmapTest, ReplacesCharactersAndShortClusters) {
  const std::string blob =
      CharsmapBlob({{"ﬁ", "fi"}, {"e\u0301", "é"}, {"\t", " "}, {"\u00AD", ""}, {"Å", "A\u030A"}});
  EXPECT_EQ(Normalized(blob, "ﬁne\tcafe\u0301 \u00ADÅ"), "fine café A\u030A");
  EXPECT_EQ(Normalized(blob, "plain e x\u0301"), "plain e x\u0301");
}

TEST(CharsmapTest, TheShortestTextOfTheTableTakesTheWholeCluster) {
  const std::string blob = CharsmapBlob({{"a", "X"}, {"a\u0301", "Y"}});
  EXPECT_EQ(Normalized(blob, "a\u0301b"), "Xb");
  // A cluster of six bytes goes character by character.
  EXPECT_EQ(Normalized(blob, "a\u0301\u20DDb"), "X\u0301\u20DDb");
}

TEST(CharsmapTest, DamagedBlobsAreRefusedOrHarmless) {
  const std::string blob = CharsmapBlob({{"a", "XX"}, {"é", "日本"}});
  for (const size_t size : {size_t{0}, size_t{3}, size_t{4}, size_t{400}}) {
    EXPECT_THAT(std::string(Charsmap::Parse(blob.substr(0, size)).status().message()),
                HasSubstr("cut off"));
  }
  EXPECT_THAT(std::string(Charsmap::Parse(std::string(8, '\0')).status().message()),
              HasSubstr("cut off"));
  EXPECT_THAT(std::string(Charsmap::Parse(blob + "\xFF").status().message()),
              HasSubstr("not UTF-8"));
  std::mt19937 random(2);
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = blob;
    for (int i = 0; i < 40; ++i) damaged[random() % damaged.size()] = static_cast<char>(random());
    const absl::StatusOr<Charsmap> map = Charsmap::Parse(damaged);
    if (!map.ok()) continue;
    std::string out;
    map->Append("aéa\u0301日" + testing::RandomText(round, 10), 1000, &out);
    ASSERT_EQ(FindInvalidUtf8(out), std::nullopt);
  }
}

TEST(CharsmapTest, TextThatGrowsTooLongIsGivenUp) {
  const std::string huge(1 << 20, 'x');
  const auto map = Charsmap::Parse(CharsmapBlob({{"a", huge}}));
  ASSERT_TRUE(map.ok()) << map.status();
  std::string out;
  map->Append(std::string(100, 'a'), 3 * huge.size(), &out);
  EXPECT_EQ(out.size(), 4 * huge.size());
  std::string base64;
  absl::Base64Escape(CharsmapBlob({{"a", huge}}), &base64);
  const auto normalizer =
      Normalizer::Parse(nlohmann::json{{"type", "Precompiled"}, {"precompiled_charsmap", base64}});
  ASSERT_TRUE(normalizer.ok()) << normalizer.status();
  RegexScratch scratch;
  std::string text(1000, 'a');
  EXPECT_EQ(normalizer->Apply(&text, &scratch).code(), absl::StatusCode::kResourceExhausted);
  text = "a";
  EXPECT_TRUE(normalizer->Apply(&text, &scratch).ok());
  EXPECT_EQ(text, huge);
}

TEST(CharsmapTest, ErrorsNameTheNormalizer) {
  const auto error = [](const char* charsmap) {
    const nlohmann::json json = {{"type", "Precompiled"}, {"precompiled_charsmap", charsmap}};
    return std::string(Normalizer::Parse(json).status().message());
  };
  EXPECT_THAT(error("not base64!"), HasSubstr("must be base64"));
  EXPECT_THAT(error("AAAA"), HasSubstr("precompiled_charsmap is cut off"));
}

}  // namespace
}  // namespace quire
