// The texts of those nodes of a syntax tree that depend on nothing around them, as expressions.
// One thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "server/grammar/regex/regex_tree.h"

namespace quire {

class RegexLanguage {
 public:
  // Both outlive this. Nodes may be added to the tree.
  RegexLanguage(ExprStore* store, const RegexTree* tree, Spelling spelling)
      : store_(store), tree_(tree), spelling_(spelling) {}

  // Every node here needs nothing (RegexNode::needs). The functions call themselves as deep as the
  // tree is, which the parser bounds.
  ExprId Texts(RegexNodeId id);
  // Enough of the texts that any text begins with one of `id` if and only if it begins with one of
  // these: x+ has x.
  ExprId Beginnings(RegexNodeId id);
  // The texts that are not empty and whose last character is in `last`.
  ExprId EndingIn(RegexNodeId id, const CharSet& last);
  // How many characters each of its texts has, if that is one number that is not large; at the end
  // (`is_last`) as many as each of its Beginnings.
  std::optional<uint32_t> NumChars(RegexNodeId id, bool is_last) const;

  ExprId SpellSet(const CharSet& chars);

 private:
  ExprId Sequence(absl::Span<const RegexNodeId> parts, ExprId rest);

  ExprStore* const store_;
  const RegexTree* const tree_;
  const Spelling spelling_;
  std::vector<std::optional<ExprId>> texts_;  // by node
  std::map<CharSet, ExprId> spelled_;
};

}  // namespace quire
