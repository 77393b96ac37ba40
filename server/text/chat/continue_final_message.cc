#include "server/text/chat/continue_final_message.h"

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "server/text/byte_search.h"
#include "server/text/chat/jinja/builtins/text_operations.h"
#include "server/text/chat/jinja/values/error.h"

namespace quire {
namespace {

using jinja::Dict;
using jinja::List;
using jinja::Origin;
using jinja::Text;
using jinja::Value;

// As transformers spells it: what a template does with it is the same, too. The space tells whether
// the template trims.
constexpr std::string_view kMark = "CONTINUE_FINAL_MESSAGE_TAG ";
constexpr std::string_view kTrimmedMark = kMark.substr(0, kMark.size() - 1);

const Value* Member(const Value& value, std::string_view key) {
  return value.dict() == nullptr ? nullptr : value.dict()->Find(key);
}

Value WithMember(const Value& object, std::string_view key, Value member) {
  Dict changed = *object.dict();
  changed.Set(Value(Text(key, Origin::kUser)), std::move(member));
  return Value(std::make_shared<const Dict>(std::move(changed)));
}

Value WithItem(const List& list, size_t index, Value item) {
  std::vector<Value> items = list.items;
  items[index] = std::move(item);
  return Value(std::make_shared<const List>(list.kind, std::move(items)));
}

Value Marked(const Text& text) {
  Text marked = text;
  marked.Append(kMark, Origin::kUser);
  return Value(std::move(marked));
}

// The text that the model goes on with, and where it stands; null if there is none.
struct FinalText {
  const Value* content = nullptr;
  const Text* text = nullptr;
  size_t part = 0;  // of a content that is a list
};

FinalText FindFinalText(const Value& messages) {
  const List* list = messages.list();
  if (list == nullptr || list->items.empty()) return {};
  const Value* content = Member(list->items.back(), "content");
  if (content == nullptr) return {};
  if (content->text() != nullptr) return {content, content->text()};
  if (content->list() == nullptr) return {};
  const std::vector<Value>& parts = content->list()->items;
  for (size_t i = parts.size(); i-- > 0;) {
    const Value* text = Member(parts[i], "text");
    if (text != nullptr && text->text() != nullptr) return {content, text->text(), i};
  }
  return {};
}

}  // namespace

absl::StatusOr<Value> MarkFinalMessage(const Value& messages) {
  const FinalText found = FindFinalText(messages);
  if (found.text == nullptr) {
    return jinja::Error("continue_final_message needs a last message with text content");
  }
  Value marked = Marked(*found.text);
  if (const List* parts = found.content->list()) {
    marked = WithItem(*parts, found.part,
                      WithMember(parts->items[found.part], "text", std::move(marked)));
  }
  const List& list = *messages.list();
  return WithItem(list, list.items.size() - 1,
                  WithMember(list.items.back(), "content", std::move(marked)));
}

absl::Status CutAtMark(const Value& messages, Text* rendered) {
  const size_t found = FindLastBytes(rendered->bytes(), kTrimmedMark);
  const Text said = Strip(*FindFinalText(messages).text, nullptr, jinja::StripSides::kBoth);
  if (found == std::string_view::npos ||
      FindLastBytes(rendered->bytes(), said.bytes()) == std::string_view::npos) {
    return jinja::Error(
        "continue_final_message: the chat template does not show the last message as it is");
  }
  const bool keeps_end = rendered->bytes().substr(found).starts_with(kMark);
  *rendered = rendered->Slice(0, found);
  // The template trims white space at the end of the message.
  if (!keeps_end) *rendered = Strip(*rendered, nullptr, jinja::StripSides::kRight);
  return absl::OkStatus();
}

}  // namespace quire
