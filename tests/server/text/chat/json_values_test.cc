#include "server/text/chat/json_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/server/text/chat/chat_test_helpers.h"
#include "tests/small_stack.h"

namespace quire {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(std::string_view json, size_t max_depth = 8, size_t max_values = 1 << 20) {
  JsonBudget budget = {nullptr, max_values};
  return std::string(ParseJsonValue(json, &budget, max_depth).status().message());
}

std::string Keys(size_t count) {
  std::string json = "{";
  for (size_t i = 0; i < count; ++i) json += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":1";
  return json + "}";
}

TEST(JsonValuesTest, EveryKindOfValue) {
  EXPECT_EQ(Rendered("{{ v }}", With(R"({"v": [null, true, -1, 18446744073709551615, 0.5, "x",
                                                [], {}, {"a": {"b": [1]}}]})")),
            "[None, True, -1, 18446744073709551615, 0.5, 'x', [], {}, {'a': {'b': [1]}}]");
}

TEST(JsonValuesTest, OfEqualKeysTheLastCountsInThePlaceOfTheFirst) {
  EXPECT_EQ(Rendered("{{ v }}", With(R"({"v": {"a": 1, "b": 2, "a": 3}})")), "{'a': 3, 'b': 2}");
}

TEST(JsonValuesTest, WhatIsWrong) {
  EXPECT_THAT(ErrorOf("[1,"), HasSubstr("not valid JSON at byte 4"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("not valid JSON"));
  EXPECT_THAT(ErrorOf("[1] 2"), HasSubstr("not valid JSON"));
  EXPECT_THAT(ErrorOf("\"\xFF\""), HasSubstr("not valid JSON"));
  EXPECT_EQ(ErrorOf("[[[1]]]", 3), "");
  EXPECT_THAT(ErrorOf("[[[[1]]]]", 3), HasSubstr("nested more than 3 deep"));
  EXPECT_EQ(ErrorOf("[1, {\"a\": 2}]", 8, 5), "");
  EXPECT_THAT(ErrorOf("[1, {\"a\": 2}]", 8, 4), HasSubstr("more than 65536 values"));
}

TEST(JsonValuesTest, DeepNestingTakesNoStack) {
  for (const char* open : {"[", "{\"a\":"}) {
    std::string json;
    for (int i = 0; i < 1'000'000; ++i) json += open;
    RunOnSmallStack([&] { EXPECT_THAT(ErrorOf(json, 64), HasSubstr("nested more than 64 deep")); });
  }
}

// With a search among all the keys before, for each, this would not end.
TEST(JsonValuesTest, AMillionKeys) {
  const std::string json = Keys(1'000'000);
  Fuel fuel(Fuel::kUnlimited);
  JsonBudget budget = {&fuel, SIZE_MAX};
  const auto value = ParseJsonValue(json, &budget);
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(value->dict()->size(), 1'000'000u);
  EXPECT_EQ(value->dict()->Find(std::string_view("999999"))->integer(), 1);
}

TEST(JsonValuesTest, FuelGrowsAsTheTextAndEndsIt) {
  const auto burned = [](const std::string& json) {
    Fuel fuel(Fuel::kUnlimited);
    JsonBudget budget = {&fuel, SIZE_MAX};
    EXPECT_TRUE(ParseJsonValue(json, &budget).ok());
    return fuel.num_burned();
  };
  EXPECT_GE(burned(Keys(1000)), 1000u);
  EXPECT_LE(burned(Keys(20000)), 2 * burned(Keys(10000)) + 10);
  EXPECT_GE(burned("\"" + std::string(1 << 20, 'a') + "\""), 1u << 10);
  Fuel fuel(1000);
  JsonBudget budget = {&fuel, SIZE_MAX};
  EXPECT_THAT(std::string(ParseJsonValue(Keys(10000), &budget).status().message()),
              HasSubstr("more than 1000 steps"));
}

TEST(JsonValuesTest, CancellingEndsIt) {
  std::atomic<bool> cancelled = false;
  Fuel fuel(Fuel::kUnlimited, &cancelled);
  JsonBudget budget = {&fuel, SIZE_MAX};
  EXPECT_TRUE(ParseJsonValue("[1]", &budget).ok());
  cancelled = true;
  EXPECT_EQ(ParseJsonValue(Keys(10000), &budget).status().code(), absl::StatusCode::kCancelled);
  EXPECT_LT(fuel.num_burned(), 3000u);
}

}  // namespace
}  // namespace quire
