// Token texts and ids, both ways: the model's own tokens and the added ones. Filled while a
// tokenizer is loaded, then immutable; any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "kernels/base/types.h"

namespace quire {

inline constexpr TokenId kNoToken = -1;
inline constexpr TokenId kMaxTokenId =
    (1 << 22) - 1;  // bounds how much a hostile file can make us allocate

class Vocabulary {
 public:
  // Takes the tokens of the model: texts[i] has ids[i]. A text that comes twice has its last id.
  // INVALID_ARGUMENT for an id outside 0..kMaxTokenId or one that two texts share.
  absl::Status Fill(const std::vector<std::string_view>& texts, const std::vector<int64_t>& ids);

  // Adds one token. INVALID_ARGUMENT as for Fill, or when `text` already has another id.
  absl::Status Add(std::string_view text, TokenId id);

  // The id of `text`, or kNoToken.
  TokenId Find(std::string_view text) const {
    const auto it = ids_.find(text);
    return it == ids_.end() ? kNoToken : it->second;
  }

  // The same, but kNoToken for a token that is only an added one: a model does not know those.
  TokenId FindOfModel(std::string_view text) const {
    const TokenId id = Find(text);
    return added_ids_.contains(id) ? kNoToken : id;
  }

  // The ids that the model's tokens do not have.
  const absl::flat_hash_set<TokenId>& added_ids() const { return added_ids_; }

  // The text of `id`; empty if there is no such token.
  std::string_view Text(TokenId id) const {
    return id >= 0 && static_cast<size_t>(id) < texts_.size() ? texts_[id] : std::string_view();
  }

  // The highest id plus one: the rows that an embedding needs.
  int64_t size() const { return static_cast<int64_t>(texts_.size()); }

 private:
  std::vector<std::unique_ptr<std::string>> storage_;
  std::vector<std::string_view> texts_;  // by id, into storage_
  absl::flat_hash_map<std::string_view, TokenId> ids_;
  absl::flat_hash_set<TokenId> added_ids_;
};

}  // namespace quire
