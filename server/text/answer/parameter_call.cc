#include "server/text/answer/parameter_call.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/text/answer/json_mender.h"

namespace quire {

namespace {

constexpr std::string_view kParameterTag = "<parameter=";
constexpr std::string_view kParameterEnd = "</parameter>";
constexpr std::string_view kEndTag = "</function>";

// Those after which a value has ended; the first few are its own end, as models also spell it.
constexpr size_t kNumValueEnds = 3;
std::vector<std::string> TagsAfterValue() {
  return {std::string(kParameterEnd),
          "</param>",
          "</parameters>",
          std::string(kParameterTag),
          std::string(kEndTag),
          "</tool_call>",
          "<tool_call>",
          std::string(ParameterCallReader::kFunctionTag)};
}

// Some write the name in quotes.
std::string NameOf(std::string_view text) {
  constexpr std::string_view kAround = " \t\"'";
  const size_t begin = text.find_first_not_of(kAround);
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(kAround) + 1 - begin));
}

}  // namespace

ParameterCallReader::ParameterCallReader(std::string tag, const ToolFunctions& functions)
    : CallReader(std::move(tag)),
      functions_(functions),
      at_(raw_ == kFunctionTag ? At::kName : At::kFunction),
      value_end_(TagsAfterValue()) {}

CallReader::State ParameterCallReader::Take(std::string_view* text, AnswerEvents* events) {
  while (!text->empty() && at_ != At::kEnd) {
    if (!Step(text, events)) return State::kBroken;
  }
  return at_ == At::kEnd ? State::kDone : State::kReading;
}

bool ParameterCallReader::Step(std::string_view* text, AnswerEvents* events) {
  if (at_ == At::kValue) {
    TakeValue(text, events);
    return true;
  }
  const char c = text->front();
  text->remove_prefix(1);
  mark_.push_back(c);
  switch (at_) {
    case At::kFunction:
      return TakeFunctionTag(c);
    case At::kName:
      return TakeName(c, events);
    case At::kNext:
      return TakeNextTag(c, events);
    case At::kParameter:
      return TakeParameter(c, events);
    case At::kValue:
    case At::kEnd:
      break;
  }
  return true;
}

bool ParameterCallReader::TakeFunctionTag(char c) {
  if (mark_.size() == 1 && IsJsonSpace(c)) {
    raw_.append(TakeRest());
  } else if (mark_ == kFunctionTag) {
    raw_.append(TakeRest());
    at_ = At::kName;
  }
  return kFunctionTag.starts_with(mark_);
}

bool ParameterCallReader::TakeName(char c, AnswerEvents* events) {
  const bool ends = c == '>' && !name_.empty();
  if (!ends && (name_.size() == kMaxFunctionNameBytes || c == '<' || c == '>' || IsJsonSpace(c))) {
    return false;
  }
  raw_.append(TakeRest());
  if (!ends) {
    name_.push_back(c);
    return true;
  }
  raw_.clear();
  events->BeginCall(name_);
  events->AddArguments("{");
  at_ = At::kNext;
  return true;
}

// Whatever comes: the call has begun, so all that can happen is that it ends.
bool ParameterCallReader::TakeNextTag(char c, AnswerEvents* events) {
  const bool is_space = mark_.size() == 1 && IsJsonSpace(c);
  if (is_space || mark_ == kParameterEnd) {  // one end too many
    mark_.clear();
  } else if (mark_ == kParameterTag) {
    at_ = At::kParameter;
  } else if (mark_ == kEndTag) {
    mark_.clear();
    EndCall(events);
  } else if (!kParameterTag.starts_with(mark_) && !kEndTag.starts_with(mark_) &&
             !kParameterEnd.starts_with(mark_)) {
    EndCall(events);
  }
  return true;
}

bool ParameterCallReader::TakeParameter(char c, AnswerEvents* events) {
  if (c != '>') {
    if (mark_.size() > kMaxFunctionNameBytes || c == '<' || c == '\n') EndCall(events);
    return true;
  }
  const std::string name = NameOf(std::string_view(mark_).substr(
      kParameterTag.size(), mark_.size() - kParameterTag.size() - 1));
  mark_.clear();
  const auto function = functions_.find(name_);
  types_ = function == functions_.end() ? kJsonText : function->second.TypesOf(name);
  events->AddArguments(absl::StrCat(num_parameters_++ == 0 ? "\"" : ", \"", EscapedForJson(name),
                                    "\": ", is_text() ? "\"" : ""));
  value_begins_ = true;
  at_ = At::kValue;
  return true;
}

void ParameterCallReader::TakeValue(std::string_view* text, AnswerEvents* events) {
  std::string value;
  const std::optional<size_t> tag = value_end_.Find(text, &value);
  AddValue(value, events);
  if (!tag.has_value()) return;
  EndValue(events);
  at_ = At::kNext;
  if (*tag >= kNumValueEnds) TakeTag(value_end_.tag(*tag), events);
}

void ParameterCallReader::TakeTag(const std::string& tag, AnswerEvents* events) {
  if (tag == kParameterTag) {
    mark_ = tag;
    at_ = At::kParameter;
    return;
  }
  if (tag != kEndTag) mark_ = tag;  // for the reader that goes on
  EndCall(events);
}

void ParameterCallReader::AddValue(std::string_view text, AnswerEvents* events) {
  if (text.empty()) return;
  if (std::exchange(value_begins_, false) && text.starts_with('\n')) text.remove_prefix(1);
  value_.append(text);
  if (!is_text()) return;
  const bool waits = value_.ends_with('\n');
  if (waits) value_.pop_back();
  events->AddArguments(EscapedForJson(value_));
  value_.assign(waits ? 1 : 0, '\n');
}

void ParameterCallReader::EndValue(AnswerEvents* events) {
  events->AddArguments(is_text() ? "\"" : ParameterToJson(value_, types_));
  value_.clear();
}

void ParameterCallReader::EndCall(AnswerEvents* events) {
  events->AddArguments("}");
  at_ = At::kEnd;
}

void ParameterCallReader::Finish(AnswerEvents* events) {
  if (at_ == At::kValue) {
    // More of a tag than its first character is more likely that than the value's.
    const std::string held = value_end_.TakeHeld();
    if (held.size() == 1) AddValue(held, events);
    EndValue(events);
    EndCall(events);
  } else if (at_ == At::kNext || at_ == At::kParameter) {
    mark_.clear();
    EndCall(events);
  }
}

}  // namespace quire
