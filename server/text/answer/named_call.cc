#include "server/text/answer/named_call.h"

#include "absl/strings/ascii.h"

namespace quire {

namespace {

constexpr std::string_view kIdMark = "[CALL_ID]";
constexpr std::string_view kArgumentsMark = "[ARGS]";

}  // namespace

CallReader::State NamedCallReader::Take(std::string_view* text, AnswerEvents* events) {
  while (!text->empty() && at_ != At::kArguments) {
    const char c = text->front();
    if (c == '{' && mark_.empty() && !name_.empty()) {
      raw_.clear();
      events->BeginCall(name_);
      at_ = At::kArguments;
    } else if (TakeHead(c)) {
      text->remove_prefix(1);
    } else {
      return State::kBroken;
    }
  }
  if (at_ != At::kArguments) return State::kReading;
  std::string json;
  while (!text->empty() && !arguments_.is_done() && arguments_.Add(text->front(), &json)) {
    text->remove_prefix(1);
  }
  events->AddArguments(json);
  return arguments_.is_done() ? State::kDone : State::kReading;
}

void NamedCallReader::Finish(AnswerEvents* events) {
  if (at_ != At::kArguments) return;
  std::string json;
  arguments_.Finish(&json);
  events->AddArguments(json);
}

bool NamedCallReader::TakeHead(char c) {
  if (at_ == At::kMark) return TakeMark(c);
  if (c == '[' && !name_.empty()) {
    mark_ = c;
    at_ = At::kMark;
    return true;
  }
  if (IsJsonSpace(c)) {
    name_ends_ = !name_.empty();
  } else if (at_ == At::kName) {
    const bool is_of_name = absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.';
    if (!is_of_name || name_ends_ || name_.size() == kMaxFunctionNameBytes) return false;
    name_.push_back(c);
  } else if (at_ == At::kBody || !absl::ascii_isalnum(c)) {
    return false;
  }
  raw_.push_back(c);
  return true;
}

bool NamedCallReader::TakeMark(char c) {
  const std::string mark = mark_ + c;
  if (!kIdMark.starts_with(mark) && !kArgumentsMark.starts_with(mark)) return false;
  mark_ = mark;
  if (mark == kIdMark || mark == kArgumentsMark) {
    raw_.append(TakeRest());
    at_ = mark == kIdMark ? At::kId : At::kBody;
  }
  return true;
}

}  // namespace quire
