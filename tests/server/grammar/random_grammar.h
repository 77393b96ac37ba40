// Random context-free grammars over three letters, with what they mean: the strings and the
// prefixes up to some length, from least fixed points over sets of strings. Nothing here derives
// from the engine: its terms are only built, beside a tree that is evaluated.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "server/grammar/expr/grammar.h"

namespace quire::testing {

// Up to `kMaxLength` letters of kLetters; 'c' stands for every byte that is neither 'a' nor 'b'.
using Language = std::set<std::string>;
inline constexpr size_t kMaxLength = 5;
inline constexpr char kLetters[] = "abc";

class RandomGrammar {
 public:
  struct Options {
    int num_rules = 3;
    int depth = 3;              // of expressions
    bool has_booleans = false;  // intersections and complements, among terms without rules
  };
  RandomGrammar(uint64_t seed, const Options& options);

  // The engine's. Once.
  std::unique_ptr<Grammar> TakeGrammar() { return std::move(grammar_); }
  // The first rule's strings up to kMaxLength letters.
  const Language& strings() const { return strings_[0]; }
  // The prefixes of all its strings, however long, up to kMaxLength letters. Empty if the grammar
  // has intersections or complements: unknown.
  const Language& prefixes() const { return prefixes_[0]; }
  bool has_prefixes() const { return !options_.has_booleans; }
  bool all_rules_have_strings() const {
    return std::find(is_live_.begin(), is_live_.end(), false) == is_live_.end();
  }
  // For messages.
  std::string ToString() const;

 private:
  struct Node {
    enum class Kind { kNothing, kEmpty, kSet, kLiteral, kConcat, kOr, kRepeat, kRule, kAnd, kNot };
    Kind kind;
    std::string letters;  // of a set or literal
    std::vector<std::unique_ptr<Node>> children;
    size_t min = 0, max = 0;  // of a repeat; SIZE_MAX for unbounded
    size_t rule = 0;
  };
  using NodePtr = std::unique_ptr<Node>;

  size_t Draw(size_t num) { return random_() % num; }
  NodePtr Make(int depth, bool may_call);
  ExprId Build(const Node& node);
  Language StringsOf(const Node& node) const;
  Language PrefixesOf(const Node& node) const;
  bool IsLive(const Node& node) const;
  std::string Print(const Node& node) const;

  const Options options_;
  std::mt19937_64 random_;
  std::unique_ptr<Grammar> grammar_;
  std::vector<NodePtr> rules_;
  std::vector<Language> strings_, prefixes_;
  std::vector<bool> is_live_;
};

}  // namespace quire::testing
