// ChatMessage: the contents of one continuation of a chat, in OpenAI's terms: reasoning, content,
// calls of tools. One thread at a time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/text/answer/answer_parser.h"

namespace quire {

// An id for a call in an answer of this format.
std::string NewCallId(ToolFormat format);

class ChatMessage {
 public:
  struct Options {
    AnswerOptions answer;
    bool streams = false;
    bool shows_reasoning = true;
  };
  // `in_reasoning` as AnswerParser's. The options outlive the message.
  ChatMessage(const Options& options, bool in_reasoning)
      : options_(options), parser_(options.answer, in_reasoning) {}

  // Each returns the values of the `delta`s that a stream sends for this, in order.
  std::vector<std::string> Append(std::string_view text) { return Add(parser_.Append(text)); }
  std::vector<std::string> Finish() { return Add(parser_.Finish()); }

  bool has_calls() const { return num_calls_ > 0; }
  // The value of `message`, in an answer that is not a stream.
  std::string ToJson() const;

 private:
  std::vector<std::string> Add(const std::vector<AnswerEvent>& events);
  std::string DeltaOf(const AnswerEvent& event);
  void Keep(const AnswerEvent& event);
  // The beginning of a call as JSON, up to its arguments.
  std::string CallJson(std::string_view name) const;

  const Options& options_;
  AnswerParser parser_;
  size_t num_calls_ = 0;

  // A call in an answer that is not a stream.
  struct Call {
    std::string beginning;
    std::string arguments;
  };
  std::string reasoning_;
  std::string content_;
  std::vector<Call> calls_;
};

}  // namespace quire
