#include "server/answer/tool_call_parser.h"

#include <utility>
#include <vector>

#include "server/answer/json_call.h"
#include "server/answer/named_call.h"
#include "server/answer/parameter_call.h"

namespace quire {

namespace {

std::vector<std::string> AllTags(ToolFormat format) {
  CallTags tags = TagsOf(format);
  if (!tags.end.empty()) tags.begin.push_back(tags.end);
  return tags.begin;
}

}  // namespace

// A Llama's whole answer may be a call that nothing announces.
ToolCallParser::ToolCallParser(ToolFormat format, const ToolFunctions& functions)
    : format_(format),
      functions_(functions),
      end_tag_(TagsOf(format).end),
      tags_(AllTags(format)),
      at_(format == ToolFormat::kLlama3Json ? At::kOpening : At::kText) {}

void ToolCallParser::Append(std::string_view text, AnswerEvents* events) {
  while (!text.empty()) Step(&text, events);
}

void ToolCallParser::Step(std::string_view* text, AnswerEvents* events) {
  switch (at_) {
    case At::kText:
      return TakeText(text, events);
    case At::kOpening:
      return TakeOpening(text, events);
    case At::kCall:
      return TakeCall(text, events);
    case At::kNext:
      return TakeNext(text, events);
  }
}

void ToolCallParser::TakeText(std::string_view* text, AnswerEvents* events) {
  std::string before;
  const std::optional<size_t> tag = tags_.Find(text, &before);
  events->AddText(AnswerEvent::Kind::kContent, before);
  if (tag.has_value()) TakeTag(tags_.tag(*tag), events);
}

void ToolCallParser::TakeTag(const std::string& tag, AnswerEvents* events) {
  if (tag != end_tag_) {
    opening_ = tag;
    follows_ = false;
    at_ = At::kOpening;
  } else if (std::exchange(awaits_end_, false)) {
    events->AddTag();
  } else {
    events->AddText(AnswerEvent::Kind::kContent, tag);
  }
}

void ToolCallParser::TakeOpening(std::string_view* text, AnswerEvents* events) {
  if (IsJsonSpace(text->front())) {
    opening_.push_back(text->front());
    text->remove_prefix(1);
    return;
  }
  call_ = Open(text);
  at_ = call_ == nullptr ? At::kText : At::kCall;
  if (call_ == nullptr) events->AddText(AnswerEvent::Kind::kContent, opening_);
  opening_.clear();
}

std::unique_ptr<CallReader> ToolCallParser::Open(std::string_view* text) {
  switch (format_) {
    case ToolFormat::kHermes:
      return std::make_unique<JsonCallReader>(opening_, nullptr);
    case ToolFormat::kQwen3Coder:
      return std::make_unique<ParameterCallReader>(opening_, functions_);
    case ToolFormat::kLlama3Json: {
      const bool has_tag = opening_.starts_with('<');
      is_list_ = true;
      if (!has_tag && text->front() != '{') return nullptr;
      return std::make_unique<JsonCallReader>(opening_, has_tag ? nullptr : &functions_);
    }
    case ToolFormat::kMistral:
      if (!follows_) is_list_ = text->front() == '[';
      if (!is_list_) return std::make_unique<NamedCallReader>(opening_);
      if (!follows_) {
        opening_.push_back('[');
        text->remove_prefix(1);
      }
      return std::make_unique<JsonCallReader>(opening_, nullptr);
    case ToolFormat::kNone:
      break;
  }
  return nullptr;
}

void ToolCallParser::TakeCall(std::string_view* text, AnswerEvents* events) {
  const CallReader::State state = call_->Take(text, events);
  if (state == CallReader::State::kReading) return;
  const std::unique_ptr<CallReader> call = std::move(call_);
  const bool is_done = state == CallReader::State::kDone;
  awaits_end_ |= is_done;
  at_ = is_done && is_list_ ? At::kNext : At::kText;
  if (!is_done) events->AddText(AnswerEvent::Kind::kContent, call->TakeRaw());
  Append(call->TakeRest(), events);  // shorter than a name, and no call by itself
}

void ToolCallParser::TakeNext(std::string_view* text, AnswerEvents* events) {
  const char c = text->front();
  const bool is_separator = c == (format_ == ToolFormat::kMistral ? ',' : ';');
  if (IsJsonSpace(c) || is_separator) {
    opening_.push_back(c);
    text->remove_prefix(1);
    if (!is_separator) return;
    at_ = At::kOpening;
    follows_ = true;
    return;
  }
  at_ = At::kText;
  if (c == ']' && format_ == ToolFormat::kMistral) {
    text->remove_prefix(1);
  } else {
    events->AddText(AnswerEvent::Kind::kContent, opening_);
  }
  opening_.clear();
}

void ToolCallParser::Finish(AnswerEvents* events) {
  std::string rest = opening_ + tags_.TakeHeld();
  if (call_ != nullptr) {
    call_->Finish(events);
    rest = call_->TakeRaw() + call_->TakeRest();
  }
  events->AddText(AnswerEvent::Kind::kContent, rest);
}

}  // namespace quire
