#include "tests/server/grammar/random_grammar.h"

#include <algorithm>
#include <utility>

namespace quire::testing {

namespace {

// All strings of the letters, up to kMaxLength.
const Language& AllStrings() {
  static const Language all = [] {
    Language strings = {""};
    for (size_t length = 0; length < kMaxLength; ++length) {
      Language longer = strings;
      for (const std::string& text : strings) {
        for (const char letter : std::string(kLetters)) longer.insert(text + letter);
      }
      strings = std::move(longer);
    }
    return strings;
  }();
  return all;
}

Language Product(const Language& a, const Language& b) {
  Language product;
  for (const std::string& first : a) {
    for (const std::string& second : b) {
      if (first.size() + second.size() <= kMaxLength) product.insert(first + second);
    }
  }
  return product;
}

ByteSet BytesOf(const std::string& letters) {
  ByteSet bytes;
  for (int byte = 0; byte < 256; ++byte) {
    const char letter = byte == 'a' || byte == 'b' ? static_cast<char>(byte) : 'c';
    if (letters.find(letter) != std::string::npos) bytes.Add(static_cast<uint8_t>(byte));
  }
  return bytes;
}

}  // namespace

RandomGrammar::RandomGrammar(uint64_t seed, const Options& options)
    : options_(options), random_(seed), grammar_(std::make_unique<Grammar>()) {
  const size_t num_rules = static_cast<size_t>(options.num_rules);
  for (size_t i = 0; i < num_rules; ++i) {
    rules_.push_back(Make(options.depth, true));
    grammar_->AddRule();
  }
  for (size_t i = 0; i < num_rules; ++i) grammar_->rules[i] = Build(*rules_[i]);
  strings_.resize(num_rules);
  prefixes_.resize(num_rules);
  is_live_.resize(num_rules);
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < num_rules; ++i) {
      Language strings = StringsOf(*rules_[i]);
      changed = changed || strings != strings_[i];
      strings_[i] = std::move(strings);
      const bool is_live = IsLive(*rules_[i]);
      changed = changed || is_live != is_live_[i];
      is_live_[i] = is_live;
    }
  }
  if (options.has_booleans) return;
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < num_rules; ++i) {
      Language prefixes = PrefixesOf(*rules_[i]);
      changed = changed || prefixes != prefixes_[i];
      prefixes_[i] = std::move(prefixes);
    }
  }
}

RandomGrammar::NodePtr RandomGrammar::Make(int depth, bool may_call) {
  auto node = std::make_unique<Node>();
  const size_t choice = Draw(20);
  using Kind = Node::Kind;
  if (depth == 0 || choice < 4) {
    const size_t leaf = Draw(may_call ? 10 : 6);
    if (leaf == 0) {
      node->kind = Draw(4) == 0 ? Kind::kNothing : Kind::kEmpty;
    } else if (leaf < 4) {
      node->kind = Kind::kSet;
      const char* const sets[] = {"a", "b", "c", "ab", "bc", "abc", "a", "b"};
      node->letters = sets[Draw(8)];
    } else if (leaf < 6) {
      node->kind = Kind::kLiteral;
      const size_t size = 1 + Draw(3);
      for (size_t i = 0; i < size; ++i) node->letters += "ab"[Draw(2)];
    } else {
      node->kind = Kind::kRule;
      node->rule = Draw(static_cast<size_t>(options_.num_rules));
    }
    return node;
  }
  if (options_.has_booleans && choice < 7) {
    node->kind = Draw(2) == 0 ? Kind::kNot : Kind::kAnd;
    node->children.push_back(Make(depth - 1, false));
    if (node->kind == Kind::kAnd) node->children.push_back(Make(depth - 1, false));
    return node;
  }
  if (choice < 11) {
    node->kind = Kind::kRepeat;
    node->min = Draw(4) > 0 ? Draw(3) : 3 + Draw(4);
    node->max = Draw(2) == 0 ? SIZE_MAX : node->min + Draw(Draw(2) == 0 ? 3 : 9);
    node->children.push_back(Make(depth - 1, may_call));
    return node;
  }
  node->kind = choice < 15 ? Kind::kOr : Kind::kConcat;
  const size_t num_children = 2 + Draw(2);
  for (size_t i = 0; i < num_children; ++i) node->children.push_back(Make(depth - 1, may_call));
  return node;
}

ExprId RandomGrammar::Build(const Node& node) {
  ExprStore& store = grammar_->store;
  std::vector<ExprId> children;
  children.reserve(node.children.size());
  for (const NodePtr& child : node.children) children.push_back(Build(*child));
  switch (node.kind) {
    case Node::Kind::kNothing:
      return ExprStore::kNothing;
    case Node::Kind::kEmpty:
      return ExprStore::kEmpty;
    case Node::Kind::kSet:
      return store.Bytes(BytesOf(node.letters));
    case Node::Kind::kLiteral:
      return store.Literal(node.letters);
    case Node::Kind::kConcat: {
      ExprId result = ExprStore::kEmpty;
      for (const ExprId child : children) result = store.Concat(result, child);
      return result;
    }
    case Node::Kind::kOr:
      return store.Or(children);
    case Node::Kind::kAnd:
      return store.And(children);
    case Node::Kind::kNot:
      return store.Not(children[0]);
    case Node::Kind::kRepeat:
      return store.Repeat(children[0], static_cast<uint32_t>(node.min),
                          node.max == SIZE_MAX ? kUnbounded : static_cast<uint32_t>(node.max));
    case Node::Kind::kRule:
      return store.Rule(static_cast<RuleId>(node.rule));
  }
  return ExprStore::kNothing;
}

