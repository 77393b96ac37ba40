// The parser and the token masks against brute force: random grammars whose strings and prefixes
// are known from least fixed points.
#include "server/grammar/match/parser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "server/grammar/match/token_matcher.h"
#include "tests/server/grammar/random_grammar.h"

namespace quire {
namespace {

using testing::kLetters;
using testing::kMaxLength;
using testing::Language;
using testing::RandomGrammar;

// Each text of up to kMaxLength letters: whether it is in the grammar, and whether some text with
// that beginning is.
void ExpectSameTexts(const RandomGrammar& grammar, Parser* parser, const Parser::Position& position,
                     const std::string& text) {
  ASSERT_EQ(position.is_complete, grammar.strings().count(text) != 0) << "\"" << text << "\" of\n"
                                                                      << grammar.ToString();
  if (grammar.has_prefixes()) {
    ASSERT_EQ(!position.is_dead(), grammar.prefixes().count(text) != 0) << "\"" << text << "\" of\n"
                                                                        << grammar.ToString();
  }
  if (text.size() == kMaxLength) return;
  for (const char letter : std::string(kLetters)) {
    const Parser::Position next = parser->Next(position, static_cast<uint8_t>(letter));
    ExpectSameTexts(grammar, parser, next, text + letter);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(ParserTest, RandomGrammarsHaveTheirStringsAndPrefixes) {
  for (uint64_t seed = 1; seed <= 1'500; ++seed) {
    RandomGrammar grammar(seed, {.num_rules = 1 + static_cast<int>(seed % 4),
                                 .depth = 1 + static_cast<int>(seed % 3),
                                 .has_booleans = seed % 5 == 0});
    const Automaton automaton(grammar.TakeGrammar(), {});
    Parser parser(&automaton);
    ExpectSameTexts(grammar, &parser, parser.start(), "");
    ASSERT_FALSE(HasFatalFailure()) << "seed " << seed;
    ASSERT_FALSE(parser.gave_up()) << "seed " << seed;
  }
}

constexpr TokenId kEnd = 0;

// Some tokens of one letter to four, some twice, one without text, and an end.
std::vector<std::string> RandomTokens(std::mt19937_64* random) {
  std::vector<std::string> tokens = {"", "", "a", "b", "c"};
  while (tokens.size() < 40) {
    std::string token;
    for (size_t i = 0; i <= (*random)() % 4; ++i) token += kLetters[(*random)() % 3];
    tokens.push_back(token);
  }
  return tokens;
}

bool IsIn(const std::vector<uint32_t>& mask, size_t token) {
  return ((mask[token / 32] >> (token % 32)) & 1) != 0;
}

// The mask has the tokens that Accept takes, which are those that leave a prefix of some string;
// and the same one level deeper, and after going back.
void ExpectSameTokens(const RandomGrammar& grammar, const std::vector<std::string>& tokens,
                      TokenMatcher* matcher, const std::string& text, int depth) {
  std::vector<uint32_t> mask((tokens.size() + 31) / 32 + 1, 0xffffffff);
  matcher->FillMask(absl::MakeSpan(mask));
  const bool is_complete = matcher->is_complete();
  ASSERT_EQ(IsIn(mask, kEnd), is_complete) << text;
  ASSERT_EQ(mask.back(), 0u);
  bool any = false;
  for (size_t id = 0; id < tokens.size(); ++id) {
    const TokenId token = static_cast<TokenId>(id);
    const std::string after = text + tokens[id];
    const auto where = [&] {
      return "\"" + text + "\" + \"" + tokens[id] + "\" of\n" + grammar.ToString();
    };
    if (!tokens[id].empty() && after.size() <= kMaxLength && grammar.has_prefixes()) {
      ASSERT_EQ(IsIn(mask, id), grammar.prefixes().count(after) != 0) << where();
    }
    const bool accepted = matcher->Accept(token);
    ASSERT_EQ(accepted, IsIn(mask, id)) << where();
    if (!accepted) continue;
    any = any || id != kEnd;
    if (depth > 0 && id != kEnd && after.size() <= kMaxLength) {
      ExpectSameTokens(grammar, tokens, matcher, after, depth - 1);
      if (::testing::Test::HasFatalFailure()) return;
    }
    matcher->GoBack(1);
    ASSERT_EQ(matcher->is_complete(), is_complete) << where();
  }
  if (matcher->is_at_end()) {
    ASSERT_FALSE(any) << text;
  } else {
    ASSERT_TRUE(any || is_complete || text.size() + 1 > kMaxLength) << text << "\n"
                                                                    << grammar.ToString();
    const bool is_exact = grammar.has_prefixes() && grammar.all_rules_have_strings();
    ASSERT_TRUE(any || !is_exact) << text << "\n" << grammar.ToString();
  }
  std::vector<uint32_t> again(mask.size());
  matcher->FillMask(absl::MakeSpan(again));
  ASSERT_EQ(mask, again) << text;
}

// A list of calls that is too long for one stack frame each, and rules in the worst
// order for a search that goes through them one by one.
TEST(ParserTest, LongListsAndChainsOfRulesAreDoneInNoTime) {
  auto grammar = std::make_unique<Grammar>();
  ExprStore& store = grammar->store;
  constexpr RuleId kNumRules = 10'000;
  constexpr uint32_t kLength = 50'000;
  grammar->AddRule();
  for (RuleId i = 1; i < kNumRules; ++i) grammar->AddRule(store.Rule(i == 1 ? 1 : i - 1));
  const RuleId letter = grammar->AddRule(store.Literal("x"));
  grammar->rules[1] = store.Rule(letter);
  ExprId list = store.Repeat(store.Rule(kNumRules - 1), 0, kLength);
  for (uint32_t i = 0; i < kLength; ++i) list = store.Concat(store.Rule(letter), list);
  grammar->rules[0] = list;
  const Automaton automaton(std::move(grammar), {});
  Parser parser(&automaton);
  Parser::Position position = parser.start();
  for (uint32_t i = 0; i < 100; ++i) {
    EXPECT_FALSE(position.is_complete);
    position = parser.Next(position, 'x');
    ASSERT_FALSE(position.is_dead());
  }
  EXPECT_TRUE(automaton.ok());
}

// Either set could be made of the other.
TEST(TokenMatcherTest, StatesThatAreCloseToEachOtherDoNotWaitForEachOther) {
  std::vector<std::string> tokens = {""};
  for (char c = 'a'; c <= 'z'; ++c) tokens.push_back(std::string(3, c));
  const auto vocabulary =
      std::make_shared<ConstraintVocabulary>(tokens, std::vector<TokenId>{kEnd}, 1 << 20);
  auto grammar = std::make_unique<Grammar>();
  ExprStore& store = grammar->store;
  const ExprId letters = store.Star(store.Bytes(ByteSet::Range('a', 'z')));
  grammar->AddRule(letters);
  grammar->landmarks = {letters, store.Or(letters, store.Literal("1")),
                        store.Or(letters, store.Literal("2"))};
  TokenMatcher matcher(vocabulary,
                       std::make_shared<const Automaton>(std::move(grammar), AutomatonLimits()));
  std::vector<uint32_t> mask(1);
  matcher.FillMask(absl::MakeSpan(mask));
  EXPECT_EQ(mask[0], (uint32_t{1} << tokens.size()) - 1);
}

TEST(TokenMatcherTest, MasksOfRandomGrammarsHaveTheTokensThatMayFollow) {
  std::mt19937_64 random(1);
  std::vector<std::string> tokens;
  std::shared_ptr<const ConstraintVocabulary> vocabulary;
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    if (seed % 50 == 1) {  // a small cache, whose sets all grammars share
      tokens = RandomTokens(&random);
      vocabulary = std::make_shared<ConstraintVocabulary>(tokens, std::vector<TokenId>{kEnd}, 4096);
    }
    RandomGrammar grammar(seed, {.num_rules = 1 + static_cast<int>(seed % 4),
                                 .depth = 1 + static_cast<int>(seed % 3),
                                 .has_booleans = seed % 5 == 0});
    auto automaton = std::make_shared<const Automaton>(grammar.TakeGrammar(), AutomatonLimits());
    TokenMatcher matcher(vocabulary, automaton);
    ExpectSameTokens(grammar, tokens, &matcher, "", seed % 20 == 0 ? 2 : 1);
    ASSERT_FALSE(HasFatalFailure()) << "seed " << seed;
    ASSERT_TRUE(matcher.status().ok()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace quire
