#include "server/grammar/notation/grammar_syntax.h"

#include <algorithm>
#include <utility>

#include "server/grammar/notation/grammar_text.h"

namespace quire {

uint32_t SyntaxBuilder::NameIndex(std::string_view name) {
  const auto [at, is_new] =
      index_of_name_.try_emplace(name, static_cast<uint32_t>(syntax_->names.size()));
  if (is_new) syntax_->names.push_back({.text = name});
  return at->second;
}

SyntaxId SyntaxBuilder::AddNode(SyntaxNode node, absl::Span<const SyntaxId> children) {
  node.first_child = static_cast<uint32_t>(syntax_->children.size());
  node.num_children = static_cast<uint32_t>(children.size());
  for (const SyntaxId child : children)
    node.depth = std::max<uint16_t>(node.depth, syntax_->nodes[child].depth + 1);
  if (node.depth > kMaxSyntaxDepth) {
    is_too_deep_ = true;
    node.depth = kMaxSyntaxDepth;
  }
  syntax_->children.insert(syntax_->children.end(), children.begin(), children.end());
  syntax_->nodes.push_back(node);
  return static_cast<SyntaxId>(syntax_->nodes.size() - 1);
}

void SyntaxBuilder::Begin(size_t offset) {
  num_nots_ = 0;
  frames_.clear();
  frames_.emplace_back().offset = offset;
}

bool SyntaxBuilder::Open(size_t offset, char close) {
  if (frames_.size() > kMaxGrammarTextNesting) return false;
  Frame& frame = frames_.emplace_back();
  frame.offset = offset;
  frame.close = close;
  frame.num_nots = num_nots_;
  num_nots_ = 0;
  return true;
}

// One child by itself needs no list.
SyntaxId SyntaxBuilder::List(SyntaxNode::Kind kind, std::vector<SyntaxId>* children) {
  const SyntaxId list =
      children->size() == 1
          ? children->front()
          : AddNode({.kind = kind, .offset = static_cast<uint32_t>(frames_.back().offset)},
                    *children);
  children->clear();
  return list;
}

void SyntaxBuilder::NextPart() {
  Frame& frame = frames_.back();
  frame.parts.push_back(List(SyntaxNode::Kind::kSequence, &frame.items));
}

void SyntaxBuilder::NextBranch() {
  NextPart();
  Frame& frame = frames_.back();
  frame.branches.push_back(List(SyntaxNode::Kind::kBoth, &frame.parts));
}

SyntaxId SyntaxBuilder::CloseFrame() {
  NextBranch();
  return List(SyntaxNode::Kind::kChoice, &frames_.back().branches);
}

void SyntaxBuilder::Close() {
  const SyntaxId group = CloseFrame();
  num_nots_ = frames_.back().num_nots;
  frames_.pop_back();
  AddItem(group);
}

SyntaxId SyntaxBuilder::Finish() {
  // A node of its own, so that the last of a rule's nodes is its root.
  const SyntaxId root = CloseFrame();
  const SyntaxNode node = {.kind = SyntaxNode::Kind::kChoice,
                           .offset = static_cast<uint32_t>(frames_.back().offset)};
  frames_.clear();
  return AddNode(node, {&root, 1});
}

void SyntaxBuilder::Add(SyntaxNode::Kind kind, size_t offset, uint32_t value) {
  AddItem(AddNode({.kind = kind, .offset = static_cast<uint32_t>(offset), .value = value}, {}));
}

void SyntaxBuilder::AddItem(SyntaxId item) {
  if (num_nots_ % 2 == 1) {
    item = AddNode({.kind = SyntaxNode::Kind::kNot, .offset = syntax_->nodes[item].offset},
                   {&item, 1});
  }
  num_nots_ = 0;
  frames_.back().items.push_back(item);
}

bool SyntaxBuilder::Repeat(uint32_t min, uint32_t max) {
  std::vector<SyntaxId>& items = frames_.back().items;
  if (items.empty()) return false;
  SyntaxId& last = items.back();
  last = AddNode({.kind = SyntaxNode::Kind::kRepeat,
                  .offset = syntax_->nodes[last].offset,
                  .min = min,
                  .max = max},
                 {&last, 1});
  return true;
}

}  // namespace quire
