// Calls of tools as JSON objects: {"name": ..., "arguments": {...}}. Nothing nests in the readers.
// One call, one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "server/text/answer/call_reader.h"
#include "server/text/answer/json_mender.h"

namespace quire {

// Finds the end of one JSON value by its brackets and quotes.
class JsonValueReader {
 public:
  // Takes the text that belongs to the value and appends it to `*json`. Returns how many bytes it
  // took.
  size_t Take(std::string_view text, std::string* json);
  bool is_done() const { return is_done_; }

 private:
  // Whether `c` belongs to the value.
  bool Add(char c);

  bool has_begun_ = false;
  bool is_in_string_ = false;
  bool is_escaped_ = false;
  bool is_done_ = false;
  size_t depth_ = 0;
};

// The call begins once it is known that name and arguments are there; these become events as they
// come.
class JsonCallReader final : public CallReader {
 public:
  // The object follows the tag, perhaps after white space. If no tag announced it, `functions` says
  // which functions there are: then it must be a call of one of them, with arguments, and have no
  // member that calls do not have. `end_tag`, which may be empty, ends the call also within a
  // string that no quote ended.
  JsonCallReader(std::string tag, const ToolFunctions* functions, std::string end_tag)
      : CallReader(std::move(tag)), functions_(functions), end_tag_(std::move(end_tag)) {}

  State Take(std::string_view* text, AnswerEvents* events) override;
  void Finish(AnswerEvents* events) override;

 private:
  enum class At : uint8_t { kObject, kKey, kKeyText, kColon, kValue, kValueText, kNext, kEnd };

  // Each returns whether the text may belong to a call.
  bool AddRaw(char c, AnswerEvents* events, bool* is_taken);
  bool TakeJson(std::string_view json, AnswerEvents* events);
  bool Step(std::string_view* json, AnswerEvents* events);
  bool Skip(std::string_view* json, At next);
  bool BeginKey(char c);
  bool BeginValue(char c, AnswerEvents* events);
  bool EndKey();
  bool EndValue(AnswerEvents* events);
  bool EndName(AnswerEvents* events);
  bool EndArguments(AnswerEvents* events);
  bool EndObject(std::string_view* json, AnswerEvents* events);

  // Whether `c` waits, because it may belong to the tag that ends the call.
  bool HoldsEndTag(char c, AnswerEvents* events);
  void ReleaseHeld(AnswerEvents* events);
  void Close(AnswerEvents* events);
  void TakeText(std::string_view* json, AnswerEvents* events);
  void Begin(std::string_view arguments, AnswerEvents* events);

  const ToolFunctions* const functions_;
  const std::string end_tag_;
  JsonMender mender_;
  std::string held_;  // within a string: a text that may be the tag, and white space after it
  At at_ = At::kObject;
  bool has_begun_ = false;
  std::string key_;
  JsonValueReader reader_;    // of the key or the value
  std::string value_;         // as far as it was taken
  bool is_streamed_ = false;  // the value goes to the events
  std::string name_;
  std::string arguments_;  // if they come before the name
};

}  // namespace quire
