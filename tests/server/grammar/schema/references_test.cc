// $ref, identifiers and anchors, and what the draft changes.
#include "tests/server/grammar/schema/schema_expectations.h"

namespace quire {
namespace {

TEST(ReferencesTest, Local) {
  ExpectTexts(R"({"$ref": "#/$defs/a", "$defs": {"a": {"type": "integer"}}})", {"1"}, {"\"a\""});
  ExpectTexts(R"({"properties": {"a": {"type": "integer"}, "b": {"$ref": "#/properties/a"}}})",
              {R"({"a": 1, "b": 2})"}, {R"({"b": "x"})"});
  ExpectTexts(
      R"({"items": {"$ref": "#/definitions/x~1y~0z%25%22"}, "definitions": {"x/y~z%\"": {"const": 1}}})",
      {"[1]", "[]"}, {"[2]"});
  ExpectTexts(R"({"anyOf": [{"const": 1}, {"const": 2}], "$defs": {"b": {"$ref": "#/anyOf/1"}},
                  "$ref": "#/$defs/b"})",
              {"2"}, {"1"});
  // A chain.
  ExpectTexts(
      R"({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/c"},
                  "c": {"const": 1}}})",
      {"1"}, {"2"});
}

TEST(ReferencesTest, Recursive) {
  ExpectTexts(R"({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {
                  "value": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}}, "required": ["value"],
                  "additionalProperties": false}}})",
              {R"({"value": 1})", R"({"value": 1, "next": {"value": 2, "next": {"value": 3}}})"},
              {R"({"value": 1, "next": {}})", R"({"value": 1, "next": {"value": 2, "other": 1}})"});
  ExpectTexts(R"({"type": ["array", "null"], "items": {"$ref": "#"}})",
              {"[]", "[[[]], null, []]", "null"}, {"[1]", "[[[1]]]"});
  ExpectTexts(
      R"({"anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#"}, "minItems": 1}]})",
      {"1", "[1, [2, [3]]]"}, {"[]", "[[]]"});
  // Every value would have one inside.
  ExpectNothing(R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})");
  ExpectError(R"({"$ref": "#"})", kWrong, "#", "contains itself");
  ExpectError(
      R"({"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}, "items": {"$ref": "#/$defs/a"}})",
      kWrong, "#/$defs/a", "contains itself");
  ExpectError(
      R"({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"})",
      kWrong, "#/$defs/a", "contains itself");
}

TEST(ReferencesTest, ByIdentifier) {
  ExpectTexts(
      R"({"$id": "https://a.test/root.json", "$ref": "item.json", "$defs": {"x": {"$id": "item.json",
                  "type": "integer"}}})",
      {"1"}, {"\"a\""});
  ExpectTexts(
      R"({"$id": "https://a.test/root.json", "$ref": "https://a.test/root.json#/$defs/x", "$defs": {"x":
                  {"const": 1}}})",
      {"1"}, {"2"});
  ExpectTexts(R"({"$id": "https://a.test/d/root.json", "items": {"$ref": "/other"}, "$defs": {"x":
                  {"$id": "https://a.test/other", "$ref": "#/$defs/y", "$defs": {"y": {"const": 1}}}}})",
              {"[1]"}, {"[2]"});
  ExpectTexts(R"({"$ref": "urn:uuid:1234", "$defs": {"x": {"$id": "urn:uuid:1234", "const": 1}}})",
              {"1"}, {"2"});
  // Draft 4's word, and a property of that name.
  ExpectTexts(R"({"$schema": "http://json-schema.org/draft-04/schema#", "id": "http://a.test/r",
                  "properties": {"id": {"$ref": "x"}}, "definitions": {"x": {"id": "x", "type": "integer"}}})",
              {R"({"id": 1})"}, {R"({"id": "x"})"});
  ExpectTexts(R"({"properties": {"$id": {"type": "integer"}, "$ref": {"type": "integer"}}})",
              {R"({"$id": 1, "$ref": 2})"}, {R"({"$id": "x"})", R"({"$ref": "x"})"});
}

TEST(ReferencesTest, ByAnchor) {
  ExpectTexts(R"({"$ref": "#a", "$defs": {"x": {"$anchor": "a", "const": 1}}})", {"1"}, {"2"});
  ExpectTexts(
      R"({"$id": "http://a.test/r", "$ref": "other#a", "$defs": {"x": {"$id": "other", "$defs": {"y":
                  {"$anchor": "a", "const": 1}}}, "z": {"$anchor": "a", "const": 2}}})",
      {"1"}, {"2"});
  ExpectTexts(R"({"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#a",
                  "definitions": {"x": {"$id": "#a", "const": 1}}})",
              {"1"}, {"2"});
}

