// The JSON of a body as a tree. The number of values is bounded, except token ids, which are as
// many as fit.
#include "server/text/json_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/request/limits.h"
#include "server/surfaces/openai/field_reader.h"

namespace quire {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<JsonTree> Parse(const std::string& text) {
  size_t num_values_left = kMaxJsonValues;
  return ParseJsonTree(text, &num_values_left);
}

std::vector<uint32_t> Ids(size_t count) {
  std::vector<uint32_t> ids(count);
  for (size_t i = 0; i < count; ++i) ids[i] = static_cast<uint32_t>(i * 7919 % 150'000);
  return ids;
}

std::string ListOf(const std::vector<uint32_t>& ids) {
  return absl::StrCat("[", absl::StrJoin(ids, ", "), "]");
}

// A context of 128k tokens, and more.
TEST(JsonTreeTest, TokenIdsAreAsManyAsTheBodyHolds) {
  for (const size_t count : {size_t{70'000}, size_t{131'072}, size_t{500'000}}) {
    const std::vector<uint32_t> ids = Ids(count);
    const std::string text = absl::StrCat("{\"prompt\": ", ListOf(ids), "}");
    ASSERT_LE(text.size(), kMaxRequestBytes);
    size_t num_values_left = 10;
    const auto tree = ParseJsonTree(text, &num_values_left);
    ASSERT_TRUE(tree.ok()) << tree.status();
    EXPECT_EQ(ToTokenIds(*tree->Find("prompt")), ids);
    EXPECT_EQ(ToJson(*tree), text);
  }
}

TEST(JsonTreeTest, ABatchOfPromptsOfIds) {
  const std::vector<std::pair<size_t, size_t>> batches = {
      {40, 2'000}, {64, 1'000}, {64, 8'000}, {64, 511}};
  for (const auto& [num_prompts, num_ids] : batches) {
    const std::string list = ListOf(Ids(num_ids));
    const std::vector<std::string> lists(num_prompts, list);
    const auto tree = Parse(absl::StrCat("[", absl::StrJoin(lists, ", "), "]"));
    ASSERT_TRUE(tree.ok()) << tree.status();
    ASSERT_EQ(tree->items.size(), num_prompts);
    for (const JsonTree& prompt : tree->items) EXPECT_EQ(ToTokenIds(prompt), Ids(num_ids));
  }
}

TEST(JsonTreeTest, ShortListsAreValues) {
  const auto tree = Parse("[1, 2, 4294967295]");
  ASSERT_TRUE(tree.ok());
  EXPECT_TRUE(tree->is_list());
  ASSERT_EQ(tree->items.size(), 3u);
  EXPECT_EQ(tree->items[2].integer, 4294967295);
  EXPECT_EQ(tree->items[2].number, 4294967295.0);
  EXPECT_EQ(ToTokenIds(*tree), (std::vector<uint32_t>{1, 2, 4294967295}));
  EXPECT_EQ(ToTokenIds(*Parse("[]")), std::vector<uint32_t>());
}

// Whatever is no id, and wherever it stands, the list keeps its values and their order.
TEST(JsonTreeTest, OtherListsAreTheirValues) {
  const std::vector<uint32_t> ids = Ids(1'000);
  for (const char* other :
       {"-1", "4294967296", "1.5", "null", "true", "\"x\"", "[]", "{\"a\": 1}"}) {
    for (const size_t place : {size_t{0}, size_t{1}, size_t{500}, ids.size()}) {
      std::vector<std::string> words;
      for (size_t i = 0; i <= ids.size(); ++i) {
        words.push_back(i == place ? other : absl::StrCat(ids[i - (i > place ? 1 : 0)]));
      }
      const std::string text = absl::StrCat("[", absl::StrJoin(words, ", "), "]");
      const auto tree = Parse(text);
      ASSERT_TRUE(tree.ok()) << tree.status();
      EXPECT_TRUE(tree->is_list());
      EXPECT_EQ(tree->items.size(), 1'001u);
      EXPECT_FALSE(ToTokenIds(*tree).has_value());
      EXPECT_EQ(ToJson(*tree), text);
    }
  }
}

TEST(JsonTreeTest, NullIsNotAbsent) {
  const auto tree = Parse(R"({"a": null})");
  ASSERT_TRUE(tree.ok()) << tree.status();
  EXPECT_EQ(tree->keys, std::vector<std::string>{"a"});
  EXPECT_TRUE(tree->items[0].is_null());
  EXPECT_EQ(tree->Find("a"), nullptr) << "for fields, null is left out";
  EXPECT_EQ(ToJson(*tree), R"({"a": null})");
}

TEST(JsonTreeTest, BytesAreAboutThoseOfTheText) {
  for (const std::string& text :
       {std::string(R"({"role": "user", "content": "hello", "tools": [1, 2, {"a": null}]})"),
        ListOf(Ids(2'000)), "\"" + std::string(5'000, 'x') + "\""}) {
    const size_t num_bytes = NumBytes(*Parse(text));
    EXPECT_GE(num_bytes, text.size() / 2) << text.substr(0, 80);
    EXPECT_LE(num_bytes, text.size() * 2) << text.substr(0, 80);
  }
}

TEST(JsonTreeTest, ValuesAreBounded) {
  std::string words = absl::StrJoin(std::vector<std::string>(65'535, "null"), ",");
  EXPECT_TRUE(Parse(absl::StrCat("[", words, "]")).ok());
  const auto error = [](const std::string& text) { return Parse(text).status().ToString(); };
  EXPECT_THAT(error(absl::StrCat("[", words, ",1]")), HasSubstr("more than 65536 values"));
  // Nor do numbers pass for ids and become values afterwards.
  const std::string ids = ListOf(Ids(70'000));
  EXPECT_THAT(error(absl::StrCat(ids.substr(0, ids.size() - 1), ", \"x\"]")),
              HasSubstr("more than 65536 values"));
  const std::string some = ListOf(Ids(500));
  EXPECT_THAT(
      error(absl::StrCat("[", absl::StrJoin(std::vector<std::string>(140, some), ","), "]")),
      HasSubstr("more than 65536 values"));
}

}  // namespace
}  // namespace quire
