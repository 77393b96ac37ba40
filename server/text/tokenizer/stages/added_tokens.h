// The added tokens of tokenizer.json: texts that are cut out of the input before the model sees it.
// Special ones control the model, so they are recognised only if the caller says that the text may
// make them. Immutable after Parse; any thread.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/base/types.h"
#include "nlohmann/json_fwd.hpp"
#include "server/text/tokenizer/models/vocabulary.h"
#include "server/text/tokenizer/stages/normalizer.h"

namespace quire {

struct AddedToken {
  TokenId id;
  std::string content;
  bool single_word;  // no match inside a word
  bool lstrip;       // takes along the white space before it
  bool rstrip;       // takes along the white space after it
  bool normalized;   // looked for in normalised text
  bool special;
};

// How a file beside tokenizer.json describes a token. Its id is that of its text, or the next one.
enum class IfKnown : uint8_t { kKeep, kMakeSpecial, kReplace };
struct AddedTokenSetting {
  AddedToken token;  // without id
  IfKnown if_known;  // how to treat an added token that is there already
  bool may_be_new;   // also if no token has this text
};

// A stretch [begin, end) of a text in bytes: an added token, or text between them (id == kNoToken).
struct AddedSpan {
  size_t begin;
  size_t end;
  TokenId id;
};

// A stretch of a text in bytes.
struct ByteRange {
  size_t begin;
  size_t end;
};

// Finds the longest of a set of texts at each place, from left to right.
class AddedTokenMatcher {
 public:
  // `pattern` is not empty.
  void Add(std::string_view pattern, const AddedToken* token);

  // Takes the spans of a text one by one; an error ends the search.
  using Sink = absl::FunctionRef<absl::Status(const AddedSpan&)>;

  // Hands `sink` the tokens in valid `text` and the text between them, covering all of it. White
  // space that one token takes along on its right may be another token, too, unless that one has
  // lstrip and lies all within it. A special token counts only within one of `special_ranges`,
  // which are in order and do not touch. Takes time proportional to the text and the longest
  // pattern. Adds the number of steps to `num_steps`, for tests of how it grows. Errors are those
  // of `sink`.
  absl::Status Split(std::string_view text, absl::Span<const ByteRange> special_ranges, Sink sink,
                     size_t* num_steps = nullptr) const;

  bool empty() const { return nodes_.size() == 1; }

 private:
  struct Match {
    const AddedToken* token;
    size_t num_bytes;
    size_t num_steps;
  };

  Match LongestMatch(std::string_view text, size_t special_limit) const;

  std::vector<const AddedToken*> nodes_ = {nullptr};  // the token whose pattern ends there, or null
  absl::flat_hash_map<uint64_t, uint32_t> children_;  // node << 8 | byte -> node
  std::array<bool, 256> is_first_byte_ = {};
};

// All added tokens of a tokenizer.
class AddedTokens {
 public:
  AddedTokens() = default;
  AddedTokens(AddedTokens&&) = default;  // no copies: the matchers point into the tokens
  AddedTokens& operator=(AddedTokens&&) = default;

  // Reads the "added_tokens" array (or null) and adds its tokens to `vocabulary`. INVALID_ARGUMENT
  // names what is wrong.
  static absl::StatusOr<AddedTokens> Parse(const nlohmann::json& json, Vocabulary* vocabulary);

  // Adds or changes a token. Before Index.
  absl::Status Add(const AddedTokenSetting& setting, Vocabulary* vocabulary);

  // Builds the matchers. Special tokens are looked for in the text as it is, never in normalised
  // text.
  absl::Status Index(const Normalizer& normalizer);

  const AddedTokenMatcher& raw() const { return raw_; }                // before normalisation
  const AddedTokenMatcher& normalized() const { return normalized_; }  // after it
  const absl::flat_hash_set<TokenId>& special_ids() const { return special_ids_; }

  // The text that decoding starts from, if it is not the token's content: tokens that are looked
  // for in normalised text decode from normalised text.
  const absl::flat_hash_map<TokenId, std::string>& decoded_forms() const { return decoded_forms_; }

 private:
  void Append(AddedToken token);

  std::vector<AddedToken> tokens_;
  absl::flat_hash_map<TokenId, size_t> positions_;  // in tokens_
  AddedTokenMatcher raw_;
  AddedTokenMatcher normalized_;
  absl::flat_hash_set<TokenId> special_ids_;
  absl::flat_hash_map<TokenId, std::string> decoded_forms_;
};

}  // namespace quire
