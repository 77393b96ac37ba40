// The syntax tree of a grammar's text, whatever the notation, and what a reader builds it with. No
// recursion: groups are open frames. One thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "server/grammar/expr/expr_store.h"

namespace quire {

using SyntaxId = uint32_t;

// The depth of a rule's tree, with the trees of the terminals and rules in it that are written out
// in their places.
inline constexpr uint32_t kMaxSyntaxDepth = 400;

struct SyntaxNode {
  enum class Kind : uint8_t {
    kText,      // strings of an expression without rules
    kName,      // of a rule or terminal
    kRule,      // a rule that is in the grammar already
    kSequence,  // the children in order; without children, the empty string
    kChoice,    // one of the children
    kBoth,      // strings of all children
    kNot,       // texts that are no string of the child
    kRepeat,    // the child, min to max times
  };
  Kind kind = Kind::kSequence;
  uint16_t depth = 1;   // of the tree below it
  uint32_t offset = 0;  // in the text
  uint32_t value = 0;   // of kText an ExprId, of kName an index of `names`, of kRule a RuleId
  uint32_t min = 0, max = 0;
  uint32_t first_child = 0, num_children = 0;  // in `children`
};

struct SyntaxName {
  static constexpr uint32_t kUndefined = UINT32_MAX;

  std::string_view text;
  uint32_t rule = kUndefined;  // an index of `rules`
};

struct SyntaxRule {
  uint32_t name = 0;
  uint32_t offset = 0;
  // A lexeme of Lark: made of others and of text, without recursion.
  bool is_terminal = false;
  SyntaxId root = 0;
  SyntaxId first_node = 0;  // its nodes are those up to `root`
};

struct GrammarSyntax {
  std::string_view text;
  std::vector<SyntaxNode> nodes;  // children before parents
  std::vector<SyntaxId> children;
  std::vector<SyntaxName> names;
  std::vector<SyntaxRule> rules;
  // Terminals that may come between any two terminals of the text, before the first and behind the
  // last.
  std::vector<uint32_t> ignored;

  absl::Span<const SyntaxId> children_of(const SyntaxNode& node) const {
    return absl::MakeConstSpan(children).subspan(node.first_child, node.num_children);
  }
};

class SyntaxBuilder {
 public:
  explicit SyntaxBuilder(GrammarSyntax* syntax) : syntax_(syntax) {}

  uint32_t NameIndex(std::string_view name);

  // The expression of a rule.
  void Begin(size_t offset);
  // The group that is open: its offset and the character that closes it; zero for the rule itself.
  size_t group_offset() const { return frames_.back().offset; }
  char group_close() const { return frames_.back().close; }
  // False if groups are nested too deep.
  bool Open(size_t offset, char close);
  void Close();  // the group, not the rule
  void Add(SyntaxNode::Kind kind, size_t offset, uint32_t value);
  // Repeats the item before. False if there is none.
  bool Repeat(uint32_t min, uint32_t max);
  void Negate() { ++num_nots_; }  // the next item
  // Something to negate must come.
  bool is_negated() const { return num_nots_ > 0; }
  void NextPart();    // &
  void NextBranch();  // |
  SyntaxId Finish();  // the rule
  // A tree is deeper than kMaxSyntaxDepth, which walks through it could not bear.
  bool is_too_deep() const { return is_too_deep_; }

 private:
  struct Frame {
    size_t offset = 0;
    char close = '\0';
    size_t num_nots = 0;  // before it
    std::vector<SyntaxId> items, parts, branches;
  };

  SyntaxId AddNode(SyntaxNode node, absl::Span<const SyntaxId> children);
  SyntaxId List(SyntaxNode::Kind kind, std::vector<SyntaxId>* children);
  SyntaxId CloseFrame();
  void AddItem(SyntaxId item);

  GrammarSyntax* const syntax_;
  absl::flat_hash_map<std::string_view, uint32_t> index_of_name_;
  std::vector<Frame> frames_;
  size_t num_nots_ = 0;
  bool is_too_deep_ = false;
};

}  // namespace quire
