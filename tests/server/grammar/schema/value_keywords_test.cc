// Keywords for values of every type, and those that combine schemas.
#include "absl/strings/str_replace.h"
#include "tests/server/grammar/schema/schema_expectations.h"

namespace quire {
namespace {

TEST(ValueKeywordsTest, BooleanAndEmptySchemas) {
  const JsonTexts any = {"null",  "true", "1",       "-1.5e3",
                         "\"a\"", "[]",   "[1, {}]", "{\"a\": [null]}"};
  ExpectTexts("true", any, {"", "nul", "01", "{a: 1}", "[1,]", "'a'", "true false"});
  ExpectTexts("{}", any, {""});
  ExpectTexts(R"({"title": "t", "description": 5, "unknown": {"type": "no type"}})", any, {""});
  ExpectNothing("false");
  ExpectTexts(R"({"type": "array", "items": false})", {"[]"}, {"[1]"});
}

TEST(ValueKeywordsTest, Types) {
  ExpectTexts(R"({"type": "null"})", {"null"}, {"true", "0", "\"null\"", "[]", "{}"});
  ExpectTexts(R"({"type": "boolean"})", {"true", "false"}, {"null", "0", "\"true\""});
  ExpectTexts(R"({"type": "integer"})", {"0", "12", "-5", "123456789012345678901234567890"},
              {"1.5", "1.0", "1e3", "\"1\"", "null", "+1", "01"});
  ExpectTexts(R"({"type": "number"})", {"0", "-12", "1.5", "1.0", "1e3", "1E-7", "-0.5e+10"},
              {".5", "1.", "1e", "0x1", "NaN", "-", "00"});
  ExpectTexts(R"({"type": "string"})", {"\"\"", "\"a b\"", "\"é😀\""}, {"a", "1", "\"a", "null"});
  ExpectTexts(R"({"type": "array"})", {"[]", "[1, \"a\", [], {}]"}, {"{}", "1", "[1"});
  ExpectTexts(R"({"type": "object"})", {"{}", "{\"a\": 1, \"b\": {}}"}, {"[]", "1", "{\"a\"}"});
  ExpectTexts(R"({"type": ["null", "integer"]})", {"null", "3"}, {"true", "3.5", "\"\""});
  ExpectTexts(R"({"type": ["integer", "number"]})", {"3", "3.5"}, {"null"});
}

TEST(ValueKeywordsTest, Enum) {
  ExpectTexts(R"({"enum": ["a", "b c", 1, -2.5, null, true, [1, "x"], {"k": [2]}]})",
              {"\"a\"", "\"b c\"", "1", "-2.5", "null", "true", "[1, \"x\"]", "{\"k\": [2]}",
               "[1,\"x\"]", "{ \"k\": [ 2 ] }"},
              {"\"A\"", "\"b\"", "2", "2.5", "false", "[]", "[1]", "[1, \"x\", 1]", "{}",
               "{\"k\": 2}", "{\"k\": [2], \"l\": 1}"});
  ExpectTexts(
      R"({"enum": ["a\"b", "c\\d", "e\nf", "g\u0001", "é", "😀", "/", ""]})",
      {R"("a\"b")", R"("c\\d")", R"("e\nf")", R"("g\u0001")", "\"é\"", "\"😀\"", "\"/\"", "\"\""},
      {R"("a")", R"("c\d")", "\"e\nf\"", R"("g")", "\"e\""});
  ExpectTexts(R"({"type": "string", "enum": ["a", 1, null]})", {"\"a\""}, {"1", "null"});
  ExpectTexts(R"({"enum": [1, 1.0, "a", "a", 1e0]})", {"1", "\"a\""}, {"2"});
  ExpectTexts(R"({"enum": [{"a": 1, "a": 2}]})", {R"({"a": 2})"},
              {R"({"a": 1})", R"({"a": 1, "a": 2})"});
  ExpectNothing(R"({"enum": []})");
}

