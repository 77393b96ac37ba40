#include "server/answer/parameter_call.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/json/parse_json.h"

namespace quire {

namespace {

constexpr std::string_view kParameterTag = "<parameter=";
constexpr std::string_view kEndTag = "</function>";

// Without the quotes. Bytes as they are, so that parts of a character stay together.
std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\n') {
      escaped.append("\\n");
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(&escaped, "\\u%04x", static_cast<unsigned char>(c));
    } else {
      if (c == '"' || c == '\\') escaped.push_back('\\');
      escaped.push_back(c);
    }
  }
  return escaped;
}

std::string_view WithoutSpaces(std::string_view text) {
  while (!text.empty() && IsJsonSpace(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsJsonSpace(text.back())) text.remove_suffix(1);
  return text;
}

// The value of a parameter that is no text. Models also write Python's words.
std::string ToJsonValue(std::string_view text) {
  const std::string_view value = WithoutSpaces(text);
  if (value == "True" || value == "False") return value == "True" ? "true" : "false";
  if (value == "None") return "null";
  if (IsJson(value)) return std::string(value);
  if (text.ends_with('\n')) text.remove_suffix(1);
  return absl::StrCat("\"", Escaped(text), "\"");
}

}  // namespace

ParameterCallReader::ParameterCallReader(std::string tag, const ToolFunctions& functions)
    : CallReader(std::move(tag)),
      functions_(functions),
      at_(raw_ == kFunctionTag ? At::kName : At::kFunction) {}

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
  if (mark_.size() == 1 && IsJsonSpace(c)) {
    mark_.clear();
  } else if (mark_ == kParameterTag) {
    at_ = At::kParameter;
  } else if (mark_ == kEndTag) {
    mark_.clear();
    EndCall(events);
  } else if (!kParameterTag.starts_with(mark_) && !kEndTag.starts_with(mark_)) {
    EndCall(events);
  }
  return true;
}

bool ParameterCallReader::TakeParameter(char c, AnswerEvents* events) {
  if (c != '>') {
    if (mark_.size() > kMaxFunctionNameBytes || c == '<' || c == '\n') EndCall(events);
    return true;
  }
  const std::string name =
      mark_.substr(kParameterTag.size(), mark_.size() - kParameterTag.size() - 1);
  mark_.clear();
  const auto function = functions_.find(name_);
  is_text_ = function == functions_.end() || !function->second.contains(name);
  events->AddArguments(absl::StrCat(num_parameters_++ == 0 ? "\"" : ", \"", Escaped(name),
                                    "\": ", is_text_ ? "\"" : ""));
  value_begins_ = true;
  at_ = At::kValue;
  return true;
}

void ParameterCallReader::TakeValue(std::string_view* text, AnswerEvents* events) {
  std::string value;
  const bool ends = value_end_.Find(text, &value).has_value();
  AddValue(value, events);
  if (!ends) return;
  EndValue(events);
  at_ = At::kNext;
}

void ParameterCallReader::AddValue(std::string_view text, AnswerEvents* events) {
  if (text.empty()) return;
  if (std::exchange(value_begins_, false) && text.starts_with('\n')) text.remove_prefix(1);
  value_.append(text);
  if (!is_text_) return;
  const bool waits = value_.ends_with('\n');
  if (waits) value_.pop_back();
  events->AddArguments(Escaped(value_));
  value_.assign(waits ? 1 : 0, '\n');
}

void ParameterCallReader::EndValue(AnswerEvents* events) {
  events->AddArguments(is_text_ ? "\"" : ToJsonValue(value_));
  value_.clear();
}

void ParameterCallReader::EndCall(AnswerEvents* events) {
  events->AddArguments("}");
  at_ = At::kEnd;
}

void ParameterCallReader::Finish(AnswerEvents* events) {
  if (at_ == At::kNext || at_ == At::kParameter) {
    EndCall(events);
  } else if (at_ == At::kValue) {
    AddValue(value_end_.TakeHeld(), events);
    events->AddArguments(is_text_ ? Escaped(value_) : value_);
  }
}

}  // namespace quire
