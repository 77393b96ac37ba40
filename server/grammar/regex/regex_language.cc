#include "server/grammar/regex/regex_language.h"

#include <string>

#include "kernels/base/check.h"
#include "server/text/utf8.h"

namespace quire {

namespace {

using Kind = RegexNode::Kind;

constexpr uint32_t kMaxNumChars = 1 << 20;

uint32_t OneFewerOf(uint32_t max) { return max == kUnbounded ? max : max - 1; }

}  // namespace

ExprId RegexLanguage::SpellSet(const CharSet& chars) {
  const auto [at, is_new] = spelled_.try_emplace(chars, 0);
  if (is_new) at->second = Spell(store_, chars, spelling_);
  return at->second;
}

// Characters in a row become one literal.
ExprId RegexLanguage::Sequence(absl::Span<const RegexNodeId> parts, ExprId rest) {
  const auto is_single = [this](RegexNodeId id) {
    return tree_->is_chars(id) && tree_->set_of(id).is_single();
  };
  for (size_t end = parts.size(); end > 0;) {
    size_t begin = end;
    while (begin > 0 && is_single(parts[begin - 1])) --begin;
    if (begin == end) {
      rest = store_->Concat(Texts(parts[--end]), rest);
      continue;
    }
    std::string text;
    for (size_t i = begin; i < end; ++i)
      AppendUtf8(tree_->set_of(parts[i]).ranges()[0].first, &text);
    rest = store_->Concat(SpellText(store_, text, spelling_), rest);
    end = begin;
  }
  return rest;
}

ExprId RegexLanguage::Texts(RegexNodeId id) {
  if (texts_.size() <= id) texts_.resize(tree_->size());
  if (texts_[id].has_value()) return *texts_[id];
  const RegexNode& node = tree_->node(id);
  CHECK(node.needs == 0) << "a node with assertions has no texts of its own";
  ExprId result = ExprStore::kNothing;
  switch (node.kind) {
    case Kind::kChars:
      result = SpellSet(tree_->set_of(id));
      break;
    case Kind::kConcat:
      result = Sequence(node.children, ExprStore::kEmpty);
      break;
    case Kind::kAlternation: {
      std::vector<ExprId> branches;
      branches.reserve(node.children.size());
      for (const RegexNodeId child : node.children) branches.push_back(Texts(child));
      result = store_->Or(branches);
      break;
    }
    default:
      result = store_->Repeat(Texts(node.children[0]), node.min, node.max);
      break;
  }
  texts_[id] = result;
  return result;
}

ExprId RegexLanguage::Beginnings(RegexNodeId id) {
  const RegexNode& node = tree_->node(id);
  if (node.is_nullable) return ExprStore::kEmpty;
  switch (node.kind) {
    case Kind::kConcat: {
      size_t end = node.children.size();
      while (tree_->node(node.children[end - 1]).is_nullable) --end;
      const auto parts = absl::MakeConstSpan(node.children).first(end);
      if (tree_->is_chars(parts.back())) return Sequence(parts, ExprStore::kEmpty);
      return Sequence(parts.first(end - 1), Beginnings(parts.back()));
    }
    case Kind::kAlternation: {
      std::vector<ExprId> branches;
      branches.reserve(node.children.size());
      for (const RegexNodeId child : node.children) branches.push_back(Beginnings(child));
      return store_->Or(branches);
    }
    case Kind::kRepeat: {
      const RegexNodeId child = node.children[0];
      const uint32_t num_before = node.min - 1;
      return store_->Concat(store_->Repeat(Texts(child), num_before, num_before),
                            Beginnings(child));
    }
    default:
      return Texts(id);
  }
}

ExprId RegexLanguage::EndingIn(RegexNodeId id, const CharSet& last) {
  const RegexNode& node = tree_->node(id);
  switch (node.kind) {
    case Kind::kChars:
      return SpellSet(tree_->set_of(id) & last);
    case Kind::kConcat: {
      // The last part that is not empty ends so; from behind, what the parts from here on have.
      ExprId result = ExprStore::kNothing;
      bool others_are_nullable = true;
      for (size_t i = node.children.size(); i-- > 0;) {
        const RegexNodeId child = node.children[i];
        result = store_->Concat(Texts(child), result);
        if (!others_are_nullable) continue;
        result = store_->Or(result, EndingIn(child, last));
        others_are_nullable = tree_->node(child).is_nullable;
      }
      return result;
    }
    case Kind::kAlternation: {
      std::vector<ExprId> branches;
      branches.reserve(node.children.size());
      for (const RegexNodeId child : node.children) branches.push_back(EndingIn(child, last));
      return store_->Or(branches);
    }
    default: {
      const RegexNodeId child = node.children[0];
      const uint32_t min = tree_->node(child).is_nullable || node.min == 0 ? 0 : node.min - 1;
      return store_->Concat(store_->Repeat(Texts(child), min, OneFewerOf(node.max)),
                            EndingIn(child, last));
    }
  }
}

std::optional<uint32_t> RegexLanguage::NumChars(RegexNodeId id, bool is_last) const {
  const RegexNode& node = tree_->node(id);
  if (is_last && node.is_nullable) return 0;
  switch (node.kind) {
    case Kind::kChars:
      return 1;
    case Kind::kConcat: {
      size_t end = node.children.size();
      while (is_last && tree_->node(node.children[end - 1]).is_nullable) --end;
      uint32_t sum = 0;
      for (size_t i = 0; i < end; ++i) {
        const auto num = NumChars(node.children[i], is_last && i + 1 == end);
        if (!num.has_value() || sum + *num > kMaxNumChars) return std::nullopt;
        sum += *num;
      }
      return sum;
    }
    case Kind::kAlternation: {
      const auto num = NumChars(node.children[0], is_last);
      for (const RegexNodeId child : node.children) {
        if (NumChars(child, is_last) != num) return std::nullopt;
      }
      return num;
    }
    default: {
      if (node.min == 0 || (!is_last && node.min != node.max)) return std::nullopt;
      const auto last = NumChars(node.children[0], is_last);
      const auto num = is_last && node.min > 1 ? NumChars(node.children[0], false) : last;
      if (!num.has_value() || !last.has_value()) return std::nullopt;
      const uint64_t product = uint64_t{*num} * (node.min - 1) + *last;
      if (product > kMaxNumChars) return std::nullopt;
      return static_cast<uint32_t>(product);
    }
  }
}

}  // namespace quire