TEST(ValueKeywordsTest, Const) {
  ExpectTexts(R"({"const": "a"})", {"\"a\""}, {"\"b\"", "\"aa\"", "\"\""});
  ExpectTexts(R"({"const": null})", {"null"}, {"0", "false"});
  ExpectTexts(R"({"const": false})", {"false"}, {"true", "0", "null"});
  ExpectTexts(R"({"const": 5})", {"5"}, {"50", "-5", "5.5", "\"5\""});
  ExpectTexts(R"({"const": 0})", {"0"}, {"00", "1", "-0"});
  ExpectTexts(R"({"const": -1.25})", {"-1.25"}, {"1.25", "-1.2", "-1.26", "-1"});
  ExpectTexts(R"({"const": 1e3})", {"1000"}, {"1", "100", "10000"});
  ExpectTexts(R"({"const": 12345678901234567890123})", {"12345678901234567890123"},
              {"12345678901234567890124", "12345678901234567890000"});
  ExpectTexts(R"({"const": [1, [2, "a"], {}]})", {"[1, [2, \"a\"], {}]", "[1,[2,\"a\"],{}]"},
              {"[1, [2], {}]", "[1, [2, \"a\"]]", "[1, [2, \"a\"], {}, 1]"});
  ExpectTexts(R"({"const": {"b": 1, "a": {"c": null}}})", {R"({"b": 1, "a": {"c": null}})"},
              {R"({"b": 1})", R"({"b": 1, "a": {}})", R"({"b": 1, "a": {"c": null}, "d": 1})"});
  ExpectTexts(R"({"const": {}})", {"{}", "{ }"}, {"{\"a\": 1}", "[]"});
  ExpectTexts(R"({"const": []})", {"[]"}, {"[1]", "{}"});
}

TEST(ValueKeywordsTest, AnyOf) {
  ExpectTexts(
      R"({"anyOf": [{"type": "string", "maxLength": 2}, {"type": "integer"}, {"minimum": 5}]})",
      {"\"ab\"", "1", "7.5", "\"abcdef\"", "null"}, {"4.5", "-1.5"});
  ExpectTexts(R"({"properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
                  "additionalProperties": false, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]})",
              {R"({"a": 1})", R"({"b": "x"})", R"({"a": 1, "b": "x"})"},
              {"{}", R"({"a": "x"})", R"({"c": 1})", R"({"a": 1, "b": 1})"});
  ExpectTexts(R"({"anyOf": [false, {"const": 1}]})", {"1"}, {"2"});
}

TEST(ValueKeywordsTest, OneOfIsExclusive) {
  ExpectTexts(R"({"oneOf": [{"type": "integer"}, {"minimum": 2}]})", {"1", "2.5", "\"a\""},
              {"3", "1.5"});
  ExpectTexts(R"({"type": "number", "oneOf": [{"multipleOf": 3}, {"multipleOf": 5}]})",
              {"3", "5", "9", "-10"}, {"15", "0", "1", "30"});
  ExpectTexts(
      R"({"type": "string", "oneOf": [{"pattern": "a"}, {"pattern": "b"}, {"maxLength": 1}]})",
      {"\"xa\"", "\"xb\"", "\"\"", "\"x\""}, {"\"ab\"", "\"a\"", "\"b\"", "\"xx\""});
  ExpectTexts(R"({"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]})",
              {R"({"a": 1})", R"({"b": 1})", R"({"a": 1, "c": 2})"}, {"{}", R"({"a": 1, "b": 1})"});
  ExpectTexts(R"({"oneOf": [{"const": 1}, {"const": 1}, {"const": 2}]})", {"2"}, {"1"});
  ExpectTexts(
      R"({"oneOf": [{"properties": {"t": {"const": "a"}, "x": {"type": "integer"}}, "required": ["t"]},
                            {"properties": {"t": {"const": "b"}, "x": {"type": "string"}}, "required": ["t"]}]})",
      {R"({"t": "a", "x": 1})", R"({"t": "b", "x": "1"})"},
      {R"({"t": "a", "x": "1"})", R"({"t": "b", "x": 1})", R"({"t": "c"})", R"({"x": 1})"});
  ExpectTexts(R"({"oneOf": [{"items": {"type": "integer"}, "type": "array"},
                            {"items": {"type": "string"}, "type": "array"}]})",
              {"[1]", "[\"a\", \"b\"]"}, {"[]", "[1, \"a\"]"});
  ExpectNothing(R"({"oneOf": [true, true]})");
}

