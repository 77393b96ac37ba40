#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/json/json_members.h"
#include "engine/json/json_reader.h"
#include "engine/json/parse_json.h"
#include "engine/json/small_file.h"
#include "tests/engine/checkpoint/test_files.h"
#include "tests/small_stack.h"

namespace quire {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

absl::Status ParseStatus(absl::string_view text) {
  return ParseJsonObject(text, "file.json", DuplicateKeys::kRefused).status();
}

std::string Nested(int depth) {
  return absl::StrCat("{\"a\":", std::string(depth - 1, '['), std::string(depth - 1, ']'), "}");
}

TEST(ParseJsonObject, BuildsTheValue) {
  const auto parsed =
      ParseJsonObject(R"({"a": [1, -2, 2.5, true, null, "x", {"b": {}}], "c": {"d": [[], 7]}})",
                      "file.json", DuplicateKeys::kRefused);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->dump(), R"({"a":[1,-2,2.5,true,null,"x",{"b":{}}],"c":{"d":[[],7]}})");
}

TEST(ParseJsonObject, RefusesWhatIsNotAnObject) {
  for (absl::string_view text : {"[]", "1", "\"x\"", "null", "[{}]"}) {
    EXPECT_THAT(ParseStatus(text).message(), HasSubstr("file.json: must hold one JSON")) << text;
  }
}

TEST(ParseJsonObject, NamesTheByteOfASyntaxError) {
  EXPECT_THAT(ParseStatus("{\"a\": 1,}").message(),
              HasSubstr("file.json: not valid JSON at byte 9"));
  EXPECT_THAT(ParseStatus("").message(), HasSubstr("not valid JSON"));
  EXPECT_THAT(ParseStatus("{} x").message(), HasSubstr("not valid JSON"));
  EXPECT_THAT(ParseStatus("{\"a\": 1e999}").message(), HasSubstr("number overflow"));
  EXPECT_THAT(ParseStatus("{\"a\": NaN}").message(), HasSubstr("not valid JSON"));
}

// nlohmann's parser takes one for the end.
TEST(ParseJsonObject, ATextDoesNotEndAtANul) {
  for (const std::string& text :
       {std::string("{}\0", 3), std::string("{}\0{\"a\":1}", 10), std::string("{\"a\":1,\0}", 9),
        std::string("\0", 1), std::string("{\"a\":\"x\0\"}", 10)}) {
    EXPECT_THAT(ParseStatus(text).message(), HasSubstr("a NUL"));
    EXPECT_TRUE(ParseJson(text).is_discarded());
    EXPECT_FALSE(IsJson(text));
  }
  EXPECT_THAT(ParseStatus(std::string("{} \0", 4)).message(),
              HasSubstr("not valid JSON at byte 4: a NUL"));
  const std::string escaped = R"({"a": "\u0000"})";
  EXPECT_TRUE(IsJson(escaped));
  EXPECT_EQ(ParseJson(escaped)["a"], std::string(1, '\0'));
}

TEST(ParseJsonObject, RefusesInvalidUtf8WithoutRepeatingIt) {
  const absl::Status status = ParseStatus("{\"a\": \"\xff\xfe\"}");
  EXPECT_THAT(status.message(), HasSubstr("ill-formed UTF-8"));
  for (char c : status.message()) EXPECT_GE(c, ' ');
}

TEST(ParseJsonObject, BoundsTheDepth) {
  // Where a parser that calls itself for every bracket would overflow.
  RunOnSmallStack([] {
    EXPECT_TRUE(ParseStatus(Nested(64)).ok());
    EXPECT_THAT(ParseStatus(Nested(65)).message(), HasSubstr("nested more than 64 deep"));
    EXPECT_THAT(ParseStatus("{\"a\":" + std::string(1'000'000, '[')).message(),
                HasSubstr("nested more than 64 deep"));
    std::string objects;
    for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
    EXPECT_THAT(ParseStatus(objects).message(), HasSubstr("nested more than 64 deep"));
  });
}

