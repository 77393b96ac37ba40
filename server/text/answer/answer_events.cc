#include "server/text/answer/answer_events.h"

namespace quire {

namespace {

constexpr char kWhiteSpace[] = " \t\r\n";

}  // namespace

void AnswerEvents::AddText(AnswerEvent::Kind kind, std::string_view text) {
  if (is_after_tag_) {
    const size_t begin = text.find_first_not_of(kWhiteSpace);
    if (begin == std::string_view::npos) return;
    text.remove_prefix(begin);
    is_after_tag_ = false;
  }
  const size_t end = text.find_last_not_of(kWhiteSpace) + 1;  // npos + 1 is 0
  held_kind_ = kind;
  if (end > 0) {
    Append(kind, held_);
    held_.clear();
    Append(kind, text.substr(0, end));
  }
  held_.append(text.substr(end));
}

void AnswerEvents::AddTag() {
  held_.clear();
  is_after_tag_ = true;
}

void AnswerEvents::BeginCall(std::string_view name) {
  AddTag();
  ++num_calls_;
  if (one_call_ && num_calls_ > 1) return;
  events_.push_back({AnswerEvent::Kind::kCall, std::string(name)});
}

void AnswerEvents::AddArguments(std::string_view json) {
  if (one_call_ && num_calls_ > 1) return;
  Append(AnswerEvent::Kind::kArguments, json);
}

void AnswerEvents::EndText() {
  Append(held_kind_, held_);
  held_.clear();
}

void AnswerEvents::Append(AnswerEvent::Kind kind, std::string_view text) {
  if (text.empty()) return;
  if (events_.empty() || events_.back().kind != kind) events_.push_back({kind, ""});
  events_.back().text.append(text);
}

}  // namespace quire
