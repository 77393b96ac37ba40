#include "server/openai/chat_tools.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

JsonTree Tree(const std::string& json) {
  size_t num_values = 0;
  const absl::StatusOr<JsonTree> tree = ParseJsonTree(json, &num_values);
  EXPECT_TRUE(tree.ok()) << tree.status();
  return *tree;
}

// With the property "p" of this schema.
AnswerOptions OptionsOf(const std::string& schema) {
  const JsonTree body = Tree(R"({"tools": [{"type": "function", "function": {"name": "f",
      "parameters": {"properties": {"p": )" +
                             schema + "}}}}]}");
  FieldReader fields(body);
  v1::Messages messages;
  AnswerOptions options;
  FillTools(fields, ToolFormat::kQwen3Coder, &messages, &options);
  EXPECT_TRUE(fields.status().ok()) << fields.status();
  return options;
}

bool IsText(const std::string& schema) { return OptionsOf(schema).functions.at("f").empty(); }

TEST(ChatToolsTest, SchemasSayWhatIsNoText) {
  for (const char* schema : {R"({})", R"({"type": "string"})", R"({"type": ["string"]})", R"(true)",
                             R"({"anyOf": [{"type": "string"}]})"}) {
    EXPECT_TRUE(IsText(schema)) << schema;
  }
  for (const char* schema :
       {R"({"type": "integer"})", R"({"type": ["string", "null"]})", R"({"type": 5})",
        R"({"anyOf": [{"type": "string"}, {"type": "null"}]})",
        R"({"oneOf": [{"$ref": "#/a"}]})"}) {
    EXPECT_FALSE(IsText(schema)) << schema;
  }
}

TEST(ChatToolsTest, ToolsGoToTheTemplateAsTheyCame) {
  const std::string tools = R"([{"function": {"x": 1, "name": "f"}, "type": "function"}])";
  const JsonTree body = Tree("{\"parallel_tool_calls\": false, \"tools\": " + tools + "}");
  FieldReader fields(body);
  v1::Messages messages;
  AnswerOptions options;
  FillTools(fields, ToolFormat::kHermes, &messages, &options);
  EXPECT_EQ(messages.tools_json(), tools);
  EXPECT_TRUE(options.one_call);
  EXPECT_EQ(options.tools, ToolFormat::kHermes);
}

TEST(ChatToolsTest, ArgumentsBecomeJsonWhereTheyAreJson) {
  JsonTree calls = Tree(R"([{"function": {"name": "f", "arguments": "{\"a\": [1.50, null]}"}},
                            {"function": {"arguments": ""}}, {"function": {"arguments": "{oops"}},
                            {"function": {"arguments": {"b": 2}}}, {"function": 5}, 6])");
  size_t num_values = 0;
  DecodeArguments(&calls, &num_values);
  EXPECT_EQ(ToJson(calls),
            R"([{"function": {"name": "f", "arguments": {"a": [1.50, null]}}}, )"
            R"({"function": {"arguments": {}}}, {"function": {"arguments": "{oops"}}, )"
            R"({"function": {"arguments": {"b": 2}}}, {"function": 5}, 6])");
}

// What is decoded takes many times the memory of its text.
TEST(ChatToolsTest, ArgumentsOfOneRequestShareABound) {
  std::string list = "[";
  for (size_t i = 0; i < kMaxBodyValues * 2 / 3; ++i) list += "1,";
  const std::string call = "{\"function\": {\"arguments\": \"" + list + "1]\"}}";
  JsonTree calls = Tree("[" + call + ", " + call + "]");
  size_t num_values = 0;
  DecodeArguments(&calls, &num_values);
  const auto arguments = [&calls](size_t i) {
    return calls.items[i].Find("function")->Find("arguments");
  };
  EXPECT_TRUE(arguments(0)->is_list());
  EXPECT_TRUE(arguments(1)->is_text());
}

}  // namespace
}  // namespace quire
