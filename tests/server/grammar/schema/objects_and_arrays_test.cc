// Keywords of objects and arrays, and where white space may be.
#include <cstdio>

#include "tests/server/grammar/schema/json_layout.h"
#include "tests/server/grammar/schema/schema_expectations.h"

namespace quire {
namespace {

TEST(ObjectsTest, PropertiesInTheirOrder) {
  ExpectTexts(
      R"({"type": "object", "properties": {"b": {"type": "integer"}, "a": {"type": "string"}}})",
      {"{}", R"({"b": 1})", R"({"a": "x"})", R"({"b": 1, "a": "x"})", R"({"b": 1, "c": 2})",
       R"({"c": [], "d": 0})"},
      {R"({"a": "x", "b": 1})", R"({"b": "x"})", R"({"b": 1, "b": 2})", R"({"c": 1, "b": 1})",
       R"({"b": 1,})", R"({,"b": 1})", R"({"b": 1 "a": "x"})", R"({"b"})"});
  // A value of another type fulfils it.
  ExpectTexts(R"({"properties": {"a": {"type": "string"}}})", {"1", "[]", R"({"a": "x"})"},
              {R"({"a": 1})"});
  ExpectTexts(R"({"properties": {"a": {"const": 1}, "a": {"const": 2}}})", {R"({"a": 2})"},
              {R"({"a": 1})"});
  ExpectTexts(
      R"({"properties": {"a\"\\\n/é😀": {"const": 1}, "": {"const": 2}}, "additionalProperties": false})",
      {R"({"a\"\\\n/é😀": 1})", R"({"": 2})"}, {R"({"a": 1})"});
  ExpectTexts(R"({"properties": {"a": false, "b": true}})", {"{}", R"({"b": 1})"}, {R"({"a": 1})"});
}

// A name that is declared cannot come again under another spelling.
TEST(ObjectsTest, EscapedNamesDoNotEvadeTheSchema) {
  ExpectTexts(R"({"properties": {"ab": {"type": "integer"}}})", {R"({"ab": 1})"},
              {R"({"\u0061b": "x"})", R"({"a\u0062": 1})", R"({"c": 1, "ab": "x"})"});
  ExpectTexts(R"({"properties": {"a/b": {"type": "integer"}}})", {R"({"a/b": 1})"},
              {R"({"a\/b": "x"})"});
}

TEST(ObjectsTest, Required) {
  ExpectTexts(R"({"properties": {"a": {}, "b": {}, "c": {}}, "required": ["c", "a"]})",
              {R"({"a": 1, "c": 1})", R"({"a": 1, "b": 1, "c": 1, "d": 1})"},
              {"{}", R"({"a": 1})", R"({"c": 1})", R"({"a": 1, "b": 1})"});
  // Not declared: behind those that are, in the order of the list.
  ExpectTexts(
      R"({"properties": {"a": {}}, "required": ["z", "y"], "additionalProperties": {"type": "integer"}})",
      {R"({"z": 1, "y": 2})", R"({"a": "x", "z": 1, "y": 2, "w": 3})"},
      {R"({"z": 1})", R"({"y": 2, "z": 1})", R"({"z": "x", "y": 2})"});
  ExpectTexts(R"({"required": ["a", "a"], "minProperties": 1})", {R"({"a": 1})"},
              {"{}", R"({"b": 1})"});
  ExpectNothing(R"({"type": "object", "required": ["a"], "additionalProperties": false})");
  ExpectNothing(R"({"type": "object", "properties": {"a": false}, "required": ["a"]})");
  ExpectTexts(R"({"properties": {"a": {"required": true}}})", {"{}"}, {});
  ExpectError(R"({"required": "a"})", kWrong, "#/required", "list of names");
  ExpectError(R"({"required": [1]})", kWrong, "#/required", "list of names");
  ExpectError(R"({"properties": []})", kWrong, "#/properties", "an object");
}

