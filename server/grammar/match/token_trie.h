// The tokens of a vocabulary as a tree of their bytes, flat in depth-first order: a walk goes
// forward through memory and skips the subtrees that it does not enter. Immutable; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "kernels/base/types.h"

namespace quire {

class TokenTrie {
 public:
  // Longer tokens are left out: no constraint allows them.
  static constexpr size_t kMaxTokenBytes = 1023;

  struct Node {
    uint64_t token_plus_1 : 21;  // of the token that ends here, 0 = none
    uint64_t size : 25;          // nodes of the subtree, this one included
    uint64_t depth : 10;         // bytes to here, 1 for the first
    uint64_t byte : 8;
  };
  static_assert(sizeof(Node) == 8);

  // `tokens`: the bytes of each token, by id; empty for those that no constraint allows by its
  // text.
  explicit TokenTrie(const std::vector<std::string>& tokens);

  absl::Span<const Node> nodes() const { return nodes_; }
  int64_t vocab_size() const { return static_cast<int64_t>(begins_.size()) - 1; }
  std::string_view BytesOf(TokenId token) const {
    return std::string_view(bytes_).substr(begins_[token], begins_[token + 1] - begins_[token]);
  }
  // Tokens with the bytes of another token: {the one in the tree, another}.
  absl::Span<const std::pair<TokenId, TokenId>> twins() const { return twins_; }
  // By node: bytes from it to the deepest node below.
  uint32_t HeightOf(size_t node) const { return heights_[node]; }
  size_t max_depth() const { return max_depth_; }

 private:
  std::vector<Node> nodes_;
  std::vector<uint16_t> heights_;
  std::vector<std::pair<TokenId, TokenId>> twins_;
  std::string bytes_;
  std::vector<uint32_t> begins_;  // in bytes_, by id; one more at the end
  size_t max_depth_ = 0;
};

}  // namespace quire
