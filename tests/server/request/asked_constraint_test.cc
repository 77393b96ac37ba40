// What an answer must be, as the three gRPC surfaces say it: the same constraints, each in its own
// names.
#include "server/request/asked_constraint.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/request/field_error.h"
#include "server/surfaces/grpc/request_messages.h"
#include "server/surfaces/vllm/vllm_engine_request.h"
#include "server/surfaces/vllm/vllm_inference_request.h"

namespace quire {
namespace {

using Kind = ConstraintSpec::Kind;

template <typename Message>
Message Parsed(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

struct Surface {
  std::string prefix;  // of its fields' names
  std::string json_schema;
  std::function<absl::StatusOr<Generation>(const std::string&)> read;
};

// Each takes the fields of its message that has the constraints.
std::vector<Surface> Surfaces() {
  return {
      {"", "json_schema",
       [](const std::string& text) {
         return ToGeneration(Parsed<v1::GenerateRequest>(text + " token_ids { ids: 1 }"));
       }},
      {"sampling_params.", "json_schema",
       [](const std::string& text) {
         return FromVllmEngine(Parsed<::vllm::grpc::engine::GenerateRequest>(
             absl::StrCat("sampling_params { ", text, " } tokenized { input_ids: 1 }")));
       }},
      {"decoding.", "json",
       [](const std::string& text) {
         return FromVllmInference(Parsed<::vllm::GenerateRequest>(
                                      absl::StrCat("decoding { ", text, " } token_ids { ids: 1 }")),
                                  ModelFacts());
       }},
  };
}

TEST(AskedConstraintTest, EveryKindOfConstraint) {
  for (const Surface& surface : Surfaces()) {
    const auto read = [&surface](const std::string& text) {
      absl::StatusOr<Generation> asked = surface.read(text);
      EXPECT_TRUE(asked.ok()) << surface.prefix << text << asked.status();
      return asked->constraint;
    };
    EXPECT_FALSE(read("").has_value()) << surface.prefix;
    EXPECT_FALSE(read("json_object: false").has_value()) << surface.prefix;
    const auto schema = read(surface.json_schema + R"(: '{"type": "null"}')");
    EXPECT_EQ(schema->kind, Kind::kJsonSchema);
    EXPECT_EQ(ToJson(schema->schema), R"({"type": "null"})");
    EXPECT_EQ(schema->field, surface.prefix + surface.json_schema);
    const auto object = read("json_object: true");
    EXPECT_EQ(ToJson(object->schema), R"({"type": "object"})");
    EXPECT_EQ(object->field, surface.prefix + "json_object");
    const auto regex = read("regex: 'a*'");
    EXPECT_EQ(regex->kind, Kind::kRegex);
    EXPECT_EQ(regex->text, "a*");
    EXPECT_EQ(regex->field, surface.prefix + "regex");
    const auto grammar = read("grammar: 'root ::= x'");
    EXPECT_EQ(grammar->kind, Kind::kGrammar);
    EXPECT_EQ(grammar->text, "root ::= x");
    EXPECT_EQ(grammar->field, surface.prefix + "grammar");
    const auto choice = read("choice { choices: 'a' choices: 'b' }");
    EXPECT_EQ(choice->kind, Kind::kChoice);
    EXPECT_EQ(choice->choices, (std::vector<std::string>{"a", "b"}));
    EXPECT_EQ(choice->field, surface.prefix + "choice");
  }
}

TEST(AskedConstraintTest, AWrongOneNamesItsField) {
  for (const Surface& surface : Surfaces()) {
    const absl::Status schema = surface.read(surface.json_schema + ": '{x'").status();
    EXPECT_TRUE(absl::IsInvalidArgument(schema)) << schema;
    EXPECT_EQ(FieldOf(schema), surface.prefix + surface.json_schema);
    const absl::Status choice = surface.read("choice {}").status();
    EXPECT_TRUE(absl::IsInvalidArgument(choice)) << choice;
    EXPECT_EQ(FieldOf(choice), surface.prefix + "choice");
    if (surface.prefix.empty()) continue;  // ours has no structural tags
    const absl::Status tag = surface.read("structural_tag: 'x'").status();
    EXPECT_TRUE(absl::IsUnimplemented(tag)) << tag;
    EXPECT_EQ(FieldOf(tag), surface.prefix + "structural_tag");
  }
}

// A router tells reasoning apart, unless it says that the constraint holds from the first token.
TEST(AskedConstraintTest, RoutersLeaveReasoningFree) {
  const std::vector<Surface> surfaces = Surfaces();
  EXPECT_FALSE(surfaces[0].read("regex: 'a'")->has_reasoning);
  EXPECT_TRUE(surfaces[1].read("regex: 'a'")->has_reasoning);
  EXPECT_FALSE(surfaces[1].read("regex: 'a' grammar_from_first_token: true")->has_reasoning);
  EXPECT_TRUE(surfaces[2].read("regex: 'a'")->has_reasoning);
}

}  // namespace
}  // namespace quire
