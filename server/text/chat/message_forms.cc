#include "server/text/chat/message_forms.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/base/status_macros.h"
#include "server/text/chat/jinja/values/operators.h"
#include "server/text/chat/json_values.h"

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

Value ValueOf(Dict dict) { return Value(std::make_shared<const Dict>(std::move(dict))); }

Value TextPart(const Value& text) {
  Dict part;
  part.Set(UserText("type"), UserText("text"));
  part.Set(UserText("text"), text);
  return ValueOf(std::move(part));
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

// One below the other, without those that are empty, as vLLM has it.
Value Joined(const std::vector<Value>& parts) {
  Text joined;
  for (const Value& part : parts) {
    const Text& said = *SaidBy(part)->text();
    if (said.size() == 0) continue;
    if (joined.size() > 0) joined.Append("\n", Origin::kUser);
    joined.Append(said);
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

const Dict* FunctionOf(const Value& call) {
  const Value* function =
      call.dict() == nullptr ? nullptr : call.dict()->Find(std::string_view("function"));
  return function == nullptr ? nullptr : function->dict();
}

// A dict of few entries is copied, the text of parts, and those of calls.
size_t StepsFor(const Value& message) {
  constexpr size_t kSteps = 16;
  if (message.dict() == nullptr) return 1;
  size_t steps = kSteps + message.dict()->size();
  const Value* content = message.dict()->Find(std::string_view("content"));
  if (content != nullptr && content->list() != nullptr) steps += content->weight();
  const Value* calls = message.dict()->Find(std::string_view("tool_calls"));
  if (calls == nullptr || calls->list() == nullptr) return steps;
  for (const Value& call : calls->list()->items) {
    const Dict* function = FunctionOf(call);
    steps += 1 + (function == nullptr ? 0 : call.dict()->size() + function->size());
  }
  return steps;
}

const Value* FindNotNone(const Dict& dict, std::string_view key) {
  const Value* value = dict.Find(key);
  return value == nullptr || value->is_none() ? nullptr : value;
}

// The object that a text spells; an empty one if it spells none.
Value ObjectIn(const Text& text, JsonBudget* budget) {
  constexpr size_t kDepthOfArguments = 8;
  absl::StatusOr<Value> value =
      ParseJsonValue(text.bytes(), budget, jinja::kMaxValueDepth - kDepthOfArguments);
  return value.ok() && value->dict() != nullptr ? *std::move(value) : ValueOf(Dict());
}

bool Quotes(std::string_view source, std::string_view word) {
  return source.find(absl::StrCat("'", std::string(word), "'")) != std::string_view::npos ||
         source.find(absl::StrCat("\"", std::string(word), "\"")) != std::string_view::npos;
}

constexpr char kTools[] = R"([{"type": "function", "function": {"name": "qzcall",
    "description": "d", "parameters": {"type": "object", "properties":
    {"a": {"type": "string", "description": "d"}}, "required": ["a"]}}}])";
constexpr std::string_view kArguments = R"({"a": "b"})";
constexpr char kCalls[] = R"("tool_calls": [{"id": "abcdefghi", "type": "function", "function":
    {"name": "qzcall", "arguments": {"a": "b"}}}])";
constexpr char kEmptyText[] = R"("content": "",)";
constexpr char kEmptyPart[] = R"("content": [{"type": "text", "text": ""}],)";
constexpr char kUser[] = R"({"role": "user", "content": "qzuser"})";

}  // namespace

// Small chats, in which one message has a content of some form. Their texts are spelled like
// nothing in a template.
class MessageForms::Probe {
 public:
  explicit Probe(const ChatTemplate& chat_template) : template_(chat_template) {}

  Forms FormsAt(Place place) const {
    const char* const tools = ToolsFor(place);
    const bool shows_text = ShowsText(place, tools);
    Forms forms;
    forms.parts = ShowsParts(place, tools);
    forms.one_part = !shows_text && !forms.parts && ShowsOnePart(place, tools);
    forms.parts |= forms.one_part;
    forms.text = shows_text || !forms.parts;
    forms.empty_as_part = forms.text && !Render(place, kEmptyText, tools).has_value() &&
                          Render(place, kEmptyPart, tools).has_value();
    const bool has_empty_part = forms.one_part || forms.empty_as_part;
    const char* const as_empty = has_empty_part ? kEmptyPart
                                 : forms.text   ? kEmptyText
                                                : R"("content": [],)";
    const auto empty = Render(place, as_empty, tools);
    const auto null = Render(place, R"("content": null,)", tools);
    const auto absent = Render(place, "", tools);
    forms.null = IsShown(null, empty, empty);
    forms.absent = IsShown(absent, empty, forms.null ? null : empty);
    return forms;
  }

