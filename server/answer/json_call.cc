#include "server/answer/json_call.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "engine/json/parse_json.h"

namespace quire {

namespace {

bool IsArguments(std::string_view key) { return key == "arguments" || key == "parameters"; }

// The text of a JSON string; false for anything else.
bool DecodeJsonString(const std::string& json, std::string* text) {
  if (!json.starts_with('"')) return false;
  const nlohmann::json value = ParseJson(json);
  if (!value.is_string()) return false;
  *text = value.get<std::string>();
  return true;
}

}  // namespace

size_t JsonValueReader::Take(std::string_view text, std::string* json) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (is_done_ || !Add(text[i], json)) return i;
  }
  return text.size();
}

bool JsonValueReader::Add(char c, std::string* json) {
  if (is_in_string_) {
    AddOfString(c, json);
    return true;
  }
  const bool opens = c == '{' || c == '[';
  const bool closes = c == '}' || c == ']';
  const bool is_quote = c == '"';
  if (depth_ == 0 && (has_begun_ || !(opens || is_quote))) {
    // A number or a word.
    is_done_ = opens || closes || is_quote || c == ',' || c == ':' || IsJsonSpace(c);
    if (is_done_) return false;
  }
  has_begun_ = true;
  is_in_string_ = is_quote;
  if (opens) ++depth_;
  if (closes) is_done_ = --depth_ == 0;
  json->push_back(c);
  return true;
}

void JsonValueReader::AddOfString(char c, std::string* json) {
  if (static_cast<unsigned char>(c) < 0x20) {
    absl::StrAppendFormat(json, "\\u%04x", static_cast<unsigned char>(c));
    return;
  }
  json->push_back(c);
  if (is_escaped_) {
    is_escaped_ = false;
  } else if (c == '\\') {
    is_escaped_ = true;
  } else if (c == '"') {
    is_in_string_ = false;
    is_done_ = depth_ == 0;
  }
}

CallReader::State JsonCallReader::Take(std::string_view* text, AnswerEvents* events) {
  while (!text->empty() && at_ != At::kEnd) {
    if (Step(text, events)) continue;
    if (!has_begun_) return State::kBroken;
    at_ = At::kEnd;  // the rest is for whoever reads on
  }
  return at_ == At::kEnd ? State::kDone : State::kReading;
}

bool JsonCallReader::Step(std::string_view* text, AnswerEvents* events) {
  const char c = text->front();
  const bool is_in_text = at_ == At::kKeyText || at_ == At::kValueText;
  if (!is_in_text && IsJsonSpace(c)) return Skip(text, at_);
  switch (at_) {
    case At::kObject:
      return c == '{' && Skip(text, At::kKey);
    case At::kKey:
      return BeginKey(c);
    case At::kKeyText:
      TakeText(text, events);
      return !reader_.is_done() || EndKey();
    case At::kColon:
      return c == ':' && Skip(text, At::kValue);
    case At::kValue:
      return BeginValue(c, events);
    case At::kValueText:
      TakeText(text, events);
      return !reader_.is_done() || EndValue(events);
    case At::kNext:
      return c == ',' ? Skip(text, At::kKey) : c == '}' && EndObject(text, events);
    case At::kEnd:
      break;
  }
  return false;
}

bool JsonCallReader::Skip(std::string_view* text, At next) {
  if (!has_begun_) raw_.push_back(text->front());
  text->remove_prefix(1);
  at_ = next;
  return true;
}

void JsonCallReader::TakeText(std::string_view* text, AnswerEvents* events) {
  std::string streamed;
  const size_t num_taken = reader_.Take(*text, is_streamed_ ? &streamed : &value_);
  if (is_streamed_) events->AddArguments(streamed);
  if (!has_begun_) raw_.append(text->substr(0, num_taken));
  text->remove_prefix(num_taken);
}

bool JsonCallReader::BeginKey(char c) {
  reader_ = {};
  value_.clear();
  at_ = At::kKeyText;
  return c == '"';
}

bool JsonCallReader::EndKey() {
  at_ = At::kColon;
  if (!DecodeJsonString(value_, &key_)) return false;
  return functions_ == nullptr || key_ == "name" || key_ == "type" || key_ == "id" ||
         IsArguments(key_);
}

bool JsonCallReader::BeginValue(char c, AnswerEvents* events) {
  reader_ = {};
  value_.clear();
  at_ = At::kValueText;
  is_streamed_ = IsArguments(key_) && c == '{' && !name_.empty() && !has_begun_;
  if (is_streamed_) Begin("", events);
  return true;
}

bool JsonCallReader::EndValue(AnswerEvents* events) {
  at_ = At::kNext;
  if (is_streamed_) {
    is_streamed_ = false;
    return true;
  }
  if (value_.empty()) return false;
  if (has_begun_) return true;
  if (key_ == "name") return EndName(events);
  return !IsArguments(key_) || EndArguments(events);
}

bool JsonCallReader::EndName(AnswerEvents* events) {
  if (!DecodeJsonString(value_, &name_)) return false;
  if (name_.empty() || name_.size() > kMaxFunctionNameBytes) return false;
  if (functions_ != nullptr && !functions_->contains(name_)) return false;
  if (!arguments_.empty()) Begin(arguments_, events);
  return true;
}

bool JsonCallReader::EndArguments(AnswerEvents* events) {
  // Some models write the JSON of the arguments as OpenAI's clients get it, within a string.
  if (!DecodeJsonString(value_, &arguments_) || arguments_.empty()) arguments_ = value_;
  if (arguments_ == "null") arguments_ = "{}";
  if (!name_.empty()) Begin(arguments_, events);
  return true;
}

bool JsonCallReader::EndObject(std::string_view* text, AnswerEvents* events) {
  const bool has_sense = has_begun_ || (!name_.empty() && functions_ == nullptr);
  if (!has_sense) return false;
  Skip(text, At::kEnd);
  if (!has_begun_) Begin("{}", events);
  return true;
}

void JsonCallReader::Begin(std::string_view arguments, AnswerEvents* events) {
  has_begun_ = true;
  raw_.clear();
  events->BeginCall(name_);
  events->AddArguments(arguments);
}

}  // namespace quire