TEST(ParseJsonObject, DuplicateKeysAreRefusedOrTheLastWins) {
  constexpr char kText[] = R"({"a": 1, "b": {"a": 2}, "a": 3})";
  EXPECT_THAT(ParseStatus(kText).message(), HasSubstr("key \"a\" appears twice"));
  const auto parsed = ParseJsonObject(kText, "file.json", DuplicateKeys::kLastWins);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ((*parsed)["a"], 3);
}

class JsonReaderTest : public testing::Test {
 protected:
  JsonReader Read(absl::string_view text) {
    object_ = *ParseJsonObject(text, "file.json", DuplicateKeys::kRefused);
    status_ = absl::OkStatus();
    return JsonReader(object_, "file.json", &status_);
  }

  nlohmann::json object_;
  absl::Status status_;
};

TEST_F(JsonReaderTest, ReadsEveryType) {
  JsonReader reader = Read(
      R"({"i": -3, "d": 0.5, "b": true, "s": "x", "l": [1, 2], "n": null, "o": {"i": 1}, "t": ["a"]})");
  EXPECT_EQ(reader.Int("i", -5, 5), -3);
  EXPECT_EQ(reader.Double("d", 0, 1), 0.5);
  EXPECT_EQ(reader.Double("i", -5, 5), -3.0);
  EXPECT_EQ(reader.Bool("b"), true);
  EXPECT_EQ(reader.String("s"), "x");
  EXPECT_THAT(reader.IntOrIntList("l", 0, 9), ElementsAre(1, 2));
  EXPECT_THAT(reader.IntOrIntList("i", -9, 9), ElementsAre(-3));
  EXPECT_THAT(reader.StringList("t"), ElementsAre("a"));
  EXPECT_EQ(reader.Object("o")->Int("i", 0, 9), 1);
  EXPECT_TRUE(status_.ok()) << status_;
}

TEST_F(JsonReaderTest, AbsentAndNullAreNothing) {
  JsonReader reader = Read(R"({"n": null})");
  for (absl::string_view key : {"n", "absent"}) {
    EXPECT_EQ(reader.Int(key, 0, 9), std::nullopt);
    EXPECT_EQ(reader.Double(key, 0, 9), std::nullopt);
    EXPECT_EQ(reader.Bool(key), std::nullopt);
    EXPECT_EQ(reader.String(key), std::nullopt);
    EXPECT_THAT(reader.IntOrIntList(key, 0, 9), IsEmpty());
    EXPECT_THAT(reader.StringList(key), IsEmpty());
    EXPECT_FALSE(reader.Object(key).has_value());
  }
  EXPECT_TRUE(reader.Has("n"));
  EXPECT_FALSE(reader.Has("absent"));
  EXPECT_TRUE(status_.ok()) << status_;
}

TEST_F(JsonReaderTest, NamesTheKeyOfAWrongType) {
  struct Case {
    void (*read)(JsonReader&);
    const char* message;
  };
  const Case cases[] = {
      {[](JsonReader& r) { r.Int("v", 0, 9); }, "file.json: v must be an integer, not {\"w\":[]}"},
      {[](JsonReader& r) { r.Double("v", 0, 9); }, "v must be a number"},
      {[](JsonReader& r) { r.Bool("v"); }, "v must be true or false"},
      {[](JsonReader& r) { r.String("v"); }, "v must be a string"},
      {[](JsonReader& r) { r.IntOrIntList("v", 0, 9); }, "v must be an integer"},
      {[](JsonReader& r) { r.StringList("v"); }, "v must be a list of strings"},
      {[](JsonReader& r) { r.IntOrIntList("l", 0, 9); }, "l must be an integer, not \"x\""},
      {[](JsonReader& r) { r.StringList("l"); }, "l must be a list of strings"},
      {[](JsonReader& r) { r.Object("l"); }, "l must be an object"},
      {[](JsonReader& r) { r.Object("v")->Int("w", 0, 9); }, "file.json: v: w must be an integer"},
      {[](JsonReader& r) { r.Int("f", 0, 9); }, "f must be an integer, not 1.0"},
  };
  for (const Case& c : cases) {
    JsonReader reader = Read(R"({"v": {"w": []}, "l": [1, "x"], "f": 1.0})");
    c.read(reader);
    EXPECT_EQ(status_.code(), absl::StatusCode::kInvalidArgument) << c.message;
    EXPECT_THAT(status_.message(), HasSubstr(c.message));
  }
}

