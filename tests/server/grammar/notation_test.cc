// The door to grammars' texts: which notation, choices, and hostile texts in bounded time.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/grammar/match/token_matcher.h"
#include "server/grammar/notation/grammar_text.h"
#include "tests/server/grammar/text_grammar.h"

namespace quire {
namespace {

using testing::TextGrammar;

std::string Repeated(const std::string& text, size_t times) {
  std::string all;
  for (size_t i = 0; i < times; ++i) all += text;
  return all;
}

TEST(GrammarTextTest, TheFirstDefinitionTellsTheNotation) {
  EXPECT_TRUE(TextGrammar("# c\n root ::= \"a\"").Has("a"));
  EXPECT_TRUE(TextGrammar("// c\n# c\nstart: \"::=\"").Has("::="));
  EXPECT_TRUE(TextGrammar("%ignore \" \"\nstart: \"a\"").Has(" a "))
      << TextGrammar("%ignore \" \"\nstart: \"a\"").status();
  EXPECT_TRUE(TextGrammar("?start: \"a\"").Has("a"));
  EXPECT_EQ(TextGrammar("<root> ::= a").error(),
            "line 1, column 1: a definition, NAME ::= ..., is missing here");
}

TEST(GrammarTextTest, TheRootIsTheFirstRuleThatIsAppended) {
  Grammar grammar;
  grammar.AddRule(grammar.store.Literal("before"));
  const absl::StatusOr<RuleId> root = AddGrammarText(
      &grammar, "other ::= \"b\" root other | \"c\"\nroot ::= \"a\" | \"(\" root \")\"", {});
  ASSERT_TRUE(root.ok());
  EXPECT_EQ(*root, 1u);
}

TEST(GrammarTextTest, TextsThatAreNotUtf8AreRefused) {
  EXPECT_EQ(TextGrammar("root ::= \"a\"\n# \xff").error(),
            "line 2, column 3: the grammar is not valid UTF-8");
  EXPECT_EQ(TextGrammar(std::string("root ::= \"a\" \0", 14)).error().substr(0, 29),
            "line 1, column 14: unexpected");
}

// Wide loops are rules, so that their token sets are kept; small terminals are not.
TEST(GrammarTextTest, SmallThingsAreWrittenOutAndWideLoopsAreCalled) {
  EXPECT_EQ(TextGrammar("root ::= ws \"a\" ws b\nws ::= [ \\t]*\nb ::= \"b\" | \"c\"").num_rules(),
            1u);
  const TextGrammar wide(
      "root ::= a a\na ::= \"(\" a \")\" | \"\\\"\" [^\"]* \"\\\"\" ws\nws ::= ([ ] ws)?");
  EXPECT_TRUE(wide.Has("(\"x\" )\"\""));
  EXPECT_EQ(wide.num_rules(), 4u) << "root, a, the string, and one that ws left";
}

TEST(ChoicesTest, ExactlyTheChoices) {
  const std::vector<std::string> choices = {"yes", "no", "yesterday", "", "no", "ye\u00e9", "n"};
  const TextGrammar grammar(choices);
  ASSERT_TRUE(grammar.status().ok());
  for (const std::string& choice : choices) EXPECT_TRUE(grammar.Has(choice)) << choice;
  for (const char* const text : {"ye", "yest", "nono", "x", "yesterdays", "ye\xc3"})
    EXPECT_FALSE(grammar.Has(text)) << text;
  EXPECT_FALSE(grammar.HasBeginning("yess"));
  EXPECT_TRUE(TextGrammar(std::vector<std::string>{"one"}).Has("one"));
  EXPECT_TRUE(TextGrammar(std::vector<std::string>{""}).Has(""));
  EXPECT_EQ(TextGrammar(std::vector<std::string>()).error(), "there are no choices");
  EXPECT_FALSE(
      TextGrammar(std::vector<std::string>{std::string(kMaxChoicesBytes + 1, 'a')}).status().ok());
}

TEST(ChoicesTest, ManyAndLongChoices) {
  std::vector<std::string> many;
  for (size_t i = 0; i < kMaxChoices; ++i) many.push_back(std::to_string(i));
  EXPECT_TRUE(TextGrammar(many).Has("99999"));
  EXPECT_FALSE(TextGrammar(many).Has("100000"));
  std::vector<std::string> nested;
  for (size_t i = 0; i < 1'400; ++i) nested.push_back(std::string(i, 'a'));
  EXPECT_TRUE(TextGrammar(nested).Has(std::string(1'399, 'a')));
  EXPECT_FALSE(TextGrammar(nested).Has(std::string(1'400, 'a')));
}

TEST(HostileGrammarTest, DeepNesting) {
  for (const char* const open : {"(", "[", "(~(", "(\"a\"|("}) {
    EXPECT_FALSE(TextGrammar("start: " + Repeated(open, 100'000)).status().ok());
  }
  EXPECT_EQ(TextGrammar("root ::= " + Repeated("(", 1000)).error(),
            "line 1, column 110: groups are nested too deep");
  EXPECT_TRUE(
      TextGrammar("root ::= " + Repeated("(\"a\" (\"b\" | ", 50) + "\"c\"" + Repeated(")*)", 50))
          .Has("abab"));
  EXPECT_FALSE(TextGrammar("root ::= \"a\"" + Repeated("*+?", 100'000)).status().ok());
  EXPECT_TRUE(TextGrammar("root ::= \"a\"" + Repeated("+?", 100)).Has("aaa"));
  EXPECT_FALSE(TextGrammar("start: A\nA: " + Repeated("~", 100'000)).status().ok());
}

// Each terminal within the next, and each rule within the next.
TEST(HostileGrammarTest, LongChains) {
  std::string terminals = "start: T9000\nT0: \"x\"\n", rules = "root ::= r9000\nr0 ::= \"x\"\n",
              loops = "root ::= r9000\nr0 ::= \"x\"\n", names = loops;
  for (int i = 1; i <= 9'000; ++i) {
    const std::string now = std::to_string(i), before = std::to_string(i - 1);
    terminals += "T" + now + ": \"a\" (T" + before + " | \"b\")*\n";
    rules += "r" + now + " ::= \"a\" (r" + before + " | \"b\")*\n";
    names += "r" + now + " ::= r" + before + "\n";
    loops += "r" + now + " ::= r" + before + " | r" + now + " \"y\"\n";
  }
  EXPECT_NE(TextGrammar(terminals).error().find("nested too deep"), std::string::npos)
      << TextGrammar(terminals).status();
  EXPECT_TRUE(TextGrammar(rules).Has("abaaab"));
  EXPECT_TRUE(TextGrammar(loops).status().ok());
  EXPECT_TRUE(TextGrammar(names).Has("x"));
}

TEST(HostileGrammarTest, HugeCounts) {
  const TextGrammar counts(
      "root ::= ((\"a\"{0,100000} \"b\"){100000} x{99999,100000}){100000}\n"
      "x ::= \"(\" x? \")\"");
  ASSERT_TRUE(counts.status().ok());
  EXPECT_TRUE(counts.HasBeginning(std::string(1000, 'a') + "bab"));
  EXPECT_FALSE(counts.HasBeginning("b("));
  EXPECT_TRUE(TextGrammar("root ::= (((\"a\"?){100000})?{100000}){100000}")
                  .HasBeginning(std::string(100, 'a')));
}

TEST(HostileGrammarTest, ManyAlternativesAndRules) {
  std::string text = "root ::= \"0\"";
  for (int i = 0; i < 60'000; ++i) text += "|\"" + std::to_string(i % 100) + "\"";
  EXPECT_TRUE(TextGrammar(text).Has("77"));
  text = "root ::= a";
  for (int i = 0; i < 200'000; ++i) text += "|a";
  EXPECT_TRUE(TextGrammar(text + "\na ::= \"x\" a \"y\" | \"\"").Has("xxyy"));
  text = "root ::= \"a\"\n";
  for (size_t i = 0; i < kMaxGrammarTextRules; ++i) text += "r" + std::to_string(i) + " ::= root\n";
  EXPECT_NE(TextGrammar(text).error().find("too many rules: at most 10000"), std::string::npos);
  EXPECT_FALSE(TextGrammar("root ::= \"" + std::string(kMaxGrammarTextBytes, 'a')).status().ok());
}

TEST(HostileGrammarTest, LongSequences) {
  std::string text = "root ::= ", as;
  for (int i = 0; i < 100'000; ++i) text += "a ";
  EXPECT_TRUE(TextGrammar(text + "\na ::= \"x\"?").Has("xxx"));
  // Each of these may be the first that is not empty: too many readings.
  const TextGrammar readings(text + "\na ::= \"x\" a \"y\" | \"\"");
  EXPECT_FALSE(readings.Has("xy"));
  EXPECT_TRUE(readings.gave_up());
  // What is written out would not fit.
  EXPECT_NE(TextGrammar(text + "\na ::= " + Repeated("[ab] [cd] ", 50)).error().find("too large"),
            std::string::npos);
}

// Derivatives beyond the limit of work are no texts, and take no deep stack.
TEST(HostileGrammarTest, QuadraticDerivatives) {
  std::string text = "start: A\nA: /[a-d]+/ & ~(\"ab\" | B)\n";
  for (int i = 0; i < 8'000; ++i) text += "B~(\"ab\" | B)\n";
  const TextGrammar grammar(text + "B: \"b\" ~ 2");
  EXPECT_NE(grammar.error().find("A is too complex"), std::string::npos) << grammar.status();
}

TEST(HostileGrammarTest, EmptyRulesAndEndlessAmbiguity) {
  const TextGrammar cycle("root ::= a b c \"x\"\na ::= b | c | \"\"\nb ::= a a | c\nc ::= b* a?");
  ASSERT_TRUE(cycle.status().ok());
  EXPECT_TRUE(cycle.Has("x"));
  EXPECT_FALSE(cycle.HasBeginning("xx"));
  const TextGrammar doubled("root ::= root root | \"a\" | \"\"");
  EXPECT_TRUE(doubled.Has(std::string(300, 'a')));
  EXPECT_FALSE(doubled.gave_up());
  const TextGrammar palindrome("root ::= \"a\" root \"a\" | \"b\" root \"b\" | \"a\"? | \"b\"");
  EXPECT_TRUE(palindrome.Has(std::string(101, 'a') + "b" + std::string(101, 'a')));
  EXPECT_FALSE(palindrome.gave_up());
  const TextGrammar left(
      "root ::= root | root \"a\" | other\nother ::= root | \"b\" other | \"c\"");
  EXPECT_TRUE(left.Has("bbca" + std::string(100, 'a')));
}

// A mask's time is bounded even where each byte has two thousand readings.
TEST(HostileGrammarTest, ManyReadingsOfEveryToken) {
  std::string text = "root ::= (", rules;
  for (int i = 0; i < 900; ++i) {
    const std::string name = "r" + std::to_string(i);
    text += (i > 0 ? "|" : "") + name;
    rules += name + " ::= [a-z] " + name + " [a-z] | \"" + std::to_string(i) + "\"\n";
  }
  const TextGrammar grammar(text + ")\n" + rules);
  ASSERT_TRUE(grammar.status().ok());
  std::vector<std::string> tokens = {""};
  for (int i = 0; i < 30'000; ++i) {
    std::string token;
    for (int rest = i; rest > 0; rest /= 26) token += static_cast<char>('a' + rest % 26);
    tokens.push_back(token);
  }
  TokenMatcher matcher(
      std::make_shared<ConstraintVocabulary>(tokens, std::vector<TokenId>{0}, 1 << 20),
      grammar.automaton());
  std::vector<uint32_t> mask((tokens.size() + 31) / 32);
  matcher.FillMask(absl::MakeSpan(mask));
  matcher.FillMask(absl::MakeSpan(mask));
  EXPECT_TRUE(matcher.Accept(1) || !matcher.status().ok());
}

}  // namespace
}  // namespace quire
