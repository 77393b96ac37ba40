// The pre-tokenizer of tokenizer.json: cuts the text between added tokens into pieces that the
// model then encodes one by one. Immutable after Parse; any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "server/text/tokenizer/regex/regex.h"

namespace quire {

// A part of a text; not empty.
struct Piece {
  std::string_view text;
  bool at_start;  // starts where the user's whole text starts
};

// Takes pieces one by one, in order; each is valid until the sink returns. An error ends the
// cutting.
using PieceSink = absl::FunctionRef<absl::Status(const Piece&)>;

// One way of cutting, applied to every piece of the step before it.
class PreTokenizerStep {
 public:
  virtual ~PreTokenizerStep() = default;
  virtual absl::Status Apply(const Piece& piece, RegexScratch* scratch, PieceSink sink) const = 0;
};

class PreTokenizer {
 public:
  // `json` is the value of the "pre_tokenizer" key: null or an object. INVALID_ARGUMENT names a
  // component that is malformed, UNIMPLEMENTED one that is not supported.
  static absl::StatusOr<PreTokenizer> Parse(const nlohmann::json& json);

  // Hands `sink` the pieces of `text`. A piece goes through all steps before the next is cut:
  // however long a text is, there is one piece a step. RESOURCE_EXHAUSTED when a pattern gives up
  // on the text; errors of `sink`.
  absl::Status Apply(const Piece& text, RegexScratch* scratch, PieceSink sink) const;

  // True when a ByteLevel step ends the list: the model then reads a piece as bytes, not
  // characters.
  bool is_byte_level() const { return is_byte_level_; }

 private:
  absl::Status AddStep(const std::string& type, const nlohmann::json& json);
  absl::Status ApplyFrom(size_t step, const Piece& piece, RegexScratch* scratch,
                         PieceSink sink) const;

  std::vector<std::unique_ptr<PreTokenizerStep>> steps_;
  bool is_byte_level_ = false;
};

}  // namespace quire
