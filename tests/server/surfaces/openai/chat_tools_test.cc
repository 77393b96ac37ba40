#include "server/surfaces/openai/chat_tools.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "server/request/generate/prompt_encoder.h"

namespace quire {
namespace {

JsonTree Tree(const std::string& json) {
  size_t num_values_left = kMaxJsonValues;
  const absl::StatusOr<JsonTree> tree = ParseJsonTree(json, &num_values_left);
  EXPECT_TRUE(tree.ok()) << tree.status();
  return *tree;
}

const ModelAnswers& Answers() {
  static const ModelAnswers& answers = *new ModelAnswers(
      "hermes", "none", PromptEncoder::WithoutTokenizer()->tokenizer(), /*chat_templates=*/"");
  return answers;
}

struct Filled {
  Generation asked;
  AnswerOptions options;
  absl::Status status;
  const ChatPrompt& chat() const { return std::get<ChatPrompt>(asked.prompt); }
};

Filled Fill(const JsonTree& body) {
  FieldReader fields(body);
  Filled filled;
  filled.asked.prompt = ChatPrompt();
  FillTools(fields, ReadChatTools(fields), Answers(), &filled.asked, &filled.options);
  filled.status = fields.status();
  return filled;
}

// The parameters of a function f that is declared with these.
ToolParameters ParametersOf(const std::string& parameters) {
  const JsonTree body =
      Tree(R"({"tools": [{"type": "function", "function": {"name": "f", "parameters": )" +
           parameters + "}}]}");
  const Filled filled = Fill(body);
  EXPECT_TRUE(filled.status.ok()) << filled.status;
  return filled.options.functions.at("f");
}

// The types of a parameter that has this schema, beside some definitions.
JsonTypes TypesOf(const std::string& schema) {
  return ParametersOf(R"({"type": "object", "properties": {"p": )" + schema + R"(}, "$defs": {
      "Place": {"type": "object", "properties": {"city": {"type": "string"}}},
      "Unit": {"enum": ["C", "F"]},
      "a/b~c": {"type": "integer"},
      "Loop": {"$ref": "#/$defs/Loop"},
      "Tree": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}}})")
      .TypesOf("p");
}