Language RandomGrammar::StringsOf(const Node& node) const {
  Language strings;
  switch (node.kind) {
    case Node::Kind::kNothing:
      return {};
    case Node::Kind::kEmpty:
      return {""};
    case Node::Kind::kSet:
      for (const char letter : node.letters) strings.insert(std::string(1, letter));
      return strings;
    case Node::Kind::kLiteral:
      return {node.letters};
    case Node::Kind::kConcat:
      strings = {""};
      for (const NodePtr& child : node.children) strings = Product(strings, StringsOf(*child));
      return strings;
    case Node::Kind::kOr:
      for (const NodePtr& child : node.children) strings.merge(StringsOf(*child));
      return strings;
    case Node::Kind::kAnd: {
      const Language second = StringsOf(*node.children[1]);
      for (const std::string& text : StringsOf(*node.children[0])) {
        if (second.count(text) != 0) strings.insert(text);
      }
      return strings;
    }
    case Node::Kind::kNot:
      strings = AllStrings();
      for (const std::string& text : StringsOf(*node.children[0])) strings.erase(text);
      return strings;
    case Node::Kind::kRepeat: {
      const Language once = StringsOf(*node.children[0]);
      Language power = {""};
      // Beyond this many, nothing new is short enough.
      const size_t max = std::min(node.max, node.min + kMaxLength + 1);
      for (size_t i = 0; i <= max; ++i) {
        if (i >= node.min) strings.insert(power.begin(), power.end());
        power = Product(power, once);
      }
      return strings;
    }
    case Node::Kind::kRule:
      return strings_[node.rule];
  }
  return strings;
}

// Only of trees without complements and intersections.
Language RandomGrammar::PrefixesOf(const Node& node) const {
  Language prefixes;
  if (!IsLive(node)) return prefixes;
  switch (node.kind) {
    case Node::Kind::kConcat: {
      Language before = {""};
      for (const NodePtr& child : node.children) {
        prefixes.merge(Product(before, PrefixesOf(*child)));
        before = Product(before, StringsOf(*child));
      }
      return prefixes;
    }
    case Node::Kind::kOr:
      for (const NodePtr& child : node.children) prefixes.merge(PrefixesOf(*child));
      return prefixes;
    case Node::Kind::kRepeat: {
      const Language once = StringsOf(*node.children[0]), begun = PrefixesOf(*node.children[0]);
      Language power = {""};
      prefixes = {""};
      const size_t max = std::min(node.max, node.min + kMaxLength + 1);
      for (size_t i = 0; i < max; ++i) {
        prefixes.merge(Product(power, begun));
        power = Product(power, once);
      }
      return prefixes;
    }
    case Node::Kind::kRule:
      prefixes = prefixes_[node.rule];
      prefixes.insert("");
      return prefixes;
    default:
      for (const std::string& text : StringsOf(node)) {
        for (size_t size = 0; size <= text.size(); ++size) prefixes.insert(text.substr(0, size));
      }
      return prefixes;
  }
}

bool RandomGrammar::IsLive(const Node& node) const {
  const auto is_live = [this](const NodePtr& child) { return IsLive(*child); };
  switch (node.kind) {
    case Node::Kind::kNothing:
      return false;
    case Node::Kind::kConcat:
      return std::all_of(node.children.begin(), node.children.end(), is_live);
    case Node::Kind::kOr:
      return std::any_of(node.children.begin(), node.children.end(), is_live);
    case Node::Kind::kRepeat:
      return node.min == 0 || IsLive(*node.children[0]);
    case Node::Kind::kRule:
      return is_live_[node.rule];
    case Node::Kind::kAnd:
    case Node::Kind::kNot:
      return !StringsOf(node).empty();  // as far as short strings tell
    default:
      return true;
  }
}

std::string RandomGrammar::Print(const Node& node) const {
  const auto list = [&](const char* separator) {
    std::string text = "(";
    for (size_t i = 0; i < node.children.size(); ++i)
      text += (i > 0 ? separator : "") + Print(*node.children[i]);
    return text + ")";
  };
  switch (node.kind) {
    case Node::Kind::kNothing:
      return "<nothing>";
    case Node::Kind::kEmpty:
      return "\"\"";
    case Node::Kind::kSet:
      return "[" + node.letters + "]";
    case Node::Kind::kLiteral:
      return "\"" + node.letters + "\"";
    case Node::Kind::kConcat:
      return list(" ");
    case Node::Kind::kOr:
      return list(" | ");
    case Node::Kind::kAnd:
      return list(" & ");
    case Node::Kind::kNot:
      return "~" + list("");
    case Node::Kind::kRepeat:
      return list("") + "{" + std::to_string(node.min) + "," +
             (node.max == SIZE_MAX ? "" : std::to_string(node.max)) + "}";
    case Node::Kind::kRule:
      return "r" + std::to_string(node.rule);
  }
  return "";
}

std::string RandomGrammar::ToString() const {
  std::string text;
  for (size_t i = 0; i < rules_.size(); ++i)
    text += "r" + std::to_string(i) + " ::= " + Print(*rules_[i]) + "\n";
  return text;
}

}  // namespace quire::testing
