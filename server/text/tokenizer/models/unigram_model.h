// The Unigram model of SentencePiece, which some Llamas have (Sarashina 2.2): of all ways to spell
// a piece with the vocabulary, it takes the one whose scores add up highest. Immutable after
// Create; any thread. Encoding a piece takes time and memory in proportion to the piece, times the
// length of the longest token.
#pragma once

#include <array>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "server/text/tokenizer/models/model.h"
#include "server/text/tokenizer/models/piece_trie.h"
#include "server/text/tokenizer/models/vocabulary.h"

namespace quire {

// The model's part of tokenizer.json.
struct UnigramOptions {
  std::vector<std::string_view> texts;  // by id
  std::vector<double> scores;           // by id
  TokenId unk_id = kNoToken;            // within the vocabulary
  bool byte_fallback = false;
};

class UnigramModel final : public TokenModel {
 public:
  // No token of `special` is ever made from text; other text that the vocabulary cannot spell
  // becomes byte tokens or the unknown token. INVALID_ARGUMENT names a token that is too long.
  static absl::StatusOr<std::unique_ptr<UnigramModel>> Create(
      const UnigramOptions& options, const absl::flat_hash_set<TokenId>& special);

  void Encode(std::string_view piece, ModelScratch* scratch,
              std::vector<TokenId>* ids) const override;

 private:
  UnigramModel() = default;

  void FindBestPath(std::string_view piece, ModelScratch* scratch) const;
  void AppendUnknown(std::string_view text, std::vector<TokenId>* ids) const;

  PieceTrie trie_;
  std::vector<double> scores_;  // by id
  double unk_score_ = 0;
  TokenId unk_id_ = kNoToken;
  std::array<TokenId, 256> byte_ids_;  // the byte tokens, if they are used
};

}  // namespace quire
