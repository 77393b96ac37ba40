// HarmonyParser: takes apart the answers of gpt-oss, which are messages in channels:
//
//   <|channel|>analysis<|message|>...<|end|><|start|>assistant<|channel|>final<|message|>...
//
// The channel analysis is reasoning; a message for a function is a call of it; everything else is
// content. The prompt has the first <|start|>assistant. Texts of messages stay byte by byte; two of
// a kind in a row have a line break between them. One answer, one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/text/answer/answer_events.h"
#include "server/text/answer/call_reader.h"
#include "server/text/answer/harmony_header.h"
#include "server/text/answer/json_mender.h"
#include "server/text/answer/tag_finder.h"

namespace quire {

class HarmonyParser {
 public:
  struct Options {
    bool finds_reasoning = true;  // else analysis is content
    bool finds_calls = true;      // else a message for a function is content
    bool in_reasoning = false;    // the prompt ends within the text of analysis
  };
  // `functions` outlives the parser.
  HarmonyParser(const Options& options, const ToolFunctions& functions);

  void Append(std::string_view text, AnswerEvents* events);
  // The answer ends. A header without an end says nothing.
  void Finish(AnswerEvents* events);

 private:
  enum class At : uint8_t { kHeader, kBody, kEnd };
  enum class Body : uint8_t { kText, kBeforeArguments, kArguments };

  void TakeHeader(std::string_view* text, AnswerEvents* events);
  void TakeBody(std::string_view* text, AnswerEvents* events);
  void TakeEnd(std::string_view* text, AnswerEvents* events);
  void BeginHeader();
  void BeginBody();
  // The function that a message is for; empty if it is for none.
  std::string FunctionOf(const std::string& recipient) const;
  void AddBody(std::string_view text, AnswerEvents* events);
  void TakeSpaces(std::string_view* text, AnswerEvents* events);
  void BeginCall(AnswerEvents* events);
  void TakeArguments(std::string_view* text, AnswerEvents* events);
  void AddText(std::string_view text, AnswerEvents* events);
  void EndMessage(AnswerEvents* events);

  const Options options_;
  const ToolFunctions& functions_;
  At at_ = At::kHeader;
  HarmonyHeader header_;
  TagFinder tags_;    // that end a message
  std::string end_;   // the tag that perhaps ended one, and white space after it
  std::string next_;  // the text after it that may begin another

  Body body_ = Body::kText;
  AnswerEvent::Kind kind_ = AnswerEvent::Kind::kContent;  // of its text
  std::string function_;                                  // of the call
  std::string spaces_;                                    // before its arguments
  JsonMender arguments_;

  bool begins_text_ = false;                    // the message has no text yet
  std::optional<AnswerEvent::Kind> last_kind_;  // of the text before, if no call came since
};

}  // namespace quire
