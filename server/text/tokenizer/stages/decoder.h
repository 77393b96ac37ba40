// The decoder of tokenizer.json: from token texts back to text. Works token by token, so that a
// stream and a whole text go through the same code and give the same bytes. A TokenDecoder is
// immutable; any thread. A DecodeChain is the state of one text; one thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "server/text/tokenizer/regex/span_finder.h"

namespace quire {

// One step of decoding, with its state. Text comes in parts of whole characters; a part either
// starts a token or continues the one before it.
class DecodeStage {
 public:
  virtual ~DecodeStage() = default;
  virtual void Push(std::string_view text, bool starts_token) = 0;
  virtual void Finish() { next_->Finish(); }  // no more text comes

 protected:
  DecodeStage* next() const { return next_; }

 private:
  friend class DecodeChain;
  DecodeStage* next_ = nullptr;
};

// A step as tokenizer.json describes it. `Stage` starts its state for one text.
class DecoderStep {
 public:
  virtual ~DecoderStep() = default;
  virtual std::unique_ptr<DecodeStage> Stage() const = 0;

  // The step's effect on one token by itself, away from the ends of a text. The result is not
  // always whole characters.
  virtual void ApplyToBytes(std::string* token) const = 0;
};

class TokenDecoder;

// The decoding of one text.
class DecodeChain {
 public:
  // `decoder` must outlive the chain.
  explicit DecodeChain(const TokenDecoder& decoder);

  // Takes the next token's text and appends to `out` the text that is certain by now.
  void Push(std::string_view token, std::string* out);

  // Ends the text: appends the text that was held back, with U+FFFD for an unfinished character.
  void Finish(std::string* out);

 private:
  class Output;
  std::vector<std::unique_ptr<DecodeStage>> stages_;  // the last one is the Output
  Output* output_;
};

class TokenDecoder {
 public:
  // `json` is the value of the "decoder" key: an object, or null, which puts a blank between
  // tokens. INVALID_ARGUMENT names a component that is malformed, UNIMPLEMENTED one that is not
  // supported.
  static absl::StatusOr<TokenDecoder> Parse(const nlohmann::json& json);

  // The bytes that `token` adds to a text, unless it is the first or the last.
  std::string TokenBytes(std::string_view token) const;

 private:
  friend class DecodeChain;
  absl::Status AddStep(const std::string& type, const nlohmann::json& json);

  std::vector<std::unique_ptr<DecoderStep>> steps_;
  bool tokens_are_joined_ = false;  // by a step so far
};

}  // namespace quire
