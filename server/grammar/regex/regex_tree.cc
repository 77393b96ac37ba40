#include "server/grammar/regex/regex_tree.h"

#include <algorithm>
#include <utility>

#include "server/grammar/regex/char_class.h"

namespace quire {

namespace {

using Kind = RegexNode::Kind;

}  // namespace

RegexNodeId RegexTree::Add(RegexNode node) {
  for (const RegexNodeId child : node.children) node.needs |= nodes_[child].needs;
  nodes_.push_back(std::move(node));
  return static_cast<RegexNodeId>(nodes_.size() - 1);
}

uint32_t RegexTree::IndexOf(const CharSet& chars) {
  const auto [at, is_new] = index_of_set_.try_emplace(chars, static_cast<uint32_t>(sets_.size()));
  if (is_new) sets_.push_back(chars);
  return at->second;
}

RegexNodeId RegexTree::AddChars(const CharSet& chars) {
  return Add({.kind = Kind::kChars, .set = IndexOf(chars)});
}

// (?=S) or (?!S) before a character is a smaller set: it then depends on nothing, and may be
// repeated. Whether that was done to `next`, the node behind the lookahead.
bool RegexTree::MergeLookahead(RegexNodeId lookahead, RegexNodeId* next) {
  const Kind kind = nodes_[lookahead].kind;
  if (kind != Kind::kLookahead && kind != Kind::kNotLookahead) return false;
  const RegexNodeId ahead = nodes_[lookahead].children[0];
  if (!is_chars(ahead)) return false;
  const auto narrow = [&](RegexNodeId chars) {
    return AddChars(kind == Kind::kLookahead ? set_of(chars) & set_of(ahead)
                                             : set_of(chars) - set_of(ahead));
  };
  const RegexNode after = nodes_[*next];
  if (after.kind == Kind::kChars) {
    *next = narrow(*next);
    return true;
  }
  if (after.kind != Kind::kRepeat || after.min == 0 || !is_chars(after.children[0])) return false;
  const RegexNodeId first = narrow(after.children[0]);
  const uint32_t max = after.max == kUnbounded ? kUnbounded : after.max - 1;
  *next = AddConcat({first, AddRepeat(after.children[0], after.min - 1, max)});
  return true;
}

// Beside parts that depend on what is around them, those that do not are put together.
RegexNodeId RegexTree::AddConcat(std::vector<RegexNodeId> parts) {
  for (size_t i = parts.size(); i-- > 1;) {
    if (MergeLookahead(parts[i - 1], &parts[i])) parts.erase(parts.begin() + (i - 1));
  }
  if (parts.size() == 1) return parts[0];
  const auto has_needs = [this](RegexNodeId id) { return nodes_[id].needs != 0; };
  if (std::any_of(parts.begin(), parts.end(), has_needs)) {
    std::vector<RegexNodeId> grouped;
    for (auto begin = parts.begin(); begin != parts.end();) {
      auto end = std::find_if(begin, parts.end(), has_needs);
      if (end != begin) grouped.push_back(AddConcat({begin, end}));
      if (end != parts.end()) grouped.push_back(*end++);
      begin = end;
    }
    parts = std::move(grouped);
  }
  const bool is_nullable = std::all_of(parts.begin(), parts.end(),
                                       [this](RegexNodeId id) { return nodes_[id].is_nullable; });
  return Add({.kind = Kind::kConcat, .is_nullable = is_nullable, .children = std::move(parts)});
}

RegexNodeId RegexTree::AddAlternation(std::vector<RegexNodeId> branches) {
  if (branches.size() == 1) return branches[0];
  if (std::all_of(branches.begin(), branches.end(),
                  [this](RegexNodeId id) { return is_chars(id); })) {
    std::vector<CharSet::Range> ranges;
    for (const RegexNodeId branch : branches) {
      const std::vector<CharSet::Range>& more = set_of(branch).ranges();
      ranges.insert(ranges.end(), more.begin(), more.end());
    }
    return AddChars(CharSet(std::move(ranges)));
  }
  const bool is_nullable = std::any_of(branches.begin(), branches.end(),
                                       [this](RegexNodeId id) { return nodes_[id].is_nullable; });
  return Add(
      {.kind = Kind::kAlternation, .is_nullable = is_nullable, .children = std::move(branches)});
}

RegexNodeId RegexTree::AddRepeat(RegexNodeId child, uint32_t min, uint32_t max) {
  if (max == 0) return AddConcat({});
  if (min == 1 && max == 1) return child;
  return Add({.kind = Kind::kRepeat,
              .is_nullable = min == 0 || nodes_[child].is_nullable,
              .min = min,
              .max = max,
              .children = {child}});
}

RegexNodeId RegexTree::AddEdge(RegexNode::Kind kind) {
  const uint8_t needs = kind == Kind::kStart ? RegexNode::kAtStart
                        : kind == Kind::kEnd ? RegexNode::kAtEnd
                                             : RegexNode::kMore;
  return Add({.kind = kind, .needs = needs, .is_nullable = true});
}

RegexNodeId RegexTree::AddAfter(RegexNode::Kind kind, const CharSet& chars) {
  return Add({.kind = kind, .needs = RegexNode::kMore, .is_nullable = true, .set = IndexOf(chars)});
}

RegexNodeId RegexTree::AddLookahead(RegexNode::Kind kind, RegexNodeId child) {
  return Add({.kind = kind, .needs = RegexNode::kMore, .is_nullable = true, .children = {child}});
}

std::vector<CharSet> RegexTree::SetsBefore() const {
  std::vector<CharSet> sets;
  for (const RegexNode& node : nodes_) {
    if (node.kind == Kind::kAfter || node.kind == Kind::kStartOrAfter)
      sets.push_back(sets_[node.set]);
    if (node.kind == Kind::kWordEdge || node.kind == Kind::kNotWordEdge)
      sets.push_back(WordChars());
  }
  std::sort(sets.begin(), sets.end());
  sets.erase(std::unique(sets.begin(), sets.end()), sets.end());
  return sets;
}

}  // namespace quire
