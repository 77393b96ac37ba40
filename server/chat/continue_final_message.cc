#include "server/chat/continue_final_message.h"

#include <string>
#include <string_view>

#include "server/chat/jinja/builtins/text_operations.h"
#include "server/chat/jinja/values/error.h"
#include "server/text/byte_search.h"

namespace quire {
namespace {

using Json = nlohmann::ordered_json;

// The text that the model goes on with: a string, or the last text part of a list of parts. Null if
// there is none.
const std::string* FinalText(const Json& messages) {
  if (!messages.is_array() || messages.empty() || !messages.back().is_object()) return nullptr;
  const auto content = messages.back().find("content");
  if (content == messages.back().end()) return nullptr;
  if (content->is_string()) return content->get_ptr<const std::string*>();
  if (!content->is_array()) return nullptr;
  for (auto part = content->rbegin(); part != content->rend(); ++part) {
    if (!part->is_object()) continue;
    const auto text = part->find("text");
    if (text != part->end() && text->is_string()) return text->get_ptr<const std::string*>();
  }
  return nullptr;
}

}  // namespace

absl::Status CutAfterFinalMessage(const Json& messages, jinja::Text* rendered) {
  const std::string* content = FinalText(messages);
  if (content == nullptr) {
    return jinja::Error("continue_final_message needs a last message with text content");
  }
  const jinja::Text text(*content, jinja::Origin::kUser);
  const jinja::Text stripped = Strip(text, nullptr, jinja::StripSides::kBoth);
  const jinja::Text left_stripped = Strip(text, nullptr, jinja::StripSides::kLeft);
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
