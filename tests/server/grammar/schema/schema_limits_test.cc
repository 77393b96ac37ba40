// Schemas that would need too much: that these tests end shows that limits, not luck, bound the
// work. They assert no time.
#include <set>

#include "tests/server/grammar/schema/explosive_schemas.h"
#include "tests/server/grammar/schema/schema_expectations.h"

namespace quire {
namespace {

// The others are compiled.
const std::set<std::string>& Refused() {
  static const auto* const names = new std::set<std::string>{
      "CountedMembers",   "PatternProperties", "PatternPropertiesAndMembers",
      "Dependencies",     "DependentSchemas",  "NotRequiredOfMany",
      "AllOfOfAnyOf",     "AllOfOfOneOf",      "OneOfOfArrays",
      "OneOfOfOneOf",     "NotAllOf",          "RecursiveProduct",
      "TwoNthFromTheEnd", "ProductOfCounts",   "FormatsAtOnce",
      "LargeMultiple",    "ContainsTooMuch"};
  return *names;
}

class SchemaLimitsTest : public testing::TestWithParam<ExplosiveSchema> {};

TEST_P(SchemaLimitsTest, CompilesOrIsRefused) {
  const auto compiled = CompiledSchema::Create(GetParam().schema);
  EXPECT_EQ(compiled.ok(), !Refused().contains(GetParam().name)) << compiled.status();
  if (!compiled.ok()) {
    EXPECT_TRUE(absl::IsResourceExhausted(compiled.status()) ||
                absl::IsUnimplemented(compiled.status()))
        << compiled.status();
    return;
  }
  // Texts of many kinds: the automaton gives up rather than exceed its limits.
  const std::string letters(300, 'a');
  for (const std::string& text :
       {absl::StrCat("\"", letters), std::string("\"abcabc def 123 http://a"),
        std::string(R"({"m1": 1, "m7": 3, "n": {"n": {)"), std::string("[[[1, 2"),
        std::string("-123456789012.5"), std::string(R"({"t": "k5", "a5": "x"})"),
        std::string(R"({"x": {"x": {"x": {"x": 1)")}) {
    compiled->Judge(text);
    EXPECT_LE(compiled->automaton().num_bytes(), AutomatonLimits().max_bytes + (size_t{8} << 20));
  }
}

INSTANTIATE_TEST_SUITE_P(All, SchemaLimitsTest, testing::ValuesIn(ExplosiveSchemas()),
                         [](const auto& info) { return info.param.name; });

TEST(SchemaLimitsTest, SmallLimitsRefuse) {
  SchemaOptions options;
  options.limits = {.max_cells = 3, .max_formulas = 10};
  const std::string many = absl::StrCat(
      R"({"anyOf": [)", Repeated(R"({"type": "array", "minItems": %i, "maxItems": %i})", 5), "]}");
  EXPECT_TRUE(CompiledSchema::Create(many).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(CompiledSchema::Create(many, options).status()));
  const std::string members =
      absl::StrCat(R"({"properties": {)", Repeated(R"("a%i": {"minimum": %i})", 20),
                   R"(}, "patternProperties": {"^a": {"multipleOf": 3}}})");
  EXPECT_TRUE(CompiledSchema::Create(members).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(CompiledSchema::Create(members, options).status()));
}

// A value may be as deep as the grammar is recursive; the parser keeps no stack of its own.
TEST(SchemaLimitsTest, DeepValues) {
  const auto compiled = CompiledSchema::Create(R"({"type": "array", "items": {"$ref": "#"}})");
  ASSERT_TRUE(compiled.ok());
  constexpr int kDepth = 10'000;
  const std::string text = std::string(kDepth, '[') + std::string(kDepth, ']');
  EXPECT_TRUE(compiled->Accepts(text));
  EXPECT_FALSE(compiled->Accepts(text + "]"));
}

}  // namespace
}  // namespace quire
