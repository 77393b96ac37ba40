// Grammars in GBNF and Lark: every accepted one has a text, and whatever is allowed leads to one.
// Input: the grammar's text; its hash chooses the bytes of a walk.
#include <memory>

#include "kernels/base/check.h"
#include "server/grammar/match/parser.h"
#include "server/grammar/notation/grammar_text.h"
#include "tests/fuzz/target.h"

namespace quire::fuzz {
namespace {

constexpr int kNumSteps = 24;

// Where an answer may go on, each step has a next one, as long as the limits hold.
void Walk(const Automaton& automaton, uint64_t choice) {
  Parser parser(&automaton);
  Parser::Position position = parser.start();
  for (int step = 0; step < kNumSteps; ++step) {
    if (parser.gave_up()) return;
    CHECK(!position.is_dead()) << "a dead end after " << step << " bytes";
    std::vector<uint8_t> bytes;
    for (int byte = 0; byte < 256; ++byte) {
      if (!parser.Next(position, static_cast<uint8_t>(byte)).is_dead())
        bytes.push_back(static_cast<uint8_t>(byte));
    }
    if (parser.gave_up()) return;
    CHECK(!bytes.empty() || position.is_complete) << "nothing can follow " << step << " bytes";
    if (bytes.empty()) return;
    choice = choice * 6364136223846793005u + 1442695040888963407u;
    position = parser.Next(position, bytes[(choice >> 33) % bytes.size()]);
  }
}

}  // namespace

std::vector<std::string> Seeds() {
  return {
      "root ::= (expr \"=\" term \"\\n\")+\nexpr ::= term ([-+*/] term)*\n"
      "term ::= [a-z]+ | \"(\" expr \")\" # comment\n",
      "root ::= object\nvalue ::= object | \"[\" (value (\",\" value)*)? \"]\" | string\n"
      "object ::= \"{\" string \":\" value \"}\"\n"
      "string ::= \"\\\"\" ([^\"\\\\\\x00-\\x1f] | \"\\\\\" [\"\\\\nu])* \"\\\"\" ws\nws ::= ([ "
      "\\t] ws)?",
      "root ::= a{2,3} b? | . \"\\u00e9\"{0,2}\na ::= a b | \"x\"\nb ::= \"\" | b b | \"y\" a",
      "?start: sum -> all\nsum: sum \"+\" NUMBER | NUMBER | \"(\" sum \")\" | NAME~1..2\n"
      "%import common.NUMBER\n%import common.CNAME -> NAME\n%import common (WS, INT)\n%ignore WS\n",
      "start: A (B | \"c\"i)* [\"x\"..\"z\"]\nA: /[a-d]+e?/i & ~(\"ab\" | B)\nB.2: \"b\" ~ 2\n"
      "%ignore /#[^\\n]*\\n/",
      "start: %json {\"type\": \"object\"} | <|eot|> | list{x}\n",
      "// c\nstart[capture=\"x\"]: a?\n!a: \"q\" a \"p\" | \"\"\n",
  };
}

std::vector<std::string> Dictionary() {
  return {"root ::= ", "start: ", "::=",          "\n",     " | ",      "(",
          ")*",        "{2,3}",   "[^a-z]",       "\"a\"",  "%ignore ", "%import common.",
          "/a+/i",     " & ~",    "\"a\"..\"f\"", "~ 1..3", " -> b",    "\\x41",
          "\\u00e9",   "?",       "\na: a ",      "\nB: ",  "# c\n"};
}

}  // namespace quire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;  // NOLINT(build/namespaces)
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto grammar = std::make_unique<Grammar>(size_t{4} << 20);
  GrammarTextHooks hooks;
  hooks.json_schema = [](Grammar* grammar, std::string_view schema) -> absl::StatusOr<RuleId> {
    return grammar->AddRule(grammar->store.Literal(schema));
  };
  const absl::StatusOr<RuleId> root = AddGrammarText(grammar.get(), text, hooks);
  if (!root.ok()) {
    CHECK(absl::IsInvalidArgument(root.status())) << root.status();
    return 0;
  }
  CHECK(*root == 0);
  ++fuzz::num_accepted;
  const Automaton automaton(std::move(grammar), {.max_bytes = size_t{8} << 20});
  if (!automaton.ok()) return 0;
  uint64_t choice = size;
  for (const char c : text) choice = choice * 131 + static_cast<uint8_t>(c);
  for (uint64_t i = 0; i < 3; ++i) fuzz::Walk(automaton, choice + i);
  return 0;
}