  // A part of type thinking does not make the template fail.
  bool TakesThinkingParts() const {
    return Render(Place::kAssistant, R"("content": [
        {"type": "thinking", "thinking": "qzone"}, {"type": "text", "text": "qztwo"}],)",
                  "null")
        .has_value();
  }

  // A call's arguments may be a text.
  bool TakesTextArguments() const {
    std::string chat = ChatOf(Place::kCalls, kEmptyText);
    chat.replace(chat.find(kArguments), kArguments.size(), "\"qzone\"");
    const auto shown = Render(chat, ToolsFor(Place::kCalls));
    return shown.has_value() && Count(*shown, "qzone") > 0;
  }

  // Some templates take the first message for the system's, and look for no other.
  bool DropsInstructions() const {
    const auto system = [](const char* content) {
      return absl::StrCat(R"({"role": "system", "content": ")", content, "\"}, ");
    };
    const auto shown = Render(absl::StrCat(system("qzone"), system("qztwo"), kUser), "null");
    return shown.has_value() && Count(*shown, "qzone") > 0 && Count(*shown, "qztwo") == 0;
  }

  // Some templates fail where an assistant thinks, says something and calls a tool.
  bool TakesThinkingBesideCalls() const {
    return Render(Place::kCalls, R"("content": "qzone", "thinking": "qztwo",)",
                  ToolsFor(Place::kCalls))
        .has_value();
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
      if (ShowsText(place, tools) || ShowsParts(place, tools) || ShowsOnePart(place, tools)) {
        return tools;
      }
    }
    return "null";
  }

  bool ShowsText(Place place, const char* tools) const {
    const auto shown = Render(place, R"("content": "qzone",)", tools);
    return shown.has_value() && Count(*shown, "qzone") > 0;
  }

  std::optional<std::string> Render(Place place, const std::string& content,
                                    const char* tools) const {
    return Render(ChatOf(place, content), tools);
  }

  // Nothing where the template fails.
  std::optional<std::string> Render(const std::string& chat, const char* tools) const {
    // Some hundred times what a sound template needs for so little.
    Fuel fuel(500'000);
    JsonBudget budget;
    RenderInput input;
    input.messages = *ParseJsonValue(absl::StrCat("[", chat, "]"), &budget);
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

  bool ShowsOnePart(Place place, const char* tools) const {
    const auto shown = Render(place, R"("content": [
        {"type": "text", "text": "qzone", "qzkey": "qzvalue"}],)",
                              tools);
    return shown.has_value() && Count(*shown, "qzone") > 0 &&
           Count(*shown, "qzkey") + Count(*shown, "qzvalue") == 0;
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
    : knows_developer_(Quotes(chat_template.source(), "developer")) {
  const Probe probe(chat_template);
  knows_thinking_ = Quotes(chat_template.source(), "thinking") && probe.TakesThinkingParts();
  takes_text_arguments_ = probe.TakesTextArguments();
  drops_instructions_ = probe.DropsInstructions();
  takes_thinking_beside_calls_ = probe.TakesThinkingBesideCalls();
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
  JsonBudget budget = {.fuel = fuel};
  for (const Value& message : messages.list()->items) {
    if (fuel != nullptr && !fuel->Burn(StepsFor(message))) return fuel->status();
    adapted.push_back(message.dict() == nullptr ? message : AdaptMessage(*message.dict(), &budget));
  }
  return ListOf(drops_instructions_ ? WithOneInstruction(std::move(adapted)) : std::move(adapted));
}

bool MessageForms::IsInstruction(const Value& message) {
  if (message.dict() == nullptr) return false;
  const std::string_view role = TextOf(*message.dict(), "role");
  const Value* content = message.dict()->Find(std::string_view("content"));
  return (role == "system" || role == "developer") && content != nullptr &&
         content->text() != nullptr;
}

std::vector<Value> MessageForms::WithOneInstruction(std::vector<Value> messages) {
  const auto end = std::find_if_not(messages.begin(), messages.end(), IsInstruction);
  if (end - messages.begin() < 2) return messages;
  Text joined;
  for (auto message = messages.begin(); message != end; ++message) {
    const Text& said = *message->dict()->Find(std::string_view("content"))->text();
    if (joined.size() > 0 && said.size() > 0) joined.Append("\n\n", Origin::kUser);
    joined.Append(said);
  }
  Dict first = *messages.front().dict();
  first.Set(UserText("content"), Value(std::move(joined)));
  std::vector<Value> all = {ValueOf(std::move(first))};
  all.insert(all.end(), std::make_move_iterator(end), std::make_move_iterator(messages.end()));
  return all;
}

Value MessageForms::AdaptMessage(const Dict& message, JsonBudget* budget) const {
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
    if (name == "tool_calls") {
      if (has_calls) adapted.Set(key, AdaptCalls(value, budget));
    } else if (name != "role" && name != "content") {
      adapted.Set(key, value);
    }
  }
  AddReasoning(message, has_calls, &adapted);
  return ValueOf(std::move(adapted));
}