TEST_F(JsonReaderTest, NamesTheRange) {
  JsonReader reader = Read(R"({"v": 18446744073709551615, "w": -1, "d": 1e300})");
  EXPECT_EQ(reader.Int("v", -5, 5), std::nullopt);  // not the -1 that its bits are
  EXPECT_THAT(status_.message(),
              HasSubstr("v is 18446744073709551615; it must be between -5 and 5"));
  status_ = absl::OkStatus();
  EXPECT_EQ(reader.Int("w", 0, 9), std::nullopt);
  EXPECT_THAT(status_.message(), HasSubstr("w is -1; it must be between 0 and 9"));
  status_ = absl::OkStatus();
  EXPECT_EQ(reader.Double("d", 0, 9), std::nullopt);
  EXPECT_THAT(status_.message(), HasSubstr("d is 1e+300; it must be between 0 and 9"));
}

TEST_F(JsonReaderTest, KeepsTheFirstFailure) {
  JsonReader reader = Read(R"({"a": "x", "b": "y"})");
  reader.Int("a", 0, 9);
  reader.Int("b", 0, 9);
  reader.FailUnsupported("later");
  EXPECT_THAT(status_.message(), HasSubstr("a must be"));
}

TEST_F(JsonReaderTest, ShortensAndEscapesWhatItShows) {
  JsonReader reader = Read(absl::StrCat("{\"a\": \"\\u001b[31m", std::string(1000, 'x'), "\"}"));
  reader.Int("a", 0, 9);
  EXPECT_LT(status_.message().size(), 200u);
  EXPECT_THAT(status_.message(), HasSubstr("\\u001b[31mxxx"));
}

TEST(JsonMembers, OneByOne) {
  const nlohmann::json object = {{"s", "x"}, {"i", 3}, {"b", true}, {"l", {1, 2}}, {"n", nullptr}};
  EXPECT_EQ(*GetString(object, "s", "here"), "x");
  EXPECT_EQ(*GetCount(object, "i", 3, "here"), 3);
  EXPECT_EQ(*GetBool(object, "b", false, "here"), true);
  EXPECT_EQ(*GetBool(object, "n", true, "here"), true);
  EXPECT_EQ(*GetBool(object, "absent", true, "here"), true);
  EXPECT_EQ((*GetArray(object, "l", "here"))->size(), 2u);
  EXPECT_EQ(Member(object, "i"), 3);
  EXPECT_TRUE(Member(object, "absent").is_null());
  EXPECT_TRUE(Member(object["l"], "i").is_null());
  EXPECT_EQ(GetString(object, "i", "here").status(),
            absl::InvalidArgumentError("here: i must be a string, not 3"));
  EXPECT_EQ(GetString(object, "n", "here").status(),
            absl::InvalidArgumentError("here: n is missing; it must be a string"));
  EXPECT_EQ(GetString(object["l"], "n", "here").status(),
            absl::InvalidArgumentError("here: n is missing; it must be a string"));
  EXPECT_EQ(GetCount(object, "i", 2, "here").status(),
            absl::InvalidArgumentError("here: i is 3; it must be between 0 and 2"));
  EXPECT_EQ(GetBool(object, "s", true, "here").status(),
            absl::InvalidArgumentError("here: s must be true or false, not \"x\""));
  EXPECT_EQ(GetArray(object, "s", "here").status(),
            absl::InvalidArgumentError("here: s must be a list, not \"x\""));
}