TEST(ObjectsTest, AdditionalProperties) {
  ExpectTexts(R"({"properties": {"a": {}}, "additionalProperties": false})", {"{}", R"({"a": 1})"},
              {R"({"b": 1})", R"({"a": 1, "b": 1})", R"({"": 1})"});
  ExpectTexts(R"({"properties": {"a": {}}, "additionalProperties": {"type": "integer"}})",
              {R"({"a": "x", "b": 1, "c": 2})", R"({"b": 1})", R"({"aa": 1})", R"({"": 1})"},
              {R"({"b": "x"})", R"({"a": 1, "aa": "x"})"});
  ExpectTexts(R"({"additionalProperties": {"type": "integer"}})",
              {"{}", R"({"x": 1, "y": 2})", "3"}, {R"({"x": "y"})"});
}

TEST(ObjectsTest, PatternProperties) {
  ExpectTexts(
      R"({"patternProperties": {"^a": {"type": "integer"}, "b$": {"type": "string"}}, "type": "object"})",
      {"{}", R"({"a": 1, "xb": "y"})", R"({"c": null})"},
      {R"({"a": "x"})", R"({"b": 1})", R"({"ab": 1})", R"({"ab": "x"})"});
  ExpectTexts(R"({"patternProperties": {"^a": {"type": "integer"}, "b$": {"minimum": 5}},
                  "additionalProperties": false})",
              {R"({"a": 1})", R"({"ab": 5})", R"({"b": "x"})"},
              {R"({"ab": 4})", R"({"ab": "x"})", R"({"c": 1})"});
  // Overlapping the declared ones.
  ExpectTexts(
      R"({"properties": {"aa": {"maximum": 9}, "z": {}}, "patternProperties": {"^a": {"type": "integer"}},
                  "additionalProperties": {"type": "null"}})",
      {R"({"aa": 5, "z": "x", "ab": 50, "q": null})"},
      {R"({"aa": 10})", R"({"aa": "x"})", R"({"q": 1})", R"({"ab": null})"});
  ExpectTexts(R"({"patternProperties": {"^é+$": {"const": 1}}, "additionalProperties": false})",
              {R"({"éé": 1})"}, {R"({"e": 1})"});
  ExpectTexts(R"({"patternProperties": {".*": {"const": 1}}})", {R"({"x": 1})", "{}"},
              {R"({"x": 2})"});
  ExpectError(R"({"items": {"patternProperties": {"(": {}}}})", kWrong, "#/items/patternProperties",
              "\"(\"");
  ExpectError(R"({"patternProperties": 1})", kWrong, "#/patternProperties", "an object");
}

TEST(ObjectsTest, PropertyNames) {
  ExpectTexts(R"({"propertyNames": {"maxLength": 2}})", {"{}", R"({"ab": 1, "": 2})", "3"},
              {R"({"abc": 1})"});
  ExpectTexts(
      R"({"propertyNames": {"enum": ["a", "b"]}, "properties": {"a": {"type": "integer"}}})",
      {R"({"a": 1, "b": "x"})"}, {R"({"a": "x"})", R"({"c": 1})"});
  ExpectTexts(R"({"propertyNames": {"pattern": "^a"}, "properties": {"b": {}, "ab": {}}})",
              {R"({"ab": 1, "a": 1})"}, {R"({"b": 1})"});
  ExpectTexts(R"({"propertyNames": false})", {"{}", "1"}, {R"({"a": 1})"});
  ExpectTexts(R"({"propertyNames": true})", {R"({"a": 1})"}, {});
  ExpectTexts(R"({"propertyNames": {"type": "integer"}})", {"{}"}, {R"({"a": 1})"});
  ExpectNothing(R"({"type": "object", "propertyNames": {"const": "a"}, "required": ["b"]})");
}

