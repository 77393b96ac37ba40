// A set of texts, each with a value. It finds all its texts with which a given text starts.
// Immutable once made; any thread. Takes a few bytes per byte of the texts, and time in proportion
// to them.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quire {

class PieceTrie {
 public:
  using Piece =
      std::pair<std::string_view, int32_t>;  // a text and its value, which is not negative

  static constexpr int32_t kNoValue = -1;

  PieceTrie() = default;

  // The texts are not empty, and no two are equal.
  explicit PieceTrie(std::vector<Piece> pieces);

  // Calls visit(number of bytes, value) for every text of the set that `text` starts with, the
  // shortest first. Returns the number of steps taken, at most the length of the longest text.
  template <typename Visit>
  size_t VisitPrefixes(std::string_view text, const Visit& visit) const {
    uint32_t node = kRoot;
    for (size_t i = 0; i < text.size(); ++i) {
      node = Child(node, text[i]);
      if (node == kRoot) return i + 1;
      if (nodes_[node].value != kNoValue) visit(i + 1, nodes_[node].value);
    }
    return text.size();
  }

  // The value of `text`, or kNoValue.
  int32_t Find(std::string_view text) const;

 private:
  // The beginning of a text. Its children lie side by side.
  struct Node {
    uint32_t first_child = 0;
    uint16_t num_children = 0;
    int32_t value = kNoValue;
  };
  static constexpr uint32_t kRoot = 0;

  // The child, or the root, which is nobody's child, if there is none.
  uint32_t Child(uint32_t node, char label) const {
    if (node == kRoot) return root_children_[static_cast<uint8_t>(label)];
    const Node& parent = nodes_[node];
    const char* labels = labels_.data() + parent.first_child;
    const void* found = std::memchr(labels, static_cast<uint8_t>(label), parent.num_children);
    if (found == nullptr) return kRoot;
    return parent.first_child + static_cast<uint32_t>(static_cast<const char*>(found) - labels);
  }

  std::vector<Node> nodes_ = {Node()};
  std::string labels_ = std::string(1, '\0');  // by node: the byte that leads to it
  std::array<uint32_t, 256> root_children_ = {};
};

}  // namespace quire
