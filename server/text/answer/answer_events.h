// AnswerEvents: the parts of an answer's text, in order: reasoning, content, calls of tools. White
// space beside a tag belongs to the tag and is left out; no other text is lost. One thread at a
// time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quire {

struct AnswerEvent {
  enum class Kind : uint8_t {
    kReasoning,
    kContent,
    kCall,       // a call begins; the text is its function's name
    kArguments,  // a part of the JSON text of the last call's arguments
  };

  Kind kind;
  std::string text;

  bool operator==(const AnswerEvent&) const = default;
};

class AnswerEvents {
 public:
  // With `one_call` further calls are left out.
  explicit AnswerEvents(bool one_call) : one_call_(one_call) {}

  // Reasoning or content. White space at its end waits for what follows.
  void AddText(AnswerEvent::Kind kind, std::string_view text);
  // A tag stood here: the white space around it goes.
  void AddTag();
  void BeginCall(std::string_view name);
  void AddArguments(std::string_view json);
  // A text ends; white space at its end belongs to it.
  void EndText();

  // The events that came since the last time.
  std::vector<AnswerEvent> Take() { return std::exchange(events_, {}); }

 private:
  void Append(AnswerEvent::Kind kind, std::string_view text);

  const bool one_call_;
  size_t num_calls_ = 0;
  bool is_after_tag_ = false;  // only white space since
  std::string held_;           // white space
  AnswerEvent::Kind held_kind_ = AnswerEvent::Kind::kContent;
  std::vector<AnswerEvent> events_;
};

}  // namespace quire
