#include "server/chat/message_forms.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/base/status_macros.h"
#include "server/chat/json_values.h"

namespace quire {
namespace {

using jinja::Dict;
using jinja::List;
using jinja::ListKind;
using jinja::Origin;
using jinja::Text;
using jinja::Value;

Value UserText(std::string_view text) { return Value(Text(text, Origin::kUser)); }

Value ListOf(std::vector<Value> items) {
  return Value(std::make_shared<const List>(ListKind::kList, std::move(items)));
}

Value TextPart(const Value& text) {
  Dict part;
  part.Set(UserText("type"), UserText("text"));
  part.Set(UserText("text"), text);
  return Value(std::make_shared<const Dict>(std::move(part)));
}

std::string_view TextOf(const Dict& dict, std::string_view key) {
  const Value* value = dict.Find(key);
  return value == nullptr || value->text() == nullptr ? std::string_view() : value->text()->bytes();
}

// What a part says, if it is one of text or of thinking.
const Value* SaidBy(const Value& part) {
  if (part.text() != nullptr) return &part;
  if (part.dict() == nullptr) return nullptr;
  const std::string_view type = TextOf(*part.dict(), "type");
  if (type != "text" && type != "thinking") return nullptr;
  const Value* said = part.dict()->Find(type);
  return said == nullptr || said->text() == nullptr ? nullptr : said;
}

bool IsThinking(const Value& part) {
  return part.dict() != nullptr && TextOf(*part.dict(), "type") == "thinking";
}

// One below the other, as vLLM has it.
Value Joined(const std::vector<Value>& parts) {
  Text joined;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) joined.Append("\n", Origin::kUser);
    joined.Append(*SaidBy(parts[i])->text());
  }
  return Value(std::move(joined));
}

bool IsNone(const Value* calls) {
  return calls == nullptr || calls->is_none() ||
         (calls->list() != nullptr && calls->list()->items.empty());
}

size_t Count(std::string_view text, std::string_view what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + 1)) {
    ++count;
  }
  return count;
}

// A dict of few entries is copied, and the text of parts.
size_t StepsFor(const Value& message) {
  constexpr size_t kSteps = 16;
  if (message.dict() == nullptr) return 1;
  const Value* content = message.dict()->Find(std::string_view("content"));
  const bool has_parts = content != nullptr && content->list() != nullptr;
  return kSteps + message.dict()->size() + (has_parts ? content->weight() : 0);
}

bool Quotes(std::string_view source, std::string_view word) {
  return source.find(absl::StrCat("'", std::string(word), "'")) != std::string_view::npos ||
         source.find(absl::StrCat("\"", std::string(word), "\"")) != std::string_view::npos;
}

constexpr char kTools[] = R"([{"type": "function", "function": {"name": "qzcall",
    "description": "d", "parameters": {"type": "object", "properties":
    {"a": {"type": "string", "description": "d"}}, "required": ["a"]}}}])";
constexpr char kCalls[] = R"("tool_calls": [{"id": "abcdefghi", "type": "function", "function":
    {"name": "qzcall", "arguments": {"a": "b"}}}])";
constexpr char kUser[] = R"({"role": "user", "content": "qzuser"})";

}  // namespace

// Small chats, in which one message has a content of some form. What they say is spelled as nothing
// in a template is.
class MessageForms::Probe {
 public:
  explicit Probe(const ChatTemplate& chat_template) : template_(chat_template) {}

  Forms FormsAt(Place place) const {
    const char* const tools = ToolsFor(place);
    const bool shows_text = ShowsText(place, tools);
    Forms forms;
    forms.parts = ShowsParts(place, tools);
    forms.text = shows_text || !forms.parts;
    const auto empty = Render(place, forms.text ? R"("content": "",)" : R"("content": [],)", tools);
    const auto null = Render(place, R"("content": null,)", tools);
    const auto absent = Render(place, "", tools);
    forms.null = IsShown(null, empty, empty);
    forms.absent = IsShown(absent, empty, forms.null ? null : empty);
    return forms;
  }

