// A Hugging Face tokenizer: text to token ids and back, as tokenizer.json says. Immutable once
// loaded and shared by threads; encoding borrows working memory from a small pool inside. Both the
// file and the text are untrusted: for a bad file there is an error that names what is wrong, and
// text never turns into special tokens unless the caller says so.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "kernels/base/types.h"
#include "server/base/fuel.h"
#include "server/text/tokenizer/models/model.h"
#include "server/text/tokenizer/models/vocabulary.h"
#include "server/text/tokenizer/stages/added_tokens.h"
#include "server/text/tokenizer/stages/decoder.h"
#include "server/text/tokenizer/stages/normalizer.h"
#include "server/text/tokenizer/stages/post_processor.h"
#include "server/text/tokenizer/stages/pre_tokenizer.h"
#include "server/text/tokenizer/stages/token_settings.h"

namespace quire {

struct EncodeOptions {
  bool add_special_tokens = true;     // those around a text, such as the one that begins a sequence
  bool parse_special_tokens = false;  // special tokens spelled in the text count as such
  Fuel* fuel = nullptr;               // null: as much as it needs
};

// A part of a rendered chat template: the template's own text, or a user's.
struct Segment {
  std::string_view text;
  bool is_template;
};

inline constexpr size_t kMaxTextBytes = size_t{64} << 20;

class Tokenizer {
 public:
  // Reads tokenizer.json and, if they are there, tokenizer_config.json, special_tokens_map.json and
  // added_tokens.json (stages/token_settings.h). NOT_FOUND without the first; INVALID_ARGUMENT or
  // UNIMPLEMENTED, with the file's name, when one of them cannot be used.
  static absl::StatusOr<std::shared_ptr<const Tokenizer>> Load(const std::string& model_folder);

  // Like Load, from the contents of the files; all except the first may be empty.
  static absl::StatusOr<std::shared_ptr<const Tokenizer>> FromJson(
      std::string_view tokenizer_json, std::string_view config_json = "",
      std::string_view special_tokens_map_json = "", std::string_view added_tokens_json = "");

  // The ids of `text`. INVALID_ARGUMENT names the offset of the first byte that is not UTF-8, or
  // the limit when there are more than kMaxTextBytes; RESOURCE_EXHAUSTED when the tokenizer's
  // patterns give up; the fuel's status when there is none left.
  absl::StatusOr<std::vector<TokenId>> Encode(std::string_view text,
                                              EncodeOptions options = {}) const;

  // The ids of the joined segments. The text is split and merged as if it were one; special tokens
  // are recognised only if the template wrote the whole token. Errors as for Encode; offsets are in
  // the joined text.
  absl::StatusOr<std::vector<TokenId>> EncodeSegments(absl::Span<const Segment> segments,
                                                      bool add_special_tokens,
                                                      Fuel* fuel = nullptr) const;

  // The text of `ids`. Ids without a token add nothing; bytes that are no character become U+FFFD.
  std::string Decode(absl::Span<const TokenId> ids, bool skip_special_tokens) const;

  // The bytes that `id` adds to a text, unless it comes first or last; for logprobs.
  std::string TokenBytes(TokenId id) const { return decoder_.TokenBytes(TextToDecode(id, false)); }

  // The token as tokenizer.json spells it; empty if there is none.
  std::string_view IdToToken(TokenId id) const { return vocabulary_.Text(id); }

  // The id of a token as tokenizer.json spells it.
  std::optional<TokenId> TokenToId(std::string_view token) const;

  // The highest id plus one.
  int64_t vocab_size() const { return vocabulary_.size(); }

  bool IsSpecial(TokenId id) const { return added_.special_ids().contains(id); }

  // The text that decoding starts from for `id`; empty when the token adds nothing to a text.
  std::string_view TextToDecode(TokenId id, bool skip_special_tokens) const;

  // The tokens that `add_special_tokens` puts before and after a text.
  const std::vector<TokenId>& added_before() const { return post_processor_.prefix; }
  const std::vector<TokenId>& added_after() const { return post_processor_.suffix; }

  // The tokens that the files beside tokenizer.json name.
  std::optional<TokenId> bos_id() const { return bos_id_; }
  std::optional<TokenId> eos_id() const { return eos_id_; }

  // For StreamDecoder.
  const TokenDecoder& decoder() const { return decoder_; }

 private:
  struct Scratch {
    RegexScratch regex;
    ModelScratch model;
    size_t num_bytes = 0;  // of pieces since fuel was last burned for them
  };
  class BorrowedScratch;

  Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;

  absl::Status ReadTokenizer(std::string_view json, const TokenSettings& settings);
  absl::Status ReadModel(const class TokenizerFile& file);
  absl::StatusOr<std::vector<TokenId>> EncodeJoined(std::string_view text,
                                                    absl::Span<const ByteRange> special_ranges,
                                                    bool add_special_tokens, Fuel* fuel) const;
  absl::Status EncodeText(std::string text, bool at_start, Scratch* scratch,
                          std::vector<TokenId>* ids) const;
  static absl::Status Burn(size_t num_bytes, Scratch* scratch);
  absl::Status EncodePieces(std::string_view text, bool at_start, Scratch* scratch,
                            std::vector<TokenId>* ids) const;

  Vocabulary vocabulary_;
  AddedTokens added_;
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  PostProcessor post_processor_;
  TokenDecoder decoder_;
  std::unique_ptr<TokenModel> model_;
  std::optional<TokenId> bos_id_;
  std::optional<TokenId> eos_id_;

  mutable absl::Mutex mutex_;
  mutable std::vector<std::unique_ptr<Scratch>> idle_scratch_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quire