TEST(ValueKeywordsTest, AllOf) {
  ExpectTexts(R"({"allOf": [{"type": "integer"}, {"minimum": 2}, {"maximum": 4}]})", {"2", "4"},
              {"1", "5", "3.5", "\"a\""});
  ExpectTexts(R"({"allOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]},
                            {"properties": {"b": {"type": "string"}, "a": {"minimum": 3}}}],
                  "properties": {"c": {"const": 1}}})",
              {R"({"a": 3})", R"({"a": 4, "b": "x", "c": 1})", R"({"a": 3, "z": 1})"},
              {R"({"a": 2})", R"({"b": "x"})", R"({"a": 3, "c": 2})"});
  ExpectTexts(
      R"({"allOf": [{"enum": ["a", "b", 1]}, {"type": "string"}, {"not": {"const": "a"}}]})",
      {"\"b\""}, {"\"a\"", "1"});
  ExpectNothing(R"({"allOf": [{"type": "string"}, {"type": "null"}]})");
}

TEST(ValueKeywordsTest, Not) {
  ExpectTexts(R"({"not": {"type": ["string", "object"]}})", {"1", "null", "[]"}, {"\"a\"", "{}"});
  ExpectTexts(R"({"not": {"type": "integer"}, "type": "number"})", {"1.5", "-0.25"},
              {"1", "1.0", "-3"});
  ExpectTexts(R"({"type": "number", "not": {"minimum": 1, "maximum": 2}})", {"0.99", "2.01", "-5"},
              {"1", "1.5", "2"});
  ExpectTexts(R"({"type": "number", "not": {"multipleOf": 0.5}})", {"0.25", "1.3"},
              {"0.5", "2", "1.50"});
  ExpectTexts(R"({"type": "string", "not": {"pattern": "^a.*b$"}})", {"\"a\"", "\"\"", "\"ba\""},
              {"\"ab\"", "\"axxb\""});
  ExpectTexts(R"({"type": "string", "not": {"enum": ["a", "b"]}})", {"\"c\"", "\"aa\"", "\"\""},
              {"\"a\"", "\"b\""});
  ExpectTexts(R"({"type": "string", "not": {"minLength": 2, "maxLength": 3}})",
              {"\"a\"", "\"abcd\""}, {"\"ab\"", "\"abc\""});
  ExpectTexts(R"({"type": "object", "not": {"required": ["a"]}})", {"{}", R"({"b": 1})"},
              {R"({"a": 1})", R"({"b": 1, "a": 1})"});
  ExpectTexts(R"({"type": "object", "not": {"required": ["a", "b"]}})",
              {"{}", R"({"b": 1})", R"({"a": 1})"}, {R"({"a": 1, "b": 1})"});
  ExpectTexts(R"({"type": "object", "not": {"properties": {"a": {"type": "string"}}}})",
              {R"({"a": 1})"}, {"{}", R"({"a": "x"})", R"({"b": 1})"});
  ExpectTexts(R"({"type": "object", "not": {"additionalProperties": {"type": "string"}}})",
              {R"({"a": 1})", R"({"a": "x", "b": 1})"}, {"{}", R"({"a": "x"})"});
  ExpectTexts(R"({"type": "object", "not": {"minProperties": 1, "maxProperties": 2}})",
              {"{}", R"({"a": 1, "b": 1, "c": 1})"}, {R"({"a": 1})", R"({"a": 1, "b": 1})"});
  ExpectTexts(R"({"type": "array", "not": {"items": {"type": "string"}}})", {"[1]", "[\"a\", 1]"},
              {"[]", "[\"a\"]"});
  ExpectTexts(R"({"type": "array", "not": {"contains": {"const": 1}}})", {"[]", "[2]"},
              {"[1]", "[2, 1]"});
  ExpectTexts(R"({"type": "array", "not": {"minItems": 1, "maxItems": 1}})", {"[]", "[1, 2]"},
              {"[1]"});
  ExpectTexts(R"({"not": {"not": {"type": "null"}}})", {"null"}, {"1"});
  ExpectTexts(R"({"type": "object", "not": {"const": {"a": 1}}})",
              {"{}", R"({"a": 2})", R"({"a": 1, "b": 1})"}, {R"({"a": 1})"});
  ExpectTexts(R"({"type": "array", "not": {"enum": [[1, 2], []]}})", {"[1]", "[2, 2]", "[1, 2, 3]"},
              {"[1, 2]", "[]"});
  ExpectTexts(R"({"properties": {"a": {"not": {}}, "b": {}}, "type": "object"})",
              {"{}", R"({"b": 1})"}, {R"({"a": 1})"});
  ExpectNothing(R"({"not": {}})");
  ExpectNothing(R"({"not": true})");
}

