#include "server/text/answer/answer_parser.h"

#include <utility>

namespace quire {

AnswerParser::AnswerParser(const AnswerOptions& options, bool in_reasoning)
    : reasoning_(options.reasoning),
      at_(reasoning_.is_none() ? At::kContent : At::kStart),
      after_start_(in_reasoning ? At::kLabel : At::kContent),
      end_({reasoning_.close}),
      events_(options.one_call) {
  if (options.is_harmony()) {
    messages_ = std::make_unique<HarmonyParser>(
        HarmonyParser::Options{.finds_reasoning = reasoning_.in_channels,
                               .finds_calls = options.tools == ToolFormat::kHarmony,
                               .in_reasoning = in_reasoning},
        options.functions);
    messages_->Append(options.opening, &events_);
    return;
  }
  if (in_reasoning) events_.AddTag();  // the prompt has it
  if (options.tools != ToolFormat::kNone) {
    tools_ = std::make_unique<ToolCallParser>(options.tools, options.functions);
  }
  if (!options.opening.empty()) {
    at_ = At::kContent;
    AddContent(options.opening);
  }
}

std::vector<AnswerEvent> AnswerParser::Append(std::string_view text) {
  if (messages_ != nullptr) {
    messages_->Append(text, &events_);
    return events_.Take();
  }
  while (at_ == At::kStart && !text.empty()) TakeStart(&text);
  if (at_ == At::kLabel) TakeLabel(&text);
  if (at_ == At::kReasoning) TakeReasoning(&text);
  if (at_ == At::kContent) AddContent(text);
  return events_.Take();
}

void AnswerParser::TakeStart(std::string_view* text) {
  const char c = text->front();
  const bool is_space = num_spaces_ == start_.size() && IsJsonSpace(c);
  start_.push_back(c);
  text->remove_prefix(1);
  if (is_space) {
    ++num_spaces_;
    return;
  }
  const std::string_view tag = std::string_view(start_).substr(num_spaces_);
  if (tag == reasoning_.open) {
    events_.AddTag();
    start_.clear();
    at_ = At::kLabel;
  } else if (!reasoning_.open.starts_with(tag)) {
    at_ = after_start_;
    const std::string start = std::exchange(start_, {});
    std::string_view rest = start;
    if (at_ == At::kLabel) TakeLabel(&rest);
    if (at_ == At::kReasoning) TakeReasoning(&rest);
    if (at_ == At::kContent) AddContent(rest);
  }
}

// Takes the label, if it comes, and the reasoning behind it.
void AnswerParser::TakeLabel(std::string_view* text) {
  const std::string& label = reasoning_.label;
  while (!text->empty() && start_ != label && label.starts_with(start_)) {
    start_.push_back(text->front());
    text->remove_prefix(1);
  }
  const bool is_whole = start_ == label;
  if (!is_whole && label.starts_with(start_)) return;
  at_ = At::kReasoning;
  const std::string start = std::exchange(start_, {});
  std::string_view no_label = start;
  if (!is_whole) TakeReasoning(&no_label);
}

void AnswerParser::TakeReasoning(std::string_view* text) {
  std::string before;
  const bool ends = end_.Find(text, &before).has_value();
  events_.AddText(AnswerEvent::Kind::kReasoning, before);
  if (!ends) return;
  events_.AddTag();
  at_ = At::kContent;
}

void AnswerParser::AddContent(std::string_view text) {
  if (text.empty()) return;
  if (tools_ != nullptr) {
    tools_->Append(text, &events_);
  } else {
    events_.AddText(AnswerEvent::Kind::kContent, text);
  }
}

std::vector<AnswerEvent> AnswerParser::Finish() {
  if (messages_ != nullptr) {
    messages_->Finish(&events_);
  } else if (at_ == At::kStart || at_ == At::kLabel) {
    const bool in_reasoning = at_ == At::kLabel || after_start_ == At::kLabel;
    events_.AddText(in_reasoning ? AnswerEvent::Kind::kReasoning : AnswerEvent::Kind::kContent,
                    start_);
  } else if (at_ == At::kReasoning) {
    events_.AddText(AnswerEvent::Kind::kReasoning, end_.TakeHeld());
  } else if (tools_ != nullptr) {
    tools_->Finish(&events_);
  }
  events_.EndText();
  return events_.Take();
}

}  // namespace quire
