#include "server/text/tokenizer/models/piece_trie.h"

#include <algorithm>

namespace quire {

// Level by level, so that the children of a node get neighbouring places and no stack grows with
// the longest text.
PieceTrie::PieceTrie(std::vector<Piece> pieces) {
  std::sort(pieces.begin(), pieces.end());
  struct Range {
    size_t begin;  // pieces [begin, end) start with the text of `node`
    size_t end;
    uint32_t node;
  };
  std::vector<Range> level = {{0, pieces.size(), kRoot}};
  for (size_t depth = 0; !level.empty(); ++depth) {
    std::vector<Range> next_level;
    for (const Range& range : level) {
      size_t i = range.begin;
      if (i < range.end && pieces[i].first.size() == depth)
        nodes_[range.node].value = pieces[i++].second;
      nodes_[range.node].first_child = static_cast<uint32_t>(nodes_.size());
      while (i < range.end) {
        const char label = pieces[i].first[depth];
        const size_t begin = i;
        while (i < range.end && pieces[i].first[depth] == label) ++i;
        next_level.push_back({begin, i, static_cast<uint32_t>(nodes_.size())});
        nodes_.emplace_back();
        labels_.push_back(label);
        ++nodes_[range.node].num_children;
      }
    }
    level = std::move(next_level);
  }
  const Node& root = nodes_[kRoot];
  for (uint32_t i = 0; i < root.num_children; ++i) {
    const uint32_t child = root.first_child + i;
    root_children_[static_cast<uint8_t>(labels_[child])] = child;
  }
}

int32_t PieceTrie::Find(std::string_view text) const {
  uint32_t node = kRoot;
  for (const char c : text) {
    node = Child(node, c);
    if (node == kRoot) return kNoValue;
  }
  return nodes_[node].value;
}

}  // namespace quire
