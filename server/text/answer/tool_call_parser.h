// ToolCallParser: finds the calls of tools in a model's text, as its kind of model writes them.
// Text comes in parts of any size and goes out as events, at once if it cannot be a call. One
// answer, one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "server/text/answer/answer_events.h"
#include "server/text/answer/answer_format.h"
#include "server/text/answer/call_reader.h"
#include "server/text/answer/tag_finder.h"

namespace quire {

class ToolCallParser {
 public:
  // `functions` outlives the parser.
  ToolCallParser(ToolFormat format, const ToolFunctions& functions);

  void Append(std::string_view text, AnswerEvents* events);
  // The answer ends. Text that is not a call by now is text; the arguments of a call that has begun
  // are closed.
  void Finish(AnswerEvents* events);

 private:
  enum class At : uint8_t {
    kText,
    kOpening,  // after a tag, before the text that shows how the call is written
    kCall,
    kNext,    // after a call that others may follow without a tag
    kObject,  // within an object that is no call, in text
  };

  void Step(std::string_view* text, AnswerEvents* events);
  void TakeText(std::string_view* text, AnswerEvents* events);
  void TakeTag(const std::string& tag, AnswerEvents* events);
  void TakeOpening(std::string_view* text, AnswerEvents* events);
  bool TakeFence(char c, AnswerEvents* events);
  void TakeCall(std::string_view* text, AnswerEvents* events);
  void TakeNext(std::string_view* text, AnswerEvents* events);
  void TakeObject(std::string_view* text, AnswerEvents* events);
  void AddNoCall(const std::string& raw, AnswerEvents* events);
  std::unique_ptr<CallReader> Open(char next);
  std::unique_ptr<CallReader> OpenObject();
  void BackToText(AnswerEvents* events);
  bool IsOfTag(std::string_view text) const;

  const ToolFormat format_;
  const ToolFunctions& functions_;
  const std::string end_tag_;
  TagFinder tags_;
  At at_;
  bool has_tag_ = false;     // a tag announced the call
  std::string opening_;      // the text that announces it, as it came
  std::string fence_;        // may become the line ```json before a call, or ``` after it
  bool has_fence_ = false;   // the call began with one
  bool is_list_ = false;     // calls stand between brackets
  bool may_follow_ = false;  // the call is an object, after which another may stand without a tag
  bool follows_ = false;     // another call, without a tag
  bool awaits_end_ = false;  // there was a call since the last end tag
  size_t num_open_ = 0;      // brackets of an object that is no call
  size_t num_line_breaks_ = 0;  // in a row, within it
  std::unique_ptr<CallReader> call_;
};

}  // namespace quire