TEST(ObjectsTest, MinAndMaxProperties) {
  ExpectTexts(R"({"type": "object", "minProperties": 1, "maxProperties": 2})",
              {R"({"a": 1})", R"({"a": 1, "b": 1})"}, {"{}", R"({"a": 1, "b": 1, "c": 1})"});
  ExpectTexts(
      R"({"properties": {"a": {}, "b": {}, "c": {}}, "additionalProperties": false, "minProperties": 2})",
      {R"({"a": 1, "b": 1})", R"({"b": 1, "c": 1})", R"({"a": 1, "c": 1})",
       R"({"a": 1, "b": 1, "c": 1})"},
      {"{}", R"({"a": 1})", R"({"c": 1})"});
  ExpectTexts(
      R"({"properties": {"a": {}, "b": {}, "c": {}}, "required": ["b"], "maxProperties": 2})",
      {R"({"b": 1})", R"({"a": 1, "b": 1})", R"({"b": 1, "x": 1})"},
      {"{}", R"({"a": 1, "b": 1, "c": 1})", R"({"a": 1, "b": 1, "x": 1})"});
  ExpectTexts(R"({"type": "object", "maxProperties": 0})", {"{}", "{ }"}, {R"({"a": 1})"});
  ExpectTexts(R"({"type": "object", "minProperties": 2.0})", {R"({"a": 1, "b": 1})"},
              {R"({"a": 1})"});
  ExpectNothing(R"({"type": "object", "minProperties": 2, "maxProperties": 1})");
  ExpectNothing(
      R"({"properties": {"a": {}}, "additionalProperties": false, "minProperties": 2, "type": "object"})");
  ExpectError(R"({"items": {"minProperties": 100000000000}})", kTooMuch, "#/items",
              "too many members");
  ExpectError(R"({"minProperties": -1})", kWrong, "#/minProperties", "whole number");
  ExpectError(R"({"maxProperties": 1.5})", kWrong, "#/maxProperties", "whole number");
  ExpectError(R"({"maxProperties": "1"})", kWrong, "#/maxProperties", "whole number");
}

TEST(ObjectsTest, HundredsOfOptionalMembers) {
  for (const int count : {63, 64, 65, 127, 128, 129, 300}) {
    std::string schema = R"({"additionalProperties": false, "type": "object", "properties": {)",
                all = "{", some = "{";
    for (int i = 0; i < count; ++i) {
      char name[16];
      std::snprintf(name, sizeof(name), "\"m%03d\"", i);
      absl::StrAppend(&schema, i > 0 ? ", " : "", name, ": {\"type\": \"integer\"}");
      absl::StrAppend(&all, i > 0 ? ", " : "", name, ": ", i);
      if (i % 7 == 5) absl::StrAppend(&some, some.size() > 1 ? ", " : "", name, ": ", i);
    }
    all += "}";
    some += "}";
    const std::string last = absl::StrCat("{\"m", count < 101 ? "0" : "", count - 1, "\": 1}");
    const auto compiled = CompiledSchema::Create(schema + "}}");
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    for (const std::string& text :
         {all, some, last, std::string("{}"), std::string(R"({"m000": 1})")})
      EXPECT_TRUE(compiled->Accepts(text)) << count << ": " << text;
    for (const std::string_view text : {R"({"m001": 1, "m000": 1})", R"({"m001": 1, "m001": 1})",
                                        R"({"m999": 1})", R"({"m000": 1, })", R"({"m00": 1})",
                                        R"({"m062": 1, "m061": 1})", R"({"m001": 1, "x": 1})"})
      EXPECT_FALSE(compiled->Accepts(text)) << count << ": " << text;
  }
}

TEST(ArraysTest, Items) {
  ExpectTexts(R"({"items": {"type": "integer"}})", {"[]", "[1]", "[1, 2, 3]", "\"x\""},
              {"[1, \"x\"]", "[,]", "[1,]", "[1 2]"});
  ExpectTexts(R"({"type": "array", "minItems": 2, "maxItems": 3})", {"[1, 2]", "[1, 2, 3]"},
              {"[]", "[1]", "[1, 2, 3, 4]"});
  ExpectTexts(R"({"type": "array", "maxItems": 0})", {"[]"}, {"[1]"});
  ExpectTexts(R"({"type": "array", "items": {"const": 1}, "minItems": 300})", {}, {"[]", "[1, 1]"});
  ExpectNothing(R"({"type": "array", "minItems": 1, "items": false})");
  ExpectNothing(R"({"type": "array", "minItems": 3, "maxItems": 2})");
  ExpectError(R"({"minItems": -1})", kWrong, "#/minItems", "whole number");
}