void MessageForms::AddReasoning(const Dict& message, bool has_calls, Dict* adapted) const {
  for (const std::string_view key : {"reasoning_content", "thinking", "reasoning"}) {
    const Value* reasoning = FindNotNone(message, key);
    if (reasoning == nullptr) continue;
    adapted->Set(UserText("reasoning_content"), *reasoning);
    adapted->Set(UserText("reasoning"), *reasoning);
    const Value* content = FindNotNone(message, "content");
    const bool is_beside_calls = has_calls && content != nullptr && jinja::IsTrue(*content);
    if (message.Find(std::string_view("thinking")) == nullptr &&
        (takes_thinking_beside_calls_ || !is_beside_calls)) {
      adapted->Set(UserText("thinking"), *reasoning);
    }
    return;
  }
}

Value MessageForms::AdaptCalls(const Value& calls, JsonBudget* budget) const {
  if (calls.list() == nullptr) return calls;
  std::vector<Value> adapted;
  adapted.reserve(calls.list()->items.size());
  for (const Value& call : calls.list()->items) adapted.push_back(AdaptCall(call, budget));
  return ListOf(std::move(adapted));
}

Value MessageForms::AdaptCall(const Value& call, JsonBudget* budget) const {
  const Dict* function = FunctionOf(call);
  if (function == nullptr) return call;
  const Value* arguments = FindNotNone(*function, "arguments");
  const Text* text = arguments == nullptr ? nullptr : arguments->text();
  const bool is_shown = arguments != nullptr && (arguments->dict() != nullptr ||
                                                 (text != nullptr && takes_text_arguments_));
  if (is_shown) return call;
  Dict named = *function;
  named.Set(UserText("arguments"), text == nullptr ? ValueOf(Dict()) : ObjectIn(*text, budget));
  Dict adapted = *call.dict();
  adapted.Set(UserText("function"), ValueOf(std::move(named)));
  return ValueOf(std::move(adapted));
}

Value MessageForms::EmptyContent(const Forms& forms) {
  if (forms.one_part || forms.empty_as_part) return ListOf({TextPart(UserText(""))});
  return forms.text ? UserText("") : ListOf({});
}

Value MessageForms::AdaptContent(const Value& content, const Forms& forms) const {
  const bool needs_parts = forms.parts && !forms.text;
  if (content.is_none()) return forms.null ? content : EmptyContent(forms);
  if (content.text() != nullptr) {
    if (forms.empty_as_part && content.text()->size() == 0) return EmptyContent(forms);
    return needs_parts ? ListOf({TextPart(content)}) : content;
  }
  if (content.list() == nullptr) return content;
  const std::vector<Value>& parts = content.list()->items;
  const bool are_texts = std::all_of(parts.begin(), parts.end(),
                                     [](const Value& part) { return SaidBy(part) != nullptr; });
  if (!are_texts) return content;
  if (parts.empty() && forms.empty_as_part) return EmptyContent(forms);
  if (forms.one_part) return ListOf({TextPart(Joined(parts))});
  if (!forms.parts) return AdaptContent(Joined(parts), forms);
  std::vector<Value> shown;
  for (const Value& part : parts) {
    const bool stays = IsThinking(part) ? knows_thinking_ : part.dict() != nullptr;
    shown.push_back(stays ? part : TextPart(*SaidBy(part)));
  }
  return ListOf(std::move(shown));
}

}  // namespace quire