TEST(ReferencesTest, ThatLeadNowhere) {
  ExpectError(R"({"items": {"$ref": "#/$defs/b"}, "$defs": {"a": true}})", kWrong, "#/items/$ref",
              "no \"b\"");
  ExpectError(R"({"items": {"$ref": "#nowhere"}})", kWrong, "#/items/$ref", "leads nowhere");
  ExpectError(R"({"$ref": "https://a.test/schema.json"})", kUnsupported, "#/$ref",
              "leads out of the schema");
  ExpectError(R"({"$ref": "other.json#/a"})", kUnsupported, "#/$ref", "leads out of the schema");
  ExpectError(R"({"$ref": 5})", kWrong, "#/$ref", "string");
  ExpectError(R"({"$ref": "#/$defs/a/0", "$defs": {"a": []}})", kWrong, "#/$ref", "no \"0\"");
  ExpectError(R"({"$ref": "#/$defs/a", "$defs": {"a": 5}})", kWrong, "#/$defs/a",
              "an object or a boolean");
}

// Whether two schemas of a member exclude each other is asked while the whole is not known yet.
TEST(ReferencesTest, RecursiveInsideOfCombinations) {
  ExpectTexts(
      R"({"allOf": [{"properties": {"x": {"allOf": [{"$ref": "#"}, {"required": ["y"]}]}}},
                    {"properties": {"x": {"type": "object"}}}]})",
      {R"({"x": {"y": 1}})", R"({"x": {"x": {"y": 2}, "y": 1}})", "1"},
      {R"({"x": {}})", R"({"x": 1})", R"({"x": {"x": {}, "y": 1}})"});
  ExpectTexts(
      R"({"type": "object", "properties": {"kind": {"type": "string"},
          "child": {"oneOf": [{"$ref": "#"}, {"type": "null"}]}}, "required": ["kind", "child"],
          "anyOf": [{"properties": {"kind": {"const": "a"}, "child": {"type": "object"}}},
                    {"properties": {"kind": {"const": "b"}, "child": {"type": "null"}}}]})",
      {R"({"kind": "b", "child": null})",
       R"({"kind": "a", "child": {"kind": "b", "child": null}})"},
      {R"({"kind": "a", "child": null})", R"({"kind": "b", "child": {"kind": "b", "child": null}})",
       R"({"kind": "a", "child": {"kind": "a", "child": null}})"});
  ExpectTexts(R"({"properties": {"x": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
                  "allOf": [{"properties": {"x": {"type": ["object", "null"]}}}]})",
              {R"({"x": {"x": null}})", "1", R"({"y": 1})"},
              {R"({"x": 1})", R"({"x": {"x": []}})"});
}

// Constants are no schemas.
TEST(ReferencesTest, NotInConstants) {
  ExpectTexts(R"({"enum": [{"$ref": "#/nowhere"}, {"$id": "a"}]})",
              {R"({"$ref": "#/nowhere"})", R"({"$id": "a"})"}, {"{}"});
  ExpectTexts(
      R"({"$ref": "a", "$defs": {"x": {"const": {"$id": "a"}}, "y": {"$id": "a", "const": 1}}})",
      {"1"}, {R"({"$id": "a"})"});
  ExpectTexts(R"({"properties": {"enum": {"$id": "e", "const": 1}, "x": {"$ref": "e"}}})",
              {R"({"x": 1})"}, {R"({"x": 2})"});
}

TEST(ReferencesTest, SiblingsCountSinceDraft2019) {
  const auto schema = [](const std::string& draft) {
    return absl::StrCat(
        R"({"$schema": ")", draft,
        R"(", "definitions": {"a": {"type": "integer"}}, "$ref": "#/definitions/a", "minimum": 5})");
  };
  for (const char* const draft : {"https://json-schema.org/draft/2020-12/schema",
                                  "https://json-schema.org/draft/2019-09/schema", "", "something"})
    ExpectTexts(schema(draft), {"5"}, {"4", "\"a\""});
  for (const char* const draft :
       {"http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-06/schema",
        "https://json-schema.org/draft-07/schema#"})
    ExpectTexts(schema(draft), {"5", "4"}, {"\"a\""});
}

TEST(ReferencesTest, KeywordsOfLaterDrafts) {
  const auto draft4 = [](const std::string& rest) {
    return absl::StrCat(R"({"$schema": "http://json-schema.org/draft-04/schema#", )", rest, "}");
  };
  ExpectTexts(draft4(R"("const": 1)"), {"1", "2"}, {});
  ExpectTexts(draft4(R"("propertyNames": {"maxLength": 1})"), {R"({"ab": 1})"}, {});
  ExpectTexts(draft4(R"("contains": {"const": 1})"), {"[]"}, {});
  ExpectTexts(draft4(R"("minimum": 5, "exclusiveMinimum": true)"), {"6", "5.5"}, {"5", "4"});
  ExpectTexts(draft4(R"("minimum": 5, "exclusiveMinimum": false)"), {"5"}, {"4"});
  ExpectTexts(draft4(R"("maximum": 5, "exclusiveMaximum": true)"), {"4.9"}, {"5"});
}

}  // namespace
}  // namespace quire
