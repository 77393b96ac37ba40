#include "server/tokenizer/charsmap.h"

#include <map>
#include <random>

#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/tokenizer/normalizer.h"
#include "server/tokenizer/unicode.h"
#include "tests/server/tokenizer/test_tokenizers.h"

namespace quire {
namespace {

using ::testing::HasSubstr;
using Rules = std::map<std::string, std::string>;

void AppendLittleEndian(uint32_t value, std::string* out) {
  for (int i = 0; i < 4; ++i) out->push_back(static_cast<char>(value >> 8 * i & 0xFF));
}

// The blob of `rules`: a double array where every node has 256 units to itself for its children.
std::string Blob(const Rules& rules) {
  struct Node {
    std::map<uint8_t, size_t> children;
    int64_t value = -1;
  };
  std::vector<Node> nodes(1);
  std::string replacements;
  for (const auto& [text, replacement] : rules) {
    size_t node = 0;
    for (const char c : text) {
      const auto [child, is_new] = nodes[node].children.try_emplace(c, nodes.size());
      node = child->second;
      if (is_new) nodes.emplace_back();
    }
    nodes[node].value = static_cast<int64_t>(replacements.size());
    replacements.append(replacement).push_back('\0');
  }
  std::vector<uint32_t> units((nodes.size() + 1) * 256);
  const auto base = [](size_t node) { return static_cast<uint32_t>((node + 1) * 256); };
  const auto place = [&](size_t node, uint32_t at, uint32_t label) {
    const uint32_t has_leaf = nodes[node].value >= 0 ? 1 : 0;
    units[at] = (at ^ base(node)) << 10 | has_leaf << 8 | label;
    if (has_leaf) units[base(node)] = 1u << 31 | static_cast<uint32_t>(nodes[node].value);
  };
  place(0, 0, 0);
  for (size_t node = 0; node < nodes.size(); ++node) {
    for (const auto& [label, child] : nodes[node].children) place(child, base(node) ^ label, label);
  }
  std::string blob;
  AppendLittleEndian(static_cast<uint32_t>(units.size() * 4), &blob);
  for (const uint32_t unit : units) AppendLittleEndian(unit, &blob);
  return blob + replacements;
}

std::string Normalized(const std::string& blob, std::string_view text) {
  const absl::StatusOr<Charsmap> map = Charsmap::Parse(blob);
  EXPECT_TRUE(map.ok()) << map.status();
  std::string out;
  if (map.ok()) map->Append(text, size_t{1} << 20, &out);
  return out;
}

TEST(CharsmapTest, ReplacesCharactersAndShortClusters) {
  const std::string blob =
      Blob({{"ﬁ", "fi"}, {"e\u0301", "é"}, {"\t", " "}, {"\u00AD", ""}, {"Å", "A\u030A"}});
  EXPECT_EQ(Normalized(blob, "ﬁne\tcafe\u0301 \u00ADÅ"), "fine café A\u030A");
  EXPECT_EQ(Normalized(blob, "plain e x\u0301"), "plain e x\u0301");
}

TEST(CharsmapTest, TheShortestTextOfTheTableTakesTheWholeCluster) {
  const std::string blob = Blob({{"a", "X"}, {"a\u0301", "Y"}});
  EXPECT_EQ(Normalized(blob, "a\u0301b"), "Xb");
  // A cluster of six bytes goes character by character.
  EXPECT_EQ(Normalized(blob, "a\u0301\u20DDb"), "X\u0301\u20DDb");
}

TEST(CharsmapTest, DamagedBlobsAreRefusedOrHarmless) {
  const std::string blob = Blob({{"a", "XX"}, {"é", "日本"}});
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
  const auto map = Charsmap::Parse(Blob({{"a", huge}}));
  ASSERT_TRUE(map.ok()) << map.status();
  std::string out;
  map->Append(std::string(100, 'a'), 3 * huge.size(), &out);
  EXPECT_EQ(out.size(), 4 * huge.size());
  std::string base64;
  absl::Base64Escape(Blob({{"a", huge}}), &base64);
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
