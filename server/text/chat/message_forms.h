// MessageForms: the forms in which a chat template can show messages. Clients send a content as a
// text, as parts, as null or not at all, and use roles that are younger than a template. A template
// that was not written for a form drops it, prints it as Python does, or fails. The forms that it
// takes are found once, by rendering small chats; messages are then brought into one of these
// forms. Immutable; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/fuel.h"
#include "server/text/chat/chat_template.h"
#include "server/text/chat/jinja/values/value.h"
#include "server/text/chat/json_values.h"

namespace quire {

class MessageForms {
 public:
  explicit MessageForms(const ChatTemplate& chat_template);

  // The messages in the form in which the template gets them. A form that the template takes stays
  // as it was sent. Otherwise:
  // - the role developer becomes system,
  // - if the template drops further messages of the system or a developer, those at the beginning
  //   go to the first, with an empty line between two,
  // - a list of text parts becomes one text, with a line break between two of them that are not
  //   empty,
  // - a text becomes a list of one part, if the template shows only parts; if it shows only the
  //   first of them, a list becomes one part, too,
  // - null and no content become each other, or an empty text, or an empty part,
  // - arguments of a call become an object: the one that they spell, or an empty one.
  // Calls of tools that are an empty list or null are none. Reasoning has each name that templates
  // read, as transformers has it. The fuel's status if there is none left; `fuel` may be null.
  absl::StatusOr<jinja::Value> Adapt(const jinja::Value& messages, Fuel* fuel) const;

 private:
  // Where a message stands: templates treat each in their own way.
  enum class Place : uint8_t { kSystem, kDeveloper, kUser, kAssistant, kCalls, kTool };
  static constexpr size_t kNumPlaces = 6;

  // The forms of a content.
  struct Forms {
    bool text = true;
    bool parts = false;
    bool null = false;
    bool absent = false;
    bool one_part = false;       // of parts, only the first
    bool empty_as_part = false;  // an empty text fails, and an empty part does not
  };
  class Probe;

  // Whether the message tells the model what to do in general.
  static bool IsInstruction(const jinja::Value& message);
  static std::vector<jinja::Value> WithOneInstruction(std::vector<jinja::Value> messages);
  static Place PlaceOf(std::string_view role, bool has_calls);
  jinja::Value AdaptMessage(const jinja::Dict& message, JsonBudget* budget) const;
  jinja::Value AdaptContent(const jinja::Value& content, const Forms& forms) const;
  jinja::Value AdaptCalls(const jinja::Value& calls, JsonBudget* budget) const;
  jinja::Value AdaptCall(const jinja::Value& call, JsonBudget* budget) const;
  void AddReasoning(const jinja::Dict& message, bool has_calls, jinja::Dict* adapted) const;
  static jinja::Value EmptyContent(const Forms& forms);
  const Forms& FormsAt(Place place) const { return forms_[static_cast<size_t>(place)]; }

  bool knows_developer_ = false;
  bool drops_instructions_ = false;  // except the first
  bool knows_thinking_ = false;      // as a type of parts
  bool takes_text_arguments_ = false;
  bool takes_thinking_beside_calls_ = false;  // beside a content as well
  std::array<Forms, kNumPlaces> forms_;
};

}  // namespace quire
