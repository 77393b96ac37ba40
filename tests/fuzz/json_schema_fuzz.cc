// JSON schemas of requests: whatever the schema is, an error has one of three codes and a place;
// what is compiled takes bytes within its limits, and only JSON is a whole text of it. Input: the
// schema, a zero byte, the text.
#include "absl/strings/match.h"
#include "kernels/base/check.h"
#include "server/grammar/match/parser.h"
#include "server/grammar/schema/schema_grammar.h"
#include "server/text/json_tree.h"
#include "tests/fuzz/target.h"

namespace quire::fuzz {
namespace {

constexpr size_t kMaxBytes = size_t{4} << 20;
constexpr size_t kMaxTextBytes = 200;
constexpr size_t kMaxValues = 2'000;

// Null for a schema that is refused.
std::unique_ptr<Automaton> Compile(const JsonTree& schema) {
  auto grammar = std::make_unique<Grammar>(kMaxBytes);
  const RuleId root = grammar->AddRule();
  const absl::StatusOr<RuleId> rule =
      AddJsonSchema(grammar.get(), schema, {.limits = {.max_cells = 300, .max_formulas = 2'000}});
  if (!rule.ok()) {
    CHECK(absl::IsInvalidArgument(rule.status()) || absl::IsUnimplemented(rule.status()) ||
          absl::IsResourceExhausted(rule.status()))
        << rule.status();
    CHECK(absl::StartsWith(rule.status().message(), "#") ||
          absl::IsResourceExhausted(rule.status()))
        << rule.status();
    return nullptr;
  }
  grammar->rules[root] = grammar->store.Rule(*rule);
  AutomatonLimits limits;
  limits.max_bytes = kMaxBytes;
  limits.max_search = 2'000;
  return std::make_unique<Automaton>(std::move(grammar), limits);
}

// Walks as far as the text goes. Where the text leaves the schema, the next byte is any that the
// schema allows there, so that the walk goes on.
void Walk(const Automaton& automaton, std::string_view text) {
  Parser parser(&automaton);
  Parser::Position position = parser.start();
  std::string taken;
  for (const char c : text) {
    Parser::Position next = parser.Next(position, static_cast<uint8_t>(c));
    uint8_t byte = static_cast<uint8_t>(c);
    for (int i = 1; i < 256 && next.is_dead(); ++i) {
      byte = static_cast<uint8_t>(static_cast<uint8_t>(c) + i);
      next = parser.Next(position, byte);
    }
    if (parser.gave_up()) return;
    // Nobody is led into a dead end.
    CHECK(!next.is_dead() || position.is_complete) << taken;
    if (next.is_dead()) break;
    position = next;
    taken += static_cast<char>(byte);
  }
  if (!position.is_complete) return;
  size_t num_values_left = 1000;
  const absl::StatusOr<JsonTree> value = ParseJsonTree(taken, &num_values_left, 500);
  // Numbers may be larger than a parser takes.
  CHECK(value.ok() || absl::StrContains(value.status().message(), "number"))
      << taken << ": " << value.status();
}

}  // namespace

std::vector<std::string> Seeds() {
  using std::string_literals::operator""s;
  return {
      R"({"type":"object","properties":{"a":{"type":"integer","minimum":-3},"b":{"enum":["x",1,null]}},"required":["a"],"additionalProperties":false})"
      "\0{\"a\": 1, \"b\": \"x\"}"s,
      R"({"$defs":{"n":{"type":"object","properties":{"v":{"type":"string","maxLength":3},"next":{"anyOf":[{"$ref":"#/$defs/n"},{"type":"null"}]}}}},"$ref":"#/$defs/n"})"
      "\0{\"v\": \"ab\", \"next\": {\"next\": null}}"s,
      R"({"oneOf":[{"properties":{"t":{"const":"a"},"x":{"type":"number"}},"required":["t"]},{"properties":{"t":{"const":"b"}},"not":{"required":["x"]}}]})"
      "\0{\"t\": \"a\", \"x\": 1.5}"s,
      R"({"type":"array","prefixItems":[{"multipleOf":0.5}],"items":{"type":"string","pattern":"^[a-c]+$","minLength":2},"minItems":1,"maxItems":4})"
      "\0[1.5, \"ab\", \"cc\"]"s,
      R"({"patternProperties":{"^a":{"type":"integer"},"b$":{"minimum":2}},"propertyNames":{"maxLength":3},"minProperties":1,"maxProperties":3})"
      "\0{\"ab\": 3, \"c\": null}"s,
      R"({"if":{"properties":{"k":{"const":1}}},"then":{"required":["v"]},"else":{"maxProperties":1},"dependentRequired":{"v":["w"]}})"
      "\0{\"k\": 1, \"v\": 2, \"w\": 3}"s,
      R"({"$schema":"http://json-schema.org/draft-07/schema#","items":[{"format":"date-time"},{"format":"ipv6"}],"contains":{"type":"string"},"additionalItems":{"not":{"type":["array","object"]}}})"
      "\0[\"2024-02-29T00:00:00Z\"]"s,
      R"({"allOf":[{"minimum":0,"exclusiveMaximum":10},{"anyOf":[{"multipleOf":3},{"multipleOf":0.25}]},{"not":{"const":5}}]})"
      "\0007.25"s,
      R"({"type":"array","contains":{"const":1},"minContains":1,"maxContains":2,"maxItems":4,"items":{"$ref":"#/$defs/i"},"$defs":{"i":{"$anchor":"i","type":"integer"}}})"
      "\0[1, 2, 1]"s};
}

std::vector<std::string> Dictionary() {
  return {"\"type\":",
          "\"properties\":",
          "\"required\":",
          "\"items\":",
          "\"anyOf\":[",
          "\"oneOf\":[",
          "\"allOf\":[",
          "\"not\":{",
          "\"$ref\":\"#\"",
          "\"$ref\":\"#/$defs/n\"",
          "\"enum\":[",
          "\"const\":",
          "\"minimum\":",
          "\"maximum\":",
          "\"multipleOf\":",
          "\"pattern\":\"",
          "\"minLength\":",
          "\"maxLength\":",
          "\"format\":\"date\"",
          "\"minItems\":",
          "\"maxItems\":",
          "\"prefixItems\":[",
          "\"contains\":",
          "\"if\":",
          "\"then\":",
          "\"else\":",
          "\"minProperties\":",
          "\"maxProperties\":",
          "\"patternProperties\":{",
          "\"additionalProperties\":",
          "\"propertyNames\":",
          "\"dependentSchemas\":{",
          "\"string\"",
          "\"object\"",
          "\"integer\"",
          "\"array\"",
          "{}",
          "true",
          "false",
          "[]"};
}

}  // namespace quire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;        // NOLINT(build/namespaces)
  using namespace quire::fuzz;  // NOLINT(build/namespaces)
  InputReader input(data, size);
  const std::string_view schema_text = input.TakeUntil('\0');
  const std::string_view text = input.rest().substr(0, kMaxTextBytes);
  size_t num_values_left = kMaxValues;
  const absl::StatusOr<JsonTree> schema = ParseJsonTree(schema_text, &num_values_left);
  if (!schema.ok()) return 0;
  const std::unique_ptr<Automaton> automaton = Compile(*schema);
  if (automaton == nullptr) return 0;
  CHECK(automaton->num_bytes() <= 2 * kMaxBytes) << automaton->num_bytes();
  if (!automaton->ok() || automaton->StartOf(0).is_dead()) return 0;
  ++num_accepted;
  Walk(*automaton, text);
  return 0;
}
