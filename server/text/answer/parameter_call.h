// Calls of tools as Qwen3-Coder writes them:
//
//   <function=NAME> <parameter=NAME> text </parameter> ... </function>
//
// Their arguments become JSON, each as the tool's schema has it. A value whose end tag is missing
// ends with the next tag of a call. One call, one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "server/text/answer/call_reader.h"
#include "server/text/answer/tag_finder.h"

namespace quire {

class ParameterCallReader final : public CallReader {
 public:
  static constexpr std::string_view kFunctionTag = "<function=";

  // The tag may be kFunctionTag; otherwise kFunctionTag follows. `functions` outlives the reader.
  ParameterCallReader(std::string tag, const ToolFunctions& functions);

  State Take(std::string_view* text, AnswerEvents* events) override;
  void Finish(AnswerEvents* events) override;

 private:
  enum class At : uint8_t { kFunction, kName, kNext, kParameter, kValue, kEnd };

  // Each returns whether the text may belong to a call.
  bool Step(std::string_view* text, AnswerEvents* events);
  bool TakeFunctionTag(char c);
  bool TakeName(char c, AnswerEvents* events);
  bool TakeNextTag(char c, AnswerEvents* events);
  bool TakeParameter(char c, AnswerEvents* events);
  // A tag other than a value's end, after which there is no value.
  void TakeTag(const std::string& tag, AnswerEvents* events);

  void TakeValue(std::string_view* text, AnswerEvents* events);
  void AddValue(std::string_view text, AnswerEvents* events);
  void EndValue(AnswerEvents* events);
  void EndCall(AnswerEvents* events);
  bool is_text() const { return types_ == kJsonText; }

  const ToolFunctions& functions_;
  At at_;
  std::string name_;  // of the function
  size_t num_parameters_ = 0;
  TagFinder value_end_;
  JsonTypes types_ = kJsonText;  // of the value
  bool value_begins_ = false;    // a line break here is not the value's
  std::string value_;  // of one that may be no text; else the line break that may be its last
};

}  // namespace quire
