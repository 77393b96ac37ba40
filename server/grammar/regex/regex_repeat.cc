// RegexCompiler: repeats of nodes that depend on what is around them, and the shape of the root.
#include <algorithm>
#include <utility>

#include "server/grammar/regex/regex_compiler.h"

namespace quire {

namespace {

using Kind = RegexNode::Kind;

// Times that a repeat is written out.
constexpr uint32_t kMaxWrittenOut = 1'000;
// Places where a text may cross from a repeat into what follows it: each doubles the alternatives.
constexpr size_t kMaxCrossings = 6;

uint32_t OneFewer(uint32_t count) { return count == kUnbounded || count == 0 ? count : count - 1; }

}  // namespace

ExprId RegexCompiler::NotEmpty(ExprId id) {
  return store_->is_nullable(id) ? store_->And(id, store_->Not(ExprStore::kEmpty)) : id;
}

RegexCompiler::Rest RegexCompiler::CompileRepeat(const RegexNode& node, const Rest& rest) {
  const RegexNodeId child = node.children[0];
  // Where any text may follow, the fewest times are enough.
  if (IsOpen(rest) && node.min == 0) return rest;
  const uint32_t max = IsOpen(rest) ? node.min : node.max;
  if (max > 1 && (node.needs & RegexNode::kMore) == 0)
    return CompileAnchored(child, node.min, max, rest);
  if (max > 1) {
    if (const auto tempered = CompileTempered(node, rest)) return *tempered;
  }
  if (max > kMaxWrittenOut) {
    Refuse(
        "a lookahead, a lookbehind or a word boundary within a repeat, except as in "
        "((?!literal).)*, is not supported");
    return Same(ExprStore::kNothing);
  }
  Rest result = rest;
  for (uint32_t i = max; i-- > 0 && status_.ok();) {
    result = Compile(child, result);
    for (size_t j = 0; j < rest.size() && i >= node.min; ++j)
      result[j] = store_->Or(result[j], rest[j]);
    ++result.depth;
  }
  return result;
}

// A repeat of a node with ^ and $, such as (^|,)x or x(,|$). Only the first of its texts that is
// not empty can have ^, and only the last one $, so those between are plain texts. If one of them
// may be empty, any smaller count is enough.
RegexCompiler::Rest RegexCompiler::CompileAnchored(RegexNodeId child, uint32_t min, uint32_t max,
                                                   const Rest& rest) {
  const bool no_end_before = std::exchange(no_end_here_, true);
  const Rest before_more = Compile(child, Same(ExprStore::kEmpty));
  no_end_here_ = no_end_before;
  Rest at_end = rest;
  for (ExprId& each : at_end.exprs)
    each = store_->is_nullable(each) ? ExprStore::kEmpty : ExprStore::kNothing;
  const Rest last = Compile(child, at_end);
  const Rest lone = Compile(child, Same(ExprStore::kEmpty));
  // Not at the start of the text: texts of the middle, and then the rest, or the last one.
  const auto inside = [&](uint32_t least, uint32_t most) {
    Rest result = After(store_->Repeat(before_more[1], least, most), rest);
    if (most == 0) return result;
    const uint32_t least_before = store_->is_nullable(lone[1]) ? 0 : OneFewer(least);
    const Rest ended = After(store_->Repeat(before_more[1], least_before, OneFewer(most)), last);
    for (size_t i = 0; i < result.size(); ++i) result[i] = store_->Or(result[i], ended[i]);
    return result;
  };
  Rest result = inside(min, max);
  const bool may_be_empty = store_->is_nullable(before_more[0]);
  const Rest more = inside(may_be_empty ? 0 : OneFewer(min), OneFewer(max));
  std::vector<ExprId> from_start = {After(NotEmpty(before_more[0]), more)[0]};
  if (min == 0 || may_be_empty) from_start.push_back(rest[0]);
  if (min <= 1 || store_->is_nullable(lone[1])) {
    from_start.push_back(last[0]);
  } else if (store_->is_nullable(lone[0])) {
    from_start.push_back(at_end[0]);
  }
  result[0] = store_->Or(from_start);
  result.depth = std::max({rest.depth, before_more.depth, last.depth}) + 3;
  return result;
}

// The sequences of characters that the node's texts are, if they are few and short.
bool RegexCompiler::AddSequences(RegexNodeId id, std::vector<Sequence>* sequences) const {
  const RegexNode& node = tree_->node(id);
  if (node.kind == Kind::kAlternation) {
    return std::all_of(node.children.begin(), node.children.end(), [&](RegexNodeId child) {
      return tree_->node(child).kind != Kind::kAlternation && AddSequences(child, sequences);
    });
  }
  Sequence sequence;
  if (tree_->is_chars(id)) sequence.push_back(tree_->set_of(id));
  for (const RegexNodeId child : node.children) {
    if (node.kind != Kind::kConcat || !tree_->is_chars(child)) return false;
    sequence.push_back(tree_->set_of(child));
  }
  sequences->push_back(sequence);
  return !sequence.empty();
}

ExprId RegexCompiler::SpellSequence(absl::Span<const CharSet> sequence) {
  ExprId result = ExprStore::kEmpty;
  for (size_t i = sequence.size(); i-- > 0;)
    result = store_->Concat(language_.SpellSet(sequence[i]), result);
  return result;
}

// `texts` and then `rest`, without those in which a sequence begins in the first part. A sequence
// may end in the second part: for each way to cut each sequence in two, either the first part does
// not end with its beginning, or the second part does not begin with its end.
std::optional<ExprId> RegexCompiler::Avoid(ExprId texts, const std::vector<Sequence>& sequences,
                                           ExprId rest) {
  std::vector<std::pair<ExprId, ExprId>> crossings;
  for (const Sequence& sequence : sequences) {
    const auto chars = absl::MakeConstSpan(sequence);
    const ExprId inside = store_->Concat({any_text_, SpellSequence(chars), ExprStore::kAnything});
    texts = store_->And(texts, store_->Not(inside));
    for (size_t i = 1; i < chars.size(); ++i) {
      if (crossings.size() == kMaxCrossings) return std::nullopt;
      crossings.emplace_back(store_->Concat(any_text_, SpellSequence(chars.first(i))),
                             store_->Concat(SpellSequence(chars.subspan(i)), ExprStore::kAnything));
    }
  }
  std::vector<ExprId> alternatives;
  for (size_t mask = 0; mask < size_t{1} << crossings.size(); ++mask) {
    ExprId first = texts, second = rest;
    for (size_t i = 0; i < crossings.size(); ++i) {
      if ((mask >> i) & 1) {
        second = store_->And(second, store_->Not(crossings[i].second));
      } else {
        first = store_->And(first, store_->Not(crossings[i].first));
      }
    }
    alternatives.push_back(store_->Concat(first, second));
  }
  return store_->Or(alternatives);
}

// ((?!x).)* and its like: characters, none of which begins an x.
std::optional<RegexCompiler::Rest> RegexCompiler::CompileTempered(const RegexNode& node,
                                                                  const Rest& rest) {
  const RegexNode child = tree_->node(node.children[0]);
  if (child.kind != Kind::kConcat || !IsUniform(rest) || !tree_->is_chars(child.children.back()))
    return std::nullopt;
  ExprId texts = store_->Repeat(language_.Texts(child.children.back()), node.min, node.max);
  std::vector<Sequence> sequences;
  for (size_t i = 0; i + 1 < child.children.size(); ++i) {
    const RegexNode lookahead = tree_->node(child.children[i]);
    if (lookahead.kind != Kind::kNotLookahead) return std::nullopt;
    if (rest[0] != ExprStore::kEmpty) {
      if (!AddSequences(lookahead.children[0], &sequences)) return std::nullopt;
      continue;
    }
    // Nothing follows, so whatever begins in the repeat also ends in it.
    const Rest ahead = Compile(lookahead.children[0], Same(ExprStore::kAnything));
    if (!IsUniform(ahead)) return std::nullopt;
    texts = store_->And(texts, store_->Not(store_->Concat(any_text_, NotEmpty(ahead[0]))));
  }
  if (rest[0] == ExprStore::kEmpty) return Same(texts, 1);
  const std::optional<ExprId> result = Avoid(texts, sequences, rest[0]);
  return result.has_value() ? std::optional<Rest>(Same(*result, rest.depth + 1)) : std::nullopt;
}

// For a search: what the text before can have as well is left out.
RegexNodeId RegexCompiler::WithoutNeedlessStart(RegexNodeId id) {
  RegexNode node = tree_->node(id);  // a copy: the tree grows
  switch (node.kind) {
    case Kind::kConcat: {
      const auto first =
          std::find_if(node.children.begin(), node.children.end(), [this](RegexNodeId child) {
            return tree_->node(child).needs != 0 || !tree_->node(child).is_nullable;
          });
      node.children.erase(node.children.begin(), first);
      if (!node.children.empty()) node.children[0] = WithoutNeedlessStart(node.children[0]);
      return tree_->AddConcat(std::move(node.children));
    }
    case Kind::kAlternation:
      for (RegexNodeId& child : node.children) child = WithoutNeedlessStart(child);
      return tree_->AddAlternation(std::move(node.children));
    case Kind::kRepeat:
      return node.needs == 0 ? tree_->AddRepeat(node.children[0], node.min, node.min) : id;
    default:
      return id;
  }
}

// Whether every match ends at the end of the text. False if that is not plain to see.
bool RegexCompiler::EndsAtEnd(RegexNodeId id) const {
  const RegexNode& node = tree_->node(id);
  switch (node.kind) {
    case Kind::kEnd:
      return true;
    case Kind::kConcat:
      return !node.children.empty() && EndsAtEnd(node.children.back());
    case Kind::kAlternation:
      return std::all_of(node.children.begin(), node.children.end(),
                         [this](RegexNodeId child) { return EndsAtEnd(child); });
    case Kind::kRepeat:
      return node.min > 0 && EndsAtEnd(node.children[0]);
    default:
      return false;
  }
}

// Whether every match begins at the start of the text, and no match is the beginning of another:
// then the text behind it needs no care.
bool RegexCompiler::HasOneLength(RegexNodeId root) const {
  const RegexNode& node = tree_->node(root);
  return node.kind == Kind::kConcat && node.children.size() == 2 &&
         tree_->node(node.children[0]).kind == Kind::kStart &&
         tree_->node(node.children[1]).needs == 0 &&
         language_.NumChars(node.children[1], true).has_value();
}

}  // namespace quire