TEST(ChatToolsTest, SchemasSayWhichTypesThereMayBe) {
  constexpr JsonTypes kNumbers = kJsonNumber | kJsonInteger;
  for (const auto& [schema, types] : std::vector<std::pair<std::string, JsonTypes>>{
           {R"({})", kJsonText},
           {R"(true)", kJsonText},
           {R"({"type": "string"})", kJsonText},
           {R"({"type": ["string"]})", kJsonText},
           {R"({"type": "integer"})", kJsonInteger},
           {R"({"type": "number"})", kNumbers},
           {R"({"type": ["string", "null"]})", kJsonText | kJsonNull},
           {R"({"type": "boolean", "nullable": true})", kJsonBool | kJsonNull},
           {R"({"type": 5})", kAnyJson},
           {R"({"anyOf": [{"type": "string"}]})", kJsonText},
           {R"({"anyOf": [{"type": "string"}, {"type": "null"}]})", kJsonText | kJsonNull},
           {R"({"oneOf": [{"type": "array"}, {"$ref": "#/$defs/Place"}]})",
            kJsonList | kJsonObject},
           {R"({"anyOf": [{"type": "string"}, {}]})", kAnyJson},
           {R"({"$ref": "#/$defs/Place"})", kJsonObject},
           {R"({"$ref": "#/$defs/Unit", "description": "d"})", kJsonText},
           {R"({"$ref": "#/$defs/a~1b~0c"})", kJsonInteger},
           {R"({"$ref": "#/$defs/Tree"})", kJsonList},
           {R"({"$ref": "#"})", kJsonObject},
           {R"({"allOf": [{"$ref": "#/$defs/Place"}], "default": null})", kJsonObject},
           {R"({"allOf": [{"type": ["integer", "null"]}, {"type": ["integer", "string"]}]})",
            kJsonInteger},
           {R"({"allOf": [{"type": "integer"}, {"type": "string"}]})", kAnyJson},
           {R"({"enum": ["a", 1, null]})", kJsonText | kJsonInteger | kJsonNull},
           {R"({"type": "string", "enum": ["a"]})", kJsonText},
           {R"({"const": true})", kJsonBool},
           {R"({"const": null})", kJsonNull},
           {R"({"properties": {}})", kJsonObject},
           {R"({"items": {}})", kJsonList},
           // Nothing can be told: out of the schema, and round in circles.
           {R"({"$ref": "https://example.com/schema"})", kAnyJson},
           {R"({"$ref": "#/$defs/Nowhere"})", kAnyJson},
           {R"({"$ref": "#/$defs/Loop"})", kAnyJson}}) {
    EXPECT_EQ(int{TypesOf(schema)}, int{types}) << schema;
  }
}

TEST(ChatToolsTest, PropertiesAreFoundBehindReferences) {
  const ToolParameters parameters = ParametersOf(R"({"$ref": "#/$defs/Args", "$defs": {
      "Args": {"allOf": [{"properties": {"a": {"type": "integer"}}}], "properties": {
          "b": {"type": "string"}}, "additionalProperties": {"type": "boolean"}}}})");
  EXPECT_EQ(parameters.TypesOf("a"), kJsonInteger);
  EXPECT_EQ(parameters.TypesOf("b"), kJsonText);
  EXPECT_EQ(parameters.TypesOf("c"), kJsonBool);
}

// Each level is looked at from the one above as often as that is, twice.
TEST(ChatToolsTest, SchemasThatAreManyTimesTheirTextEnd) {
  std::string defs = R"("d30": {"type": "integer"})";
  for (int i = 0; i < 30; ++i) {
    const std::string next = "{\"$ref\": \"#/$defs/d" + std::to_string(i + 1) + "\"}";
    defs += ", \"d" + std::to_string(i) + "\": {\"allOf\": [" + next + ", " + next + "]}";
  }
  const ToolParameters parameters =
      ParametersOf(R"({"properties": {"p": {"$ref": "#/$defs/d0"}}, "$defs": {)" + defs + "}}");
  EXPECT_EQ(parameters.TypesOf("p"), kAnyJson);
}

TEST(ChatToolsTest, ToolsGoToTheTemplateAsTheyCame) {
  const std::string tools = R"([{"function": {"x": 1, "name": "f"}, "type": "function"}])";
  const JsonTree body = Tree("{\"parallel_tool_calls\": false, \"tools\": " + tools + "}");
  const Filled filled = Fill(body);
  EXPECT_EQ(ToJson(filled.chat().tools), tools);
  EXPECT_TRUE(filled.options.one_call);
  EXPECT_EQ(filled.options.tools, ToolFormat::kHermes);
}

TEST(ChatToolsTest, ACallThatMustBeMadeBeginsTheAnswer) {
  const JsonTree body = Tree(R"({"tools": [{"type": "function", "function": {"name": "f"}}],
                                 "tool_choice": "required"})");
  const Filled filled = Fill(body);
  ASSERT_TRUE(filled.status.ok()) << filled.status;
  ASSERT_TRUE(filled.chat().answer_start.has_value());
  EXPECT_EQ(filled.chat().answer_start->text, filled.options.opening);
  EXPECT_EQ(ToJson(filled.chat().template_kwargs), R"({"enable_thinking": false})");
  EXPECT_FALSE(Fill(Tree(R"({"tool_choice": "required"})")).status.ok());
}

TEST(ChatToolsTest, ArgumentsBecomeJsonWhereTheyAreJson) {
  JsonTree calls = Tree(R"([{"function": {"name": "f", "arguments": "{\"a\": [1.50, null]}"}},
                            {"function": {"arguments": ""}}, {"function": {"arguments": "{oops"}},
                            {"function": {"arguments": {"b": 2}}}, {"function": 5}, 6])");
  size_t num_values_left = kMaxJsonValues;
  DecodeArguments(&calls, &num_values_left);
  EXPECT_EQ(ToJson(calls),
            R"([{"function": {"name": "f", "arguments": {"a": [1.50, null]}}}, )"
            R"({"function": {"arguments": {}}}, {"function": {"arguments": "{oops"}}, )"
            R"({"function": {"arguments": {"b": 2}}}, {"function": 5}, 6])");
}

// What is decoded takes many times the memory of its text.
TEST(ChatToolsTest, ArgumentsOfOneRequestShareABound) {
  std::string list = "[";
  for (size_t i = 0; i < kMaxJsonValues * 2 / 3; ++i) list += "1.5,";
  const std::string call = "{\"function\": {\"arguments\": \"" + list + "1]\"}}";
  JsonTree calls = Tree("[" + call + ", " + call + "]");
  size_t num_values_left = kMaxJsonValues;
  DecodeArguments(&calls, &num_values_left);
  const auto arguments = [&calls](size_t i) {
    return calls.items[i].Find("function")->Find("arguments");
  };
  EXPECT_TRUE(arguments(0)->is_list());
  EXPECT_TRUE(arguments(1)->is_text());
}

}  // namespace
}  // namespace quire
