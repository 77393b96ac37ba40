#include "server/grammar/regex/regex_compiler.h"

#include <algorithm>
#include <array>
#include <utility>

#include "server/grammar/regex/char_class.h"

namespace quire {

namespace {

using Kind = RegexNode::Kind;

constexpr size_t kMaxContexts = 32;
// Nodes compiled; those of repeats that are written out count several times.
constexpr size_t kMaxSteps = 200'000;
constexpr int kMaxRestDepth = 200;

// The parts of the characters that no set tells apart.
std::vector<CharSet> PartsOf(const std::vector<CharSet>& sets) {
  std::vector<CharSet> parts = {CharSet::All()};
  for (const CharSet& set : sets) {
    std::vector<CharSet> finer;
    for (const CharSet& part : parts) {
      for (CharSet& half : std::array<CharSet, 2>{part & set, part - set}) {
        if (!half.empty()) finer.push_back(std::move(half));
      }
    }
    parts = std::move(finer);
    if (parts.size() > kMaxContexts) break;
  }
  return parts;
}

}  // namespace

RegexCompiler::RegexCompiler(ExprStore* store, RegexTree* tree, Spelling spelling)
    : store_(store),
      tree_(tree),
      language_(store, tree, spelling),
      any_text_(AnyText(store, spelling)),
      contexts_(PartsOf(tree->SetsBefore())) {
  if (contexts_.size() > kMaxContexts)
    Refuse("lookbehinds of so many different classes are not supported");
}

bool RegexCompiler::IsUniform(const Rest& rest) {
  return std::all_of(rest.exprs.begin(), rest.exprs.end(),
                     [&](ExprId id) { return id == rest[0]; });
}

// The tails of searches and lookaheads are kAnything, which absorbs every alternative, so that
// nothing is left to be remembered once a part has matched. An intersection with texts is always
// around them.
bool RegexCompiler::IsOpen(const Rest& rest) const {
  return IsUniform(rest) && (rest[0] == ExprStore::kAnything || rest[0] == any_text_);
}

void RegexCompiler::Refuse(std::string_view what) {
  if (status_.ok()) status_ = absl::UnimplementedError(absl::string_view(what.data(), what.size()));
}

absl::StatusOr<ExprId> RegexCompiler::Result(ExprId id) const {
  if (!status_.ok()) return status_;
  return id;
}

absl::StatusOr<ExprId> RegexCompiler::Whole(RegexNodeId root) {
  const Rest rest = Compile(root, Same(ExprStore::kEmpty));
  return Result(rest[0]);
}

absl::StatusOr<ExprId> RegexCompiler::Anywhere(RegexNodeId root) {
  root = WithoutNeedlessStart(root);
  const bool has_tail = !EndsAtEnd(root) && !HasOneLength(root);
  const Rest rest = Compile(root, Same(has_tail ? ExprStore::kAnything : any_text_));
  if (IsOpen(Same(rest[0]))) return Result(any_text_);
  const auto ending = [this](const CharSet& last) {
    return store_->Concat(any_text_, language_.SpellSet(last));
  };
  const ExprId found = IsUniform(rest) ? store_->Concat(any_text_, rest[0])
                                       : store_->Or(rest[0], ByLastChar(rest, ending));
  return Result(has_tail ? store_->And(any_text_, found) : found);
}

// For each rest, texts whose last character is in a context of that rest, then the rest.
ExprId RegexCompiler::ByLastChar(const Rest& rest, Ending ending) {
  std::vector<ExprId> alternatives;
  for (auto each = rest.exprs.begin() + 1; each != rest.exprs.end(); ++each) {
    if (std::find(rest.exprs.begin() + 1, each, *each) != each) continue;
    CharSet last;
    for (size_t i = 1; i < rest.size(); ++i) {
      if (rest[i] == *each) last = last | contexts_[i - 1];
    }
    if (*each != ExprStore::kNothing) alternatives.push_back(store_->Concat(ending(last), *each));
  }
  return store_->Or(alternatives);
}

// `some` if the text so far is not empty; else what follows is `rest`, if that may be.
RegexCompiler::Rest RegexCompiler::OrRest(bool is_nullable, ExprId some, const Rest& rest) {
  Rest result = Same(some, rest.depth + 1);
  for (size_t i = 0; i < rest.size() && is_nullable; ++i) result[i] = store_->Or(rest[i], some);
  return result;
}

RegexCompiler::Rest RegexCompiler::Compile(RegexNodeId id, const Rest& rest) {
  if (++num_steps_ > kMaxSteps) Refuse("assertions within repeats of such size are not supported");
  if (rest.depth > kMaxRestDepth) Refuse("so many assertions one after another are not supported");
  if (!status_.ok()) return Same(ExprStore::kNothing);
  const RegexNode node = tree_->node(id);  // a copy: the tree grows
  if (node.needs == 0) return CompilePlain(id, rest);
  Rest result = rest;
  switch (node.kind) {
    case Kind::kConcat:
      for (size_t i = node.children.size(); i-- > 0;) result = Compile(node.children[i], result);
      return result;
    case Kind::kAlternation:
      return CompileAlternation(node, rest);
    case Kind::kRepeat:
      return CompileRepeat(node, rest);
    case Kind::kStart:
      std::fill(result.exprs.begin() + 1, result.exprs.end(), ExprStore::kNothing);
      return result;
    case Kind::kEnd:
      for (ExprId& each : result.exprs) {
        each = store_->is_nullable(each) && !no_end_here_ ? ExprStore::kEmpty : ExprStore::kNothing;
      }
      return result;
    case Kind::kAfter:
    case Kind::kStartOrAfter:
      if (node.kind == Kind::kAfter) result[0] = ExprStore::kNothing;
      for (size_t i = 1; i < rest.size(); ++i) {
        if ((contexts_[i - 1] & tree_->set_of(id)).empty()) result[i] = ExprStore::kNothing;
      }
      return result;
    case Kind::kLookahead:
    case Kind::kNotLookahead:
      return CompileLookahead(node, rest);
    case Kind::kWordEdge:
      return CompileEdge(true, rest);
    case Kind::kNotWordEdge:
      return CompileEdge(false, rest);
    default:
      return result;
  }
}

RegexCompiler::Rest RegexCompiler::CompileAlternation(const RegexNode& node, const Rest& rest) {
  Rest result = rest;
  std::vector<std::vector<ExprId>> branches(rest.size());
  for (const RegexNodeId child : node.children) {
    const Rest branch = Compile(child, rest);
    for (size_t i = 0; i < rest.size(); ++i) branches[i].push_back(branch[i]);
    result.depth = std::max(result.depth, branch.depth + 1);
  }
  for (size_t i = 0; i < rest.size(); ++i) result[i] = store_->Or(branches[i]);
  return result;
}

RegexCompiler::Rest RegexCompiler::CompileLookahead(const RegexNode& node, const Rest& rest) {
  const Rest ahead = Compile(node.children[0], Same(ExprStore::kAnything));
  Rest result = rest;
  result.depth = std::max(rest.depth, ahead.depth) + 1;
  for (size_t i = 0; i < rest.size(); ++i) {
    const bool negated = node.kind == Kind::kNotLookahead;
    result[i] = store_->And(rest[i], negated ? store_->Not(ahead[i]) : ahead[i]);
  }
  return result;
}

RegexCompiler::Rest RegexCompiler::CompileEdge(bool at_edge, const Rest& rest) {
  const ExprId word = store_->Concat(language_.SpellSet(WordChars()), ExprStore::kAnything);
  const ExprId no_word = store_->Or(
      ExprStore::kEmpty,
      store_->Concat(language_.SpellSet(WordChars().Complement()), ExprStore::kAnything));
  Rest result = rest;
  ++result.depth;
  for (size_t i = 0; i < rest.size(); ++i) {
    const bool after_word = i > 0 && !(contexts_[i - 1] & WordChars()).empty();
    result[i] = store_->And(rest[i], after_word == at_edge ? no_word : word);
  }
  return result;
}

// `first`, whose last characters are not known, then `rest`.
RegexCompiler::Rest RegexCompiler::After(ExprId first, const Rest& rest) {
  if (IsUniform(rest)) return Same(store_->Concat(first, rest[0]), rest.depth);
  const bool is_nullable = store_->is_nullable(first);
  const auto ending = [&](const CharSet& last) {
    if (last != CharSet::All())
      return store_->And(first, store_->Concat(any_text_, language_.SpellSet(last)));
    return is_nullable ? store_->And(first, store_->Not(ExprStore::kEmpty)) : first;
  };
  return OrRest(is_nullable, ByLastChar(rest, ending), rest);
}

RegexCompiler::Rest RegexCompiler::CompilePlain(RegexNodeId id, const Rest& rest) {
  if (IsOpen(rest)) return Same(store_->Concat(language_.Beginnings(id), rest[0]), rest.depth);
  if (IsUniform(rest)) return Same(store_->Concat(language_.Texts(id), rest[0]), rest.depth);
  const bool is_nullable = tree_->node(id).is_nullable;
  const auto ending = [&](const CharSet& last) {
    const bool is_any = !is_nullable && last == CharSet::All();
    return is_any ? language_.Texts(id) : language_.EndingIn(id, last);
  };
  return OrRest(is_nullable, ByLastChar(rest, ending), rest);
}

}  // namespace quire