// Both must have a member of their own that is not so.
TEST(ValueKeywordsTest, NotOfSeveralRulesOfNames) {
  const std::string_view schema = R"({"type": "object", "not": {"anyOf": [
      {"patternProperties": {"^a": {"type": "integer"}}}, {"patternProperties": {"^b": {"type": "integer"}}}]}})";
  ExpectTexts(schema,
              {R"({"a": "x", "b": "y"})", R"({"b": "y", "a": 1.5})",
               R"({"c": 1, "ax": "", "b": 1, "d": 2, "b2": null})"},
              {"{}", R"({"a": "x"})", R"({"b": "x"})", R"({"a": 1, "b": "x"})",
               R"({"c": "x", "a": "x", "b": 1})"});
  // One member may break several.
  ExpectTexts(
      R"({"type": "object", "not": {"anyOf": [
      {"patternProperties": {"^a": {"type": "integer"}}}, {"patternProperties": {"b": {"type": "integer"}}},
      {"additionalProperties": {"type": ["integer", "string"]}}]}})",
      {R"({"ab": null})", R"({"a": "x", "b": "x", "c": null})", R"({"x": 1, "ab": "x", "c": []})"},
      {"{}", R"({"ab": "x"})", R"({"a": null})", R"({"a": "x", "b": 1, "c": null})"});
  ExpectError(R"({"type": "object", "not": {"anyOf": [
      {"patternProperties": {"a": {"const": 1}}}, {"patternProperties": {"b": {"const": 1}}},
      {"patternProperties": {"c": {"const": 1}}}, {"patternProperties": {"d": {"const": 1}}}]}})",
              kUnsupported, "#", "more than 3");
}

TEST(ValueKeywordsTest, IfThenElse) {
  ExpectTexts(
      R"({"type": "integer", "if": {"minimum": 10}, "then": {"multipleOf": 10}, "else": {"multipleOf": 3}})",
      {"10", "20", "3", "-6", "9"}, {"11", "12", "4", "1"});
  ExpectTexts(
      R"({"properties": {"k": {"enum": ["a", "b"]}, "v": {}}, "required": ["k"], "type": "object",
                  "if": {"properties": {"k": {"const": "a"}}}, "then": {"properties": {"v": {"type": "integer"}}},
                  "else": {"properties": {"v": {"type": "string"}}, "required": ["v"]}})",
      {R"({"k": "a"})", R"({"k": "a", "v": 1})", R"({"k": "b", "v": "x"})"},
      {R"({"k": "a", "v": "x"})", R"({"k": "b"})", R"({"k": "b", "v": 1})"});
  ExpectTexts(R"({"if": {"type": "string"}, "then": {"maxLength": 1}})", {"\"a\"", "1"},
              {"\"ab\""});
  ExpectTexts(R"({"if": {"type": "string"}, "else": {"const": 1}})", {"\"abc\"", "1"}, {"2"});
  ExpectTexts(R"({"then": {"const": 1}, "else": {"const": 2}, "type": "integer"})", {"1", "3"},
              {"\"a\""});
  ExpectTexts(R"({"if": {"const": 0}, "type": "integer"})", {"0", "1"}, {"\"a\""});
  // Before draft 7 it is no keyword.
  ExpectTexts(R"({"$schema": "http://json-schema.org/draft-06/schema#", "type": "integer",
                  "if": true, "then": {"const": 1}})",
              {"1", "2"}, {"\"a\""});
}

