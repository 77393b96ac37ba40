// ToolCallParser: the calls of tools in what a model says, as its kind of model writes them. Text
// comes in parts of any size and goes out as events, at once where it can be no call. One answer,
// one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "server/answer/answer_events.h"
#include "server/answer/answer_format.h"
#include "server/answer/call_reader.h"
#include "server/answer/tag_finder.h"

namespace quire {

class ToolCallParser {
 public:
  // `functions` outlives the parser.
  ToolCallParser(ToolFormat format, const ToolFunctions& functions);

  void Append(std::string_view text, AnswerEvents* events);
  // The answer ends. What is no call by now is text; the arguments of one that has begun are events
  // as far as they came.
  void Finish(AnswerEvents* events);

 private:
  enum class At : uint8_t {
    kText,
    kOpening,  // after a tag, before what says how the call is written
    kCall,
    kNext,  // after a call that others may follow without a tag
  };

  void Step(std::string_view* text, AnswerEvents* events);
  void TakeText(std::string_view* text, AnswerEvents* events);
  void TakeTag(const std::string& tag, AnswerEvents* events);
  void TakeOpening(std::string_view* text, AnswerEvents* events);
  void TakeCall(std::string_view* text, AnswerEvents* events);
  void TakeNext(std::string_view* text, AnswerEvents* events);
  std::unique_ptr<CallReader> Open(std::string_view* text);

  const ToolFormat format_;
  const ToolFunctions& functions_;
  const std::string end_tag_;
  TagFinder tags_;
  At at_;
  std::string opening_;      // what announces a call, as it came
  bool is_list_ = false;     // others may follow without a tag
  bool follows_ = false;     // another, in a list
  bool awaits_end_ = false;  // there was a call since the last end tag
  std::unique_ptr<CallReader> call_;
};

}  // namespace quire
