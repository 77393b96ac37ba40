// The pre-tokenizer of tokenizer.json: cuts the text between added tokens into pieces that the
// model then encodes one by one. Immutable after Parse; any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "server/tokenizer/regex.h"

namespace quire {

// A text and its pieces: ordered, not empty, not overlapping.
struct PreTokens {
  struct Piece {
    size_t begin;
    size_t end;
    bool at_start;  // starts where the user's whole text starts
  };

  std::string text;
  std::vector<Piece> pieces;

  // Starts over with `text` as its own single piece.
  void Reset(std::string new_text, bool at_start);
  std::string_view View(const Piece& piece) const {
    return std::string_view(text).substr(piece.begin, piece.end - piece.begin);
  }
};

// One way of cutting, applied to every piece.
class PreTokenizerStep {
 public:
  virtual ~PreTokenizerStep() = default;
  virtual absl::Status Apply(PreTokens* tokens, RegexScratch* scratch) const = 0;
};

class PreTokenizer {
 public:
  // `json` is the value of the "pre_tokenizer" key: null or an object. INVALID_ARGUMENT names a
  // component that is malformed, UNIMPLEMENTED one that is not supported.
  static absl::StatusOr<PreTokenizer> Parse(const nlohmann::json& json);

  // Applies every step in order. RESOURCE_EXHAUSTED when a pattern gives up on the text.
  absl::Status Apply(PreTokens* tokens, RegexScratch* scratch) const;

  // True when a ByteLevel step ends the list: the model then reads a piece as bytes, not
  // characters.
  bool is_byte_level() const { return is_byte_level_; }

 private:
  absl::Status AddStep(const std::string& type, const nlohmann::json& json);

  std::vector<std::unique_ptr<PreTokenizerStep>> steps_;
  bool is_byte_level_ = false;
};

// What becomes of the matches when a piece is split.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

// Turns the spans that cover `piece` (offsets from its start) into pieces, appended to `pieces`.
void AppendSplit(const std::vector<Span>& spans, SplitBehavior behavior,
                 const PreTokens::Piece& piece, std::vector<PreTokens::Piece>* pieces);

}  // namespace quire