TEST(ValueKeywordsTest, Dependencies) {
  const JsonTexts valid = {"{}", R"({"b": 1})", R"({"c": 1})", R"({"a": 1, "b": 1, "c": 1})",
                           "1",  "[]"};
  const JsonTexts invalid = {R"({"a": 1})", R"({"a": 1, "b": 1})", R"({"a": 1, "c": 1})"};
  ExpectTexts(R"({"dependencies": {"a": ["b", "c"]}})", valid, invalid);
  ExpectTexts(R"({"dependentRequired": {"a": ["b", "c"]}})", valid, invalid);
  ExpectTexts(R"({"dependentRequired": {"a": ["b", "c", "b", "a"]}})", valid, invalid);
  ExpectTexts(R"({"dependencies": {"a": "b"}})", {"{}", R"({"a": 1, "b": 1})"}, {R"({"a": 1})"});
  const JsonTexts schema_valid = {"{}", R"({"b": "x"})", R"({"a": 1, "b": 2})", R"({"a": 1})"};
  const JsonTexts schema_invalid = {R"({"a": 1, "b": "x"})"};
  ExpectTexts(R"({"dependencies": {"a": {"properties": {"b": {"type": "integer"}}}}})",
              schema_valid, schema_invalid);
  ExpectTexts(R"({"dependentSchemas": {"a": {"properties": {"b": {"type": "integer"}}}}})",
              schema_valid, schema_invalid);
  ExpectTexts(R"({"dependencies": {"a": false, "b": true}})", {"{}", R"({"b": 1})"},
              {R"({"a": 1})"});
  ExpectTexts(R"({"dependentRequired": {"a": ["b"], "b": ["c"], "c": []}})",
              {"{}", R"({"c": 1})", R"({"b": 1, "c": 1})", R"({"a": 1, "b": 1, "c": 1})"},
              {R"({"a": 1})", R"({"b": 1})", R"({"a": 1, "b": 1})"});
  ExpectTexts(R"({"dependentRequired": {"a": []}})", {"{}", R"({"a": 1})"}, {});
}

TEST(ValueKeywordsTest, ErrorsNameThePlace) {
  ExpectError(R"({"properties": {"a": {"type": "text"}}})", kWrong, "#/properties/a/type",
              "\"text\"");
  ExpectError(R"({"properties": {"a/b~c": {"type": 1}}})", kWrong, "#/properties/a~1b~0c/type",
              "not 1");
  ExpectError(R"({"items": [{}, {"enum": 1}]})", kWrong, "#/items/1/enum", "a list");
  ExpectError(R"({"anyOf": []})", kWrong, "#/anyOf", "at least one");
  ExpectError(R"({"allOf": {"type": "null"}})", kWrong, "#/allOf", "list");
  ExpectError(R"({"oneOf": [{"oneOf": "x"}]})", kWrong, "#/oneOf/0/oneOf", "list");
  ExpectError(R"({"items": 5})", kWrong, "#/items", "an object or a boolean");
  ExpectError(R"({"$defs": {"a": {"not": "x"}}, "$ref": "#/$defs/a"})", kWrong, "#/$defs/a/not",
              "object");
  ExpectError("5", kWrong, "#", "an object or a boolean");
  ExpectError(R"({"dependencies": []})", kWrong, "#/dependencies", "an object");
  ExpectError(R"({"properties": {"a": {"unevaluatedProperties": false}}})", kUnsupported,
              "#/properties/a/unevaluatedProperties", "not supported");
  ExpectError(R"({"$dynamicRef": "#a"})", kUnsupported, "#/$dynamicRef", "not supported");
  ExpectError(R"({"const": 1e-999})", kWrong, "#/const", "digits");
  ExpectError(R"({"properties": {"a": {"enum": [1, {"b": 1e-999}]}}})", kWrong,
              "#/properties/a/enum/1/b", "digits");
  ExpectError(R"({"dependencies": {"a": [1]}})", kWrong, "#/dependencies/a", "names");
  ExpectError(R"({"properties": {"a": {"enum": {"b": 1}}}})", kWrong, "#/properties/a/enum",
              "list");
  ExpectTexts(R"({"unevaluatedProperties": true, "unevaluatedItems": true})", {"1", "{}"}, {});
}

}  // namespace
}  // namespace quire
