#include "server/chat/continue_final_message.h"

#include <string_view>
#include <vector>

#include "server/chat/jinja/builtins/text_operations.h"
#include "server/chat/jinja/values/error.h"
#include "server/text/byte_search.h"

namespace quire {
namespace {

using jinja::Text;
using jinja::Value;

const Value* Member(const Value& value, std::string_view key) {
  return value.dict() == nullptr ? nullptr : value.dict()->Find(key);
}

// The text that the model goes on with: a string, or the last text part of a list of parts. Null if
// there is none.
const Text* FinalText(const Value& messages) {
  if (messages.list() == nullptr || messages.list()->items.empty()) return nullptr;
  const Value* content = Member(messages.list()->items.back(), "content");
  if (content == nullptr) return nullptr;
  if (content->text() != nullptr) return content->text();
  if (content->list() == nullptr) return nullptr;
  const std::vector<Value>& parts = content->list()->items;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    const Value* text = Member(*part, "text");
    if (text != nullptr && text->text() != nullptr) return text->text();
  }
  return nullptr;
}

}  // namespace

absl::Status CutAfterFinalMessage(const Value& messages, Text* rendered) {
  const Text* content = FinalText(messages);
  if (content == nullptr) {
    return jinja::Error("continue_final_message needs a last message with text content");
  }
  const Text stripped = Strip(*content, nullptr, jinja::StripSides::kBoth);
  const Text left_stripped = Strip(*content, nullptr, jinja::StripSides::kLeft);
  const size_t found = FindLastBytes(rendered->bytes(), stripped.bytes());
  if (found == std::string_view::npos) {
    return jinja::Error(
        "continue_final_message: the chat template does not show the last message as it is");
  }
  // The template may have trimmed white space at the end of the message.
  const bool keeps_end = rendered->bytes().substr(found).starts_with(left_stripped.bytes());
  *rendered = rendered->Slice(0, found + (keeps_end ? left_stripped : stripped).size());
  return absl::OkStatus();
}

}  // namespace quire