TEST(ArraysTest, PrefixItems) {
  ExpectTexts(R"({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}]})",
              {"[]", "[1]", "[1, \"a\"]", "[1, \"a\", null, 5]"}, {"[\"a\"]", "[1, 2]"});
  ExpectTexts(
      R"({"type": "array", "prefixItems": [{"const": 1}, {"const": 2}], "items": {"const": 3}})",
      {"[]", "[1]", "[1, 2]", "[1, 2, 3, 3]"}, {"[1, 2, 4]", "[1, 3]"});
  ExpectTexts(R"({"type": "array", "prefixItems": [{"const": 1}, {"const": 2}], "items": false})",
              {"[]", "[1]", "[1, 2]"}, {"[1, 2, 3]"});
  ExpectTexts(
      R"({"type": "array", "prefixItems": [{"const": 1}, {"const": 2}], "minItems": 2, "maxItems": 3})",
      {"[1, 2]", "[1, 2, 3]"}, {"[]", "[1]", "[1, 2, 3, 4]"});
  ExpectTexts(R"({"type": "array", "prefixItems": [{"const": 1}, false, {"const": 2}]})",
              {"[]", "[1]"}, {"[1, 2]"});
  // The old spelling.
  ExpectTexts(R"({"$schema": "http://json-schema.org/draft-07/schema#", "type": "array",
                  "items": [{"const": 1}, {"const": 2}], "additionalItems": {"const": 3}})",
              {"[]", "[1]", "[1, 2, 3]"}, {"[2]", "[1, 2, 4]"});
  ExpectTexts(R"({"type": "array", "items": [{"const": 1}], "additionalItems": false})",
              {"[]", "[1]"}, {"[1, 1]"});
  ExpectTexts(R"({"type": "array", "items": {"const": 1}, "additionalItems": false})", {"[1, 1]"},
              {"[2]"});
  ExpectTexts(R"({"type": "array", "additionalItems": false})", {"[1]"}, {});
  ExpectTexts(R"({"type": "array", "items": []})", {"[1]", "[]"}, {});
  ExpectError(R"({"prefixItems": {}})", kWrong, "#/prefixItems", "list of schemas");
  ExpectError(R"({"items": [1]})", kWrong, "#/items/0", "an object or a boolean");
}

TEST(ArraysTest, Contains) {
  ExpectTexts(R"({"type": "array", "contains": {"const": 1}})", {"[1]", "[2, 1]", "[1, 1, 2]"},
              {"[]", "[2]"});
  ExpectTexts(R"({"type": "array", "contains": {"const": 1}, "minContains": 2, "maxContains": 3})",
              {"[1, 1]", "[1, 2, 1, 1]"}, {"[1]", "[1, 1, 1, 1]", "[]", "[1, 2, 1, 1, 2, 1]"});
  ExpectTexts(R"({"type": "array", "contains": {"const": 1}, "maxContains": 1, "minContains": 0})",
              {"[]", "[2]", "[1]", "[2, 1, 2]"}, {"[1, 1]", "[1, 2, 1]"});
  ExpectTexts(R"({"type": "array", "contains": {"const": 1}, "minContains": 0})", {"[]", "[2]"},
              {});
  ExpectTexts(
      R"({"type": "array", "contains": {"type": "string"}, "items": {"type": ["string", "integer"]}, "maxItems": 2})",
      {"[\"a\"]", "[1, \"a\"]"}, {"[1]", "[1, 2]", "[null, \"a\"]", "[1, 2, \"a\"]"});
  ExpectTexts(R"({"type": "array", "minContains": 2, "maxContains": 1})", {"[]"}, {});
  ExpectNothing(R"({"type": "array", "contains": false})");
  ExpectNothing(
      R"({"type": "array", "contains": {"const": 1}, "minContains": 3, "maxContains": 2})");
  ExpectTexts(
      R"({"type": "array", "contains": {"const": 1}, "prefixItems": [{"type": "integer"}, {"const": 2}]})",
      {"[1]", "[1, 2]", "[0, 2, 1]", "[5, 2, \"x\", 1]"},
      {"[]", "[2]", "[1, 1]", "[\"x\", 2, 1]", "[0, 2]"});
  ExpectTexts(
      R"({"type": "array", "allOf": [{"contains": {"const": 1}}, {"contains": {"type": "string"}},
                                             {"contains": {"minimum": 5}}]})",
      {"[1, \"a\", 5]", "[7, 1, \"a\"]", "[1, \"a\"]", "[1, null, \"a\"]"},
      {"[1, 5]", "[\"a\", 6]", "[]"});
  ExpectTexts(
      R"({"type": "array", "not": {"contains": {"const": 1}, "minContains": 2, "maxContains": 3}})",
      {"[]", "[1]", "[1, 1, 1, 1]", "[2, 1]"}, {"[1, 1]", "[1, 2, 1]", "[1, 1, 1]"});
  ExpectTexts(
      R"({"oneOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "array", "items": {"type": "string"}},
                            {"type": "array", "items": {"type": ["null", "string"]}}]})",
      {"[1]", "[null]", "[\"a\", null]"}, {"[]", "[\"a\"]", "[1, \"a\"]"});
  ExpectError(R"({"items": {"contains": {"const": 1}, "minContains": 50}})", kUnsupported,
              "#/items", "contains beside");
}

