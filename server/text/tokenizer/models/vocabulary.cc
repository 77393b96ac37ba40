#include "server/text/tokenizer/models/vocabulary.h"

#include <algorithm>
#include <memory>

#include "kernels/base/check.h"
#include "kernels/base/status_macros.h"
#include "server/text/tokenizer/file/errors.h"

namespace quire {

absl::Status Vocabulary::Fill(const std::vector<std::string_view>& texts,
                              const std::vector<int64_t>& ids) {
  CHECK_EQ(texts.size(), ids.size());
  CHECK(texts_.empty()) << "a vocabulary is filled once";
  size_t num_bytes = 0;
  int64_t max_id = -1;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (ids[i] < 0 || ids[i] > kMaxTokenId) {
      return InvalidArgument("the token \"", texts[i], "\" has the id ", ids[i],
                             "; ids go from 0 to ", kMaxTokenId);
    }
    num_bytes += texts[i].size();
    max_id = std::max(max_id, ids[i]);
  }
  storage_.push_back(std::make_unique<std::string>());
  std::string* bytes = storage_.back().get();
  bytes->reserve(num_bytes);
  texts_.resize(static_cast<size_t>(max_id + 1));
  ids_.reserve(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    const size_t begin = bytes->size();
    bytes->append(texts[i]);  // within the reserved bytes: views stay good
    const std::string_view text(bytes->data() + begin, texts[i].size());
    const TokenId id = static_cast<TokenId>(ids[i]);
    const auto [it, is_new] = ids_.try_emplace(text, id);
    if (!is_new) {
      texts_[it->second] = {};
      it->second = id;
    }
    if (texts_[id].data() != nullptr) {
      return InvalidArgument("the tokens \"", texts_[id], "\" and \"", text, "\" have the same id ",
                             id);
    }
    texts_[id] = text;
  }
  return absl::OkStatus();
}

absl::Status Vocabulary::Add(std::string_view text, TokenId id) {
  const TokenId known = Find(text);
  if (known == id) return absl::OkStatus();
  const bool in_range = id >= 0 && id <= kMaxTokenId;
  if (known != kNoToken || !in_range || Text(id).data() != nullptr) {
    return InvalidArgument("the added token \"", text, "\" has the id ", id,
                           known != kNoToken
                               ? Concat(", but the model's vocabulary gives it ", known)
                           : in_range ? Concat(", which is that of \"", Text(id), "\"")
                                      : Concat("; ids go from 0 to ", kMaxTokenId));
  }
  storage_.push_back(std::make_unique<std::string>(text));
  if (static_cast<size_t>(id) >= texts_.size()) texts_.resize(static_cast<size_t>(id) + 1);
  texts_[id] = *storage_.back();
  ids_.emplace(texts_[id], id);
  added_ids_.insert(id);
  return absl::OkStatus();
}

}  // namespace quire
