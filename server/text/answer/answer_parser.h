// AnswerParser: takes an answer's text apart as it comes: reasoning, content, calls of tools. Parts
// of any size give the same events. Only text that may be the beginning of a tag waits. Time grows
// as the text. One answer, one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/text/answer/answer_events.h"
#include "server/text/answer/answer_format.h"
#include "server/text/answer/harmony_parser.h"
#include "server/text/answer/tag_finder.h"
#include "server/text/answer/tool_call_parser.h"

namespace quire {

// The parts to look for in the answers to one request.
struct AnswerOptions {
  ReasoningFormat reasoning;
  ToolFormat tools = ToolFormat::kNone;
  ToolFunctions functions;
  bool one_call = false;
  // The beginning of a call that the prompt already has of the answer. Then the answer does not
  // begin with reasoning.
  std::string opening;

  // The answer is messages in channels.
  bool is_harmony() const { return reasoning.in_channels || tools == ToolFormat::kHarmony; }
  bool finds_nothing() const { return reasoning.is_none() && tools == ToolFormat::kNone; }
};

class AnswerParser {
 public:
  // `in_reasoning` if the prompt ends within reasoning. `options` outlive the parser.
  AnswerParser(const AnswerOptions& options, bool in_reasoning);

  std::vector<AnswerEvent> Append(std::string_view text);
  // The answer ends.
  std::vector<AnswerEvent> Finish();

 private:
  enum class At : uint8_t { kStart, kLabel, kReasoning, kContent };

  void TakeStart(std::string_view* text);
  void TakeLabel(std::string_view* text);
  void TakeReasoning(std::string_view* text);
  void AddContent(std::string_view text);

  const ReasoningFormat& reasoning_;
  At at_;
  std::string start_;      // white space, and a text that may be the first tag; then, the label
  size_t num_spaces_ = 0;  // bytes of white space in start_
  At after_start_;         // if the first tag is missing
  TagFinder end_;          // of reasoning
  AnswerEvents events_;
  std::unique_ptr<ToolCallParser> tools_;    // null: there are none
  std::unique_ptr<HarmonyParser> messages_;  // for harmony; then the others are idle
};

}  // namespace quire
