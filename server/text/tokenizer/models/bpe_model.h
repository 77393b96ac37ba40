// Byte pair encoding, over bytes (GPT-2, Llama 3, Qwen) or over characters with byte fallback
// (Llama 2, Mistral). Immutable after Create; any thread. Encoding a piece of n bytes takes O(n log
// n).
#pragma once

#include <array>
#include <bitset>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "server/text/tokenizer/models/model.h"
#include "server/text/tokenizer/models/vocabulary.h"

namespace quire {

struct BpeOptions {
  std::string unk_token;  // empty: text that the vocabulary cannot spell is dropped
  std::string continuing_subword_prefix;
  std::string end_of_word_suffix;
  bool fuse_unk = false;
  bool byte_fallback = false;
  bool ignore_merges = false;  // a piece that is a token needs no merging
  bool is_byte_level = false;  // the vocabulary is written in the byte-level alphabet
};

class BpeModel final : public TokenModel {
 public:
  using Merge = std::pair<std::string_view, std::string_view>;

  // `merges` come by rank; `vocabulary` must outlive the model. Text never makes a token of
  // `special` that is longer than one character, nor a token that is only an added one; the
  // unk_token is the exception. INVALID_ARGUMENT names what the vocabulary lacks.
  static absl::StatusOr<std::unique_ptr<BpeModel>> Create(
      const Vocabulary* vocabulary, BpeOptions options, const std::vector<Merge>& merges,
      const absl::flat_hash_set<TokenId>& special);

  void Encode(std::string_view piece, ModelScratch* scratch,
              std::vector<TokenId>* ids) const override;

 private:
  struct MergeResult {
    uint32_t rank;
    TokenId id;
  };

  BpeModel(const Vocabulary* vocabulary, BpeOptions options)
      : vocabulary_(*vocabulary), options_(std::move(options)) {}

  absl::Status AddMerges(const std::vector<Merge>& merges,
                         const absl::flat_hash_set<TokenId>& special);
  void IndexSymbols();
  void IndexJoin(std::string_view left, std::string_view right);

  void EncodeWord(std::string_view word, ModelScratch* scratch, std::vector<TokenId>* ids) const;
  TokenId FindWhole(std::string_view word, ModelScratch* scratch) const;
  size_t NextCut(std::string_view word) const;
  void SplitIntoSymbols(std::string_view word, ModelScratch* scratch) const;
  TokenId SymbolId(std::string_view character, bool is_first, bool is_last,
                   ModelScratch* scratch) const;
  std::string_view Written(std::string_view character, bool is_first, bool is_last,
                           ModelScratch* scratch) const;
  bool AppendByteTokens(std::string_view written, ModelScratch* scratch) const;
  void MergeSymbols(ModelScratch* scratch) const;
  bool AppendMerge(int32_t left, int32_t right, ModelScratch* scratch) const;
  void QueueMerge(int32_t left, int32_t right, ModelScratch* scratch) const;
  const MergeResult* FindMerge(TokenId left, TokenId right) const;

  const Vocabulary& vocabulary_;
  const BpeOptions options_;
  TokenId unk_id_ = kNoToken;
  std::array<TokenId, 256> byte_ids_;      // byte-level: the token of one byte
  std::array<TokenId, 256> fallback_ids_;  // "<0x00>" and so on
  std::array<TokenId, 128> ascii_ids_;
  absl::flat_hash_map<char32_t, TokenId> char_ids_;    // the single-character tokens past ASCII
  absl::flat_hash_map<uint64_t, MergeResult> merges_;  // by left and right id
  absl::flat_hash_set<TokenId>
      never_whole_;  // special and added tokens: no match for a whole piece
  bool words_are_separate_ =
      false;                      // no token spans the start of a word ("▁" after something else)
  std::bitset<256 * 256> joins_;  // byte-level: left << 8 | right, if the merge may join the two
};

}  // namespace quire