TEST(ArraysTest, UniqueItemsAreRefused) {
  ExpectError(R"({"properties": {"a": {"type": "array", "uniqueItems": true}}})", kUnsupported,
              "#/properties/a", "uniqueItems");
  ExpectTexts(R"({"type": "array", "uniqueItems": false})", {"[1, 1]"}, {});
  ExpectTexts(R"({"type": "array", "uniqueItems": true, "maxItems": 1})", {"[]", "[1]"},
              {"[1, 1]"});
  // Of no consequence for other types.
  ExpectTexts(R"({"type": "string", "uniqueItems": true})", {"\"a\""}, {"[]"});
}

constexpr std::string_view kNested =
    R"({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object"}}, "b": {}}})";

TEST(LayoutTest, WhiteSpaceOfTheUsualWriters) {
  size_t left = 100;
  const JsonTree value =
      *ParseJsonTree(R"({"a": [{"x": 1, "y": []}, {}], "b": {"c": [1, 2]}})", &left);
  const auto compiled = CompiledSchema::Create(kNested);
  ASSERT_TRUE(compiled.ok());
  for (const JsonLayout& layout :
       {JsonLayout{}, JsonLayout{.comma = ",", .colon = ":"}, JsonLayout{.comma = ",", .indent = 2},
        JsonLayout{.comma = ",", .indent = 4}, JsonLayout{.comma = ",", .indent = 0},
        JsonLayout{.comma = " , ", .colon = " : "}}) {
    const std::string text = WriteJson(value, layout);
    const bool before_signs = layout.comma == " , ";
    EXPECT_EQ(compiled->Accepts(text), !before_signs) << text;
  }
  ExpectTexts(
      kNested,
      {"{\n\t\"a\": [\n\t\t{}\n\t],\n\t\"b\": 1\n}", "{\r\n  \"a\": []\r\n}", "{ \"a\": [ ] }"},
      {"{\n\n\"a\": []}", "{  \"a\": []}", "{\"a\":   []}", " {}", "{} ", "\n{}", "{\"a\": []}\n"});
}

TEST(LayoutTest, NoneAtAll) {
  const auto compact = CompiledSchema::Create(kNested, {.has_white_space = false});
  ASSERT_TRUE(compact.ok());
  EXPECT_TRUE(compact->Accepts(R"({"a":[{"x":1},{}],"b":"c d"})"));
  for (const std::string_view text : {R"({"a": []})", R"({ "a":[]})", R"({"a":[] ,"b":1})",
                                      "{\n\"a\":[]}", R"({"a":[{}, {}]})", R"({"b":{"x": 1}})"})
    EXPECT_FALSE(compact->Accepts(text)) << text;
}

}  // namespace
}  // namespace quire
