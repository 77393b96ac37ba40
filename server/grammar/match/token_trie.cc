#include "server/grammar/match/token_trie.h"

#include <algorithm>
#include <numeric>

#include "kernels/base/check.h"

namespace quire {

TokenTrie::TokenTrie(const std::vector<std::string>& tokens) {
  CHECK(tokens.size() < (1 << 21));
  begins_.reserve(tokens.size() + 1);
  std::vector<TokenId> order;
  for (size_t id = 0; id < tokens.size(); ++id) {
    begins_.push_back(static_cast<uint32_t>(bytes_.size()));
    if (tokens[id].empty() || tokens[id].size() > kMaxTokenBytes) continue;
    bytes_ += tokens[id];
    order.push_back(static_cast<TokenId>(id));
  }
  begins_.push_back(static_cast<uint32_t>(bytes_.size()));
  std::sort(order.begin(), order.end(), [this](TokenId a, TokenId b) {
    const int order = BytesOf(a).compare(BytesOf(b));  // by unsigned bytes
    return order != 0 ? order < 0 : a < b;
  });
  std::vector<size_t> path;  // the nodes to the token before, by depth
  std::string_view before;
  for (const TokenId id : order) {
    const std::string_view text = BytesOf(id);
    if (text == before && !path.empty()) {
      twins_.push_back({static_cast<TokenId>(nodes_[path.back()].token_plus_1 - 1), id});
      continue;
    }
    const size_t shared = static_cast<size_t>(
        std::mismatch(text.begin(), text.end(), before.begin(), before.end()).first - text.begin());
    for (; path.size() > shared; path.pop_back())
      nodes_[path.back()].size = nodes_.size() - path.back();
    for (size_t i = shared; i < text.size(); ++i) {
      path.push_back(nodes_.size());
      nodes_.push_back({0, 0, i + 1, static_cast<uint8_t>(text[i])});
    }
    nodes_.back().token_plus_1 = static_cast<uint64_t>(id) + 1;
    max_depth_ = std::max(max_depth_, text.size());
    before = text;
  }
  for (; !path.empty(); path.pop_back()) nodes_[path.back()].size = nodes_.size() - path.back();
  nodes_.shrink_to_fit();
  heights_.resize(nodes_.size());
  std::vector<size_t> parents;  // by depth
  for (size_t i = 0; i < nodes_.size(); ++i) {
    parents.resize(nodes_[i].depth);
    parents.back() = i;
    for (size_t depth = 0; depth < parents.size(); ++depth) {
      heights_[parents[depth]] = std::max<uint16_t>(
          heights_[parents[depth]], static_cast<uint16_t>(parents.size() - depth - 1));
    }
  }
}

}  // namespace quire