 private:
  static std::string ChatOf(Place place, const std::string& content) {
    const auto message = [&content](const char* role, const char* more) {
      return absl::StrCat("{", content, more, "\"role\": \"", role, "\"}");
    };
    const std::string calls = absl::StrCat(kCalls, ", ");
    switch (place) {
      case Place::kSystem:
        return absl::StrCat(message("system", ""), ", ", kUser);
      case Place::kDeveloper:
        return absl::StrCat(message("developer", ""), ", ", kUser);
      case Place::kUser:
        break;
      case Place::kAssistant:
        return absl::StrCat(kUser, ", ", message("assistant", ""), ", ", kUser);
      case Place::kCalls:
        return absl::StrCat(kUser, ", ", message("assistant", calls.c_str()),
                            R"(, {"role": "tool", "content": "qztool", "name": "qzcall",
                            "tool_call_id": "abcdefghi"})");
      case Place::kTool:
        return absl::StrCat(kUser, ", {\"role\": \"assistant\", \"content\": \"qztold\", ", kCalls,
                            "}, ",
                            message("tool", R"("name": "qzcall", "tool_call_id": "abcdefghi", )"));
    }
    return message("user", "");
  }

  // Those of a chat in which the template shows the message: some want tools.
  const char* ToolsFor(Place place) const {
    for (const char* tools : {"null", kTools}) {
      if (ShowsText(place, tools) || ShowsParts(place, tools)) return tools;
    }
    return "null";
  }

  bool ShowsText(Place place, const char* tools) const {
    const auto shown = Render(place, R"("content": "qzone",)", tools);
    return shown.has_value() && Count(*shown, "qzone") > 0;
  }

  // Nothing where the template fails.
  std::optional<std::string> Render(Place place, const std::string& content,
                                    const char* tools) const {
    // Some hundred times what a sound template needs for so little.
    Fuel fuel(500'000);
    JsonBudget budget;
    RenderInput input;
    input.messages = *ParseJsonValue(absl::StrCat("[", ChatOf(place, content), "]"), &budget);
    input.tools = *ParseJsonValue(tools, &budget);
    input.add_generation_prompt = true;
    input.fuel = &fuel;
    const absl::StatusOr<std::vector<PromptSegment>> segments = template_.Render(input);
    if (!segments.ok()) return std::nullopt;
    std::string text;
    for (const PromptSegment& segment : *segments) text += segment.text;
    return text;
  }

  // Both, in their order, and not as Python or JSON prints a list.
  bool ShowsParts(Place place, const char* tools) const {
    const auto shown = Render(place, R"("content": [
        {"type": "text", "text": "qzone", "qzkey": "qzvalue"},
        {"type": "text", "text": "qztwo", "qzkey": "qzvalue"}],)",
                              tools);
    if (!shown.has_value() || Count(*shown, "qzkey") + Count(*shown, "qzvalue") > 0) return false;
    const size_t one = shown->find("qzone");
    return one != std::string::npos && shown->find("qztwo", one) != std::string::npos;
  }

  // Whether what a form came to has no None or null that an empty text has not, and all the calls
  // that another form has.
  static bool IsShown(const std::optional<std::string>& form,
                      const std::optional<std::string>& empty,
                      const std::optional<std::string>& other) {
    if (!form.has_value()) return false;
    const std::string& plain = empty.has_value() ? *empty : *form;
    const std::string& told = other.has_value() ? *other : *form;
    return Count(*form, "None") <= Count(plain, "None") &&
           Count(*form, "null") <= Count(plain, "null") &&
           Count(*form, "qzcall") >= Count(told, "qzcall");
  }

  const ChatTemplate& template_;
};

MessageForms::MessageForms(const ChatTemplate& chat_template)
    : knows_developer_(Quotes(chat_template.source(), "developer")),
      knows_thinking_(Quotes(chat_template.source(), "thinking")) {
  const Probe probe(chat_template);
  for (size_t i = 0; i < kNumPlaces; ++i) forms_[i] = probe.FormsAt(static_cast<Place>(i));
}

MessageForms::Place MessageForms::PlaceOf(std::string_view role, bool has_calls) {
  if (role == "system") return Place::kSystem;
  if (role == "developer") return Place::kDeveloper;
  if (role == "assistant") return has_calls ? Place::kCalls : Place::kAssistant;
  return role == "tool" ? Place::kTool : Place::kUser;
}

absl::StatusOr<Value> MessageForms::Adapt(const Value& messages, Fuel* fuel) const {
  if (messages.list() == nullptr) return messages;
  std::vector<Value> adapted;
  for (const Value& message : messages.list()->items) {
    if (fuel != nullptr && !fuel->Burn(StepsFor(message))) return fuel->status();
    adapted.push_back(message.dict() == nullptr ? message : AdaptMessage(*message.dict()));
  }
  return ListOf(std::move(adapted));
}

Value MessageForms::AdaptMessage(const Dict& message) const {
  const bool has_calls = !IsNone(message.Find(std::string_view("tool_calls")));
  const Value* role = message.Find(std::string_view("role"));
  const bool is_developer = TextOf(message, "role") == "developer" && !knows_developer_;
  const std::string_view known_role = is_developer ? "system" : TextOf(message, "role");
  const Forms& forms = FormsAt(PlaceOf(known_role, has_calls));
  Dict adapted;
  if (role != nullptr) adapted.Set(UserText("role"), is_developer ? UserText("system") : *role);
  const Value* content = message.Find(std::string_view("content"));
  const bool is_absent = content == nullptr;
  if (!is_absent || !forms.absent) {
    adapted.Set(UserText("content"),
                AdaptContent(is_absent ? Value(jinja::None{}) : *content, forms));
  }
  for (const auto& [key, value] : message.entries()) {
    const std::string_view name = key.text()->bytes();  // as of every key of JSON
    const bool is_done = name == "role" || name == "content";
    if (!is_done && (name != "tool_calls" || has_calls)) adapted.Set(key, value);
  }
  return Value(std::make_shared<const Dict>(std::move(adapted)));
}

Value MessageForms::AdaptContent(const Value& content, const Forms& forms) const {
  const bool needs_parts = forms.parts && !forms.text;
  if (content.is_none()) {
    if (forms.null) return content;
    return needs_parts ? ListOf({}) : UserText("");
  }
  if (content.text() != nullptr && needs_parts) return ListOf({TextPart(content)});
  if (content.list() == nullptr) return content;
  const std::vector<Value>& parts = content.list()->items;
  const bool are_texts = std::all_of(parts.begin(), parts.end(),
                                     [](const Value& part) { return SaidBy(part) != nullptr; });
  if (!are_texts) return content;
  if (!forms.parts) return Joined(parts);
  std::vector<Value> shown;
  for (const Value& part : parts) {
    const bool stays = IsThinking(part) ? knows_thinking_ : part.dict() != nullptr;
    shown.push_back(stays ? part : TextPart(*SaidBy(part)));
  }
  return ListOf(std::move(shown));
}

}  // namespace quire
