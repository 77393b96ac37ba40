#include "server/surfaces/openai/constraint_fields.h"

#include <gtest/gtest.h>

#include <string>

#include "server/request/field_error.h"

namespace quire {
namespace {

struct Read {
  Generation asked;
  absl::Status status;

  // The constraint in one line: "schema {...} of FIELD".
  std::string text() const {
    if (!status.ok()) return status.ToString();
    if (!asked.constraint.has_value()) return "none";
    const ConstraintSpec& spec = *asked.constraint;
    std::string text = spec.is_compact ? "compact " : "";
    switch (spec.kind) {
      case ConstraintSpec::Kind::kJsonSchema:
        text += "schema " + ToJson(spec.schema);
        break;
      case ConstraintSpec::Kind::kRegex:
        text += "regex " + spec.text;
        break;
      case ConstraintSpec::Kind::kGrammar:
        text += "grammar " + spec.text;
        break;
      case ConstraintSpec::Kind::kChoice:
        text += "choice";
        for (const std::string& choice : spec.choices) text += " " + choice;
        break;
    }
    return text + " of " + spec.field;
  }
};

JsonTree Tree(const std::string& json) {
  size_t num_values_left = kMaxJsonValues;
  const absl::StatusOr<JsonTree> tree = ParseJsonTree(json, &num_values_left);
  EXPECT_TRUE(tree.ok()) << tree.status();
  return *tree;
}

Read ReadBody(const std::string& json) {
  const JsonTree body = Tree(json);
  FieldReader fields(body);
  Read read;
  FillConstraint(fields, &read.asked);
  read.status = fields.status();
  return read;
}

TEST(ConstraintFieldsTest, EveryNameThatServersHaveForAConstraint) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({})", "none"},
      {R"({"response_format": null, "guided_json": null, "structured_outputs": null})", "none"},
      {R"({"response_format": {"type": "text"}})", "none"},
      {R"({"grammar": "", "json_schema": "", "regex": "", "ebnf": ""})", "none"},
      {R"({"response_format": {"type": "json_object"}})",
       R"(schema {"type": "object"} of response_format)"},
      {R"({"response_format": {"type": "json_object", "schema": {"type": "null"}}})",
       R"(schema {"type": "null"} of response_format.schema)"},
      {R"({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "strict": true,
           "schema": {"type": "null"}}}})",
       R"(schema {"type": "null"} of response_format.json_schema.schema)"},
      {R"({"response_format": {"type": "json_schema", "schema": true}})",
       R"(schema true of response_format.schema)"},
      {R"({"response_format": {"type": "grammar", "grammar": "root ::= x"}})",
       "grammar root ::= x of response_format.grammar"},
      {R"({"response_format": {"type": "regex", "pattern": "a*"}})",
       "regex a* of response_format.pattern"},
      {R"({"guided_json": {"type": "null"}})", R"(schema {"type": "null"} of guided_json)"},
      {R"({"guided_json": "{\"type\": \"null\"}"})", R"(schema {"type": "null"} of guided_json)"},
      {R"({"json_schema": {}})", "schema {} of json_schema"},
      {R"({"guided_regex": "a*"})", "regex a* of guided_regex"},
      {R"({"regex": "a*"})", "regex a* of regex"},
      {R"({"guided_choice": ["a", "b c"]})", "choice a b c of guided_choice"},
      {R"({"guided_grammar": "x"})", "grammar x of guided_grammar"},
      {R"({"grammar": "x"})", "grammar x of grammar"},
      {R"({"ebnf": "x"})", "grammar x of ebnf"},
      {R"({"structured_outputs": {"json": {}}})", "schema {} of structured_outputs.json"},
      {R"({"structured_outputs": {"json": "{}", "disable_any_whitespace": true}})",
       "compact schema {} of structured_outputs.json"},
      {R"({"structured_outputs": {"json_object": true, "regex": null}})",
       R"(schema {"type": "object"} of structured_outputs.json_object)"},
      {R"({"structured_outputs": {"regex": "a*"}})", "regex a* of structured_outputs.regex"},
      {R"({"structured_outputs": {"choice": ["a"]}})", "choice a of structured_outputs.choice"},
      {R"({"structured_outputs": {"grammar": "x"}})", "grammar x of structured_outputs.grammar"},
      {R"({"response_format": {"type": "json_object"},
           "structured_outputs": {"disable_any_whitespace": true}})",
       R"(compact schema {"type": "object"} of response_format)"},
  };
  for (const auto& [body, expected] : cases) EXPECT_EQ(ReadBody(body).text(), expected) << body;
}

TEST(ConstraintFieldsTest, AWrongUseNamesItsField) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"response_format": 5})", "response_format"},
      {R"({"response_format": "json_object"})", "response_format"},
      {R"({"response_format": {}})", "response_format.type"},
      {R"({"response_format": {"type": "structural_tag"}})", "response_format.type"},
      {R"({"response_format": {"type": "json_schema"}})", "response_format"},
      {R"({"response_format": {"type": "json_schema", "json_schema": 5}})",
       "response_format.json_schema"},
      {R"({"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}})",
       "response_format.json_schema.schema"},
      {R"({"response_format": {"type": "grammar"}})", "response_format.grammar"},
      {R"({"response_format": {"type": "regex", "pattern": 5}})", "response_format.pattern"},
      {R"({"guided_json": "{x"})", "guided_json"},
      {R"({"guided_regex": 5})", "guided_regex"},
      {R"({"guided_choice": []})", "guided_choice"},
      {R"({"guided_choice": "a"})", "guided_choice"},
      {R"({"guided_choice": ["a", 5]})", "guided_choice"},
      {R"({"guided_grammar": {}})", "guided_grammar"},
      {R"({"structured_outputs": 5})", "structured_outputs"},
      {R"({"structured_outputs": {}})", "structured_outputs"},
      {R"({"structured_outputs": {"json_object": "yes"}})", "structured_outputs.json_object"},
      {R"({"structured_outputs": {"json": "{x"}})", "structured_outputs.json"},
      {R"({"structured_outputs": {"structural_tag": "x"}})", "structured_outputs.structural_tag"},
      {R"({"structured_outputs": {"json": {}, "disable_additional_properties": true}})",
       "structured_outputs.disable_additional_properties"},
      {R"({"structured_outputs": {"json": {}, "regex": "a"}})", "structured_outputs.regex"},
      {R"({"response_format": {"type": "json_object"}, "guided_regex": "a"})", "guided_regex"},
      {R"({"guided_json": {}, "structured_outputs": {"json_object": true}})", "guided_json"},
      {R"({"regex": "a", "ebnf": "b"})", "ebnf"},
      {R"({"guided_decoding_backend": 5})", "guided_decoding_backend"},
  };
  for (const auto& [body, field] : cases) {
    const Read read = ReadBody(body);
    EXPECT_TRUE(absl::IsInvalidArgument(read.status)) << body << read.status;
    EXPECT_EQ(FieldOf(read.status), field) << body << read.status;
  }
}

TEST(ConstraintFieldsTest, TwoConstraintsNameBothFields) {
  const Read read = ReadBody(R"({"guided_json": {}, "guided_regex": "a"})");
  EXPECT_EQ(read.status.message(),
            "another field, guided_json, already says what the answer must be; send only one");
}

}  // namespace
}  // namespace quire
