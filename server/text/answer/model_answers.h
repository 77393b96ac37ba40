// ModelAnswers: how the served model writes reasoning and calls of tools, as the settings say or
// its files show. Made once at start; any thread reads it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "kernels/base/types.h"
#include "server/text/answer/answer_format.h"
#include "server/text/answer/call_opening.h"
#include "server/text/tokenizer/tokenizer.h"

namespace quire {

class ModelAnswers {
 public:
  // The parsers as --tool-call-parser and --reasoning-parser name them. With auto, calls are
  // written as the chat templates show, and reasoning is between the tags that the tokenizer or a
  // template has.
  ModelAnswers(std::string_view tool_parser, std::string_view reasoning_parser,
               std::shared_ptr<const Tokenizer> tokenizer, std::string_view chat_templates);

  ToolFormat tools() const { return tools_; }
  const ReasoningFormat& reasoning() const { return reasoning_; }

  // Special tokens that must stay in the text to be found.
  std::vector<TokenId> TagTokens(bool with_tools) const;

  // The beginning of an answer that calls this function, or any function, if the name is empty. The
  // model goes on with a token of its own.
  std::string OpeningOfCall(std::string_view function) const;

  // Whether an answer to `prompt` begins within reasoning.
  bool BeginsInReasoning(absl::Span<const TokenId> prompt) const;
  // The same if the answer goes on with `message`.
  bool GoesOnInReasoning(std::string_view message) const;

 private:
  const std::shared_ptr<const Tokenizer> tokenizer_;
  const ToolFormat tools_;
  const ReasoningFormat reasoning_;
  const CallOpening opening_;
};

}  // namespace quire