// As json.dumps and transformers' PreTrainedConfig.to_json_string write them.
TEST(ParseModelJson, ReadsPythonsConstants) {
  const auto parsed = ParseModelJson(
      R"({"a": [Infinity, -Infinity,NaN], "b": {"__float__": "-Infinity"}, "c": "NaN, Infinity\"NaN",
          "d": {"__float__": "x"}, "e": {"__float__": "NaN", "f": 1}, "g": 1, "g": 2.5})",
      "config.json");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ((*parsed)["a"][0], std::numeric_limits<double>::infinity());
  EXPECT_EQ((*parsed)["a"][1], -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan((*parsed)["a"][2].get<double>()));
  EXPECT_EQ((*parsed)["b"], -std::numeric_limits<double>::infinity());
  EXPECT_EQ((*parsed)["c"], "NaN, Infinity\"NaN");
  EXPECT_TRUE((*parsed)["d"].is_object());
  EXPECT_EQ((*parsed)["e"].size(), 2u);
  EXPECT_EQ((*parsed)["g"], 2.5);
  EXPECT_EQ(Shown((*parsed)["a"][0]), "Infinity");
  EXPECT_EQ(Shown((*parsed)["a"][2]), "NaN");
  EXPECT_TRUE(ParseModelJson(R"({"__float__": "NaN"})", "config.json")->is_object());
}

TEST(ParseModelJson, ReadsNothingElseThatIsNoJson) {
  for (absl::string_view text :
       {R"({"a": nan})", R"({"a": -NaN})", R"({"a": NaN5})", R"({"a": 1Infinity})",
        R"({"a": Infinity.5})", R"({NaN: 1})", R"({"a": +Infinity})", R"({"a": 1e-Infinity})",
        R"({"a": InfinityNaN})", R"({"a": --Infinity})"}) {
    EXPECT_THAT(ParseModelJson(text, "config.json").status().message(),
                HasSubstr("config.json: not valid JSON"))
        << text;
  }
  EXPECT_THAT(ParseModelJson(R"({"a": NaN,})", "config.json").status().message(),
              HasSubstr("at byte 11"));
}

TEST(JsonReader, NoConstantIsInAnyRange) {
  const auto parsed = ParseModelJson(R"({"d": Infinity, "i": NaN})", "config.json");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  absl::Status status;
  JsonReader reader(*parsed, "config.json", &status);
  EXPECT_EQ(reader.Double("d", 0, 1e300), std::nullopt);
  EXPECT_THAT(status.message(), HasSubstr("d is inf; it must be between 0 and"));
  status = absl::OkStatus();
  EXPECT_EQ(reader.Int("i", 0, 9), std::nullopt);
  EXPECT_THAT(status.message(), HasSubstr("i must be an integer, not NaN"));
}

TEST(ReadSmallFile, ReadsARegularFileOnly) {
  const TempFolder folder;
  folder.Write("file", "contents");
  EXPECT_EQ(*ReadSmallFile(folder.path() + "/file", 8), "contents");
  EXPECT_THAT(ReadSmallFile(folder.path() + "/file", 7).status().message(),
              HasSubstr("has 8 bytes; at most 7 are read"));
  EXPECT_TRUE(absl::IsNotFound(ReadSmallFile(folder.path() + "/absent", 8).status()));
  EXPECT_TRUE(absl::IsNotFound(ReadSmallFile(folder.path() + "/file/below", 8).status()));
  EXPECT_THAT(ReadSmallFile(folder.path(), 1 << 20).status().message(),
              HasSubstr("is a folder, not a file"));
  EXPECT_THAT(ReadSmallFile("/dev/zero", 1 << 20).status().message(),
              HasSubstr("is not a regular file"));
  ASSERT_EQ(mkfifo((folder.path() + "/fifo").c_str(), 0600), 0);
  EXPECT_THAT(ReadSmallFile(folder.path() + "/fifo", 8).status().message(),
              HasSubstr("is not a regular file"));
}

TEST(WithCommas, GroupsByThree) {
  EXPECT_EQ(WithCommas(0), "0");
  EXPECT_EQ(WithCommas(999), "999");
  EXPECT_EQ(WithCommas(1000), "1,000");
  EXPECT_EQ(WithCommas(UINT64_MAX), "18,446,744,073,709,551,615");
}

}  // namespace
}  // namespace quire
