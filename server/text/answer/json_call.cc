#include "server/text/answer/json_call.h"

#include <nlohmann/json.hpp>

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
  size_t num_taken = 0;
  while (num_taken < text.size() && !is_done_ && Add(text[num_taken])) ++num_taken;
  json->append(text.substr(0, num_taken));
  return num_taken;
}

bool JsonValueReader::Add(char c) {
  const bool is_quote = c == '"' && !is_escaped_;
  is_escaped_ = is_in_string_ && c == '\\' && !is_escaped_;
  if (is_in_string_) {
    is_in_string_ = !is_quote;
    is_done_ = is_quote && depth_ == 0;
    return true;
  }
  const bool opens = c == '{' || c == '[';
  const bool closes = c == '}' || c == ']';
  if (depth_ == 0 && (has_begun_ || !(opens || is_quote))) {
    // A number or a word.
    is_done_ = opens || closes || is_quote || c == ',' || c == ':' || IsJsonSpace(c);
    if (is_done_) return false;
  }
  has_begun_ = true;
  is_in_string_ = is_quote;
  if (opens) ++depth_;
  if (closes) is_done_ = --depth_ == 0;
  return true;
}

CallReader::State JsonCallReader::Take(std::string_view* text, AnswerEvents* events) {
  while (!text->empty() && at_ != At::kEnd) {
    const char c = text->front();
    bool is_taken = true;
    const bool is_sound = HoldsEndTag(c, events) || AddRaw(c, events, &is_taken);
    if (is_taken) text->remove_prefix(1);
    if (!is_sound && !has_begun_) return State::kBroken;
  }
  return at_ == At::kEnd ? State::kDone : State::kReading;
}

bool JsonCallReader::AddRaw(char c, AnswerEvents* events, bool* is_taken) {
  std::string json;
  *is_taken = mender_.Add(c, &json);
  if (*is_taken && !has_begun_) raw_.push_back(c);
  // Text that a tag cuts off may be a call that lacks its last bracket. Text that goes on in
  // another way is no call.
  if (!*is_taken && !has_begun_ && (c != '<' || functions_ != nullptr)) return false;
  const bool is_sound = TakeJson(json, events);
  // Text after the arguments belongs to nothing.
  if (has_begun_ && (!is_sound || mender_.is_done())) at_ = At::kEnd;
  return is_sound && (*is_taken || has_begun_);
}

bool JsonCallReader::TakeJson(std::string_view json, AnswerEvents* events) {
  while (!json.empty() && at_ != At::kEnd) {
    if (!Step(&json, events)) return false;
  }
  return true;
}

bool JsonCallReader::HoldsEndTag(char c, AnswerEvents* events) {
  if (held_.empty()) {
    if (c != '<' || end_tag_.empty() || !has_begun_ || !mender_.is_in_string()) return false;
    held_ = c;
    return true;
  }
  if (held_.size() < end_tag_.size()) {
    if (end_tag_[held_.size()] == c) {
      held_.push_back(c);
      return true;
    }
    ReleaseHeld(events);
    return HoldsEndTag(c, events);
  }
  if (IsJsonSpace(c)) {
    held_.push_back(c);
    return true;
  }
  if (c != '<') {
    ReleaseHeld(events);
    return false;
  }
  Close(events);
  mark_ = std::exchange(held_, {}) + c;
  return true;
}

void JsonCallReader::ReleaseHeld(AnswerEvents* events) {
  std::string json;
  for (const char c : std::exchange(held_, {})) mender_.Add(c, &json);
  TakeJson(json, events);
}

void JsonCallReader::Close(AnswerEvents* events) {
  std::string json;
  mender_.Finish(&json);
  TakeJson(json, events);
  at_ = At::kEnd;
}

void JsonCallReader::Finish(AnswerEvents* events) {
  if (!has_begun_ || at_ == At::kEnd) return;
  // A bracket by itself more likely belongs to the string than to the tag.
  if (held_.size() == 1) ReleaseHeld(events);
  Close(events);
}

bool JsonCallReader::Step(std::string_view* json, AnswerEvents* events) {
  const char c = json->front();
  const bool is_in_text = at_ == At::kKeyText || at_ == At::kValueText;
  if (!is_in_text && IsJsonSpace(c)) return Skip(json, at_);
  switch (at_) {
    case At::kObject:
      return c == '{' && Skip(json, At::kKey);
    case At::kKey:
      return (c == '}' && EndObject(json, events)) || BeginKey(c);
    case At::kKeyText:
      TakeText(json, events);
      return !reader_.is_done() || EndKey();
    case At::kColon:
      return c == ':' && Skip(json, At::kValue);
    case At::kValue:
      return BeginValue(c, events);
    case At::kValueText:
      TakeText(json, events);
      return !reader_.is_done() || EndValue(events);
    case At::kNext:
      return c == ',' ? Skip(json, At::kKey) : c == '}' && EndObject(json, events);
    case At::kEnd:
      break;
  }
  return false;
}

bool JsonCallReader::Skip(std::string_view* json, At next) {
  json->remove_prefix(1);
  at_ = next;
  return true;
}

void JsonCallReader::TakeText(std::string_view* json, AnswerEvents* events) {
  std::string streamed;
  json->remove_prefix(reader_.Take(*json, is_streamed_ ? &streamed : &value_));
  if (is_streamed_) events->AddArguments(streamed);
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
  arguments_ = value_;
  // Some models write the JSON of the arguments as OpenAI's clients get it, within a string.
  if (std::string text; DecodeJsonString(value_, &text)) {
    arguments_ = text.empty() ? "{}" : ParameterToJson(text, kAnyJson & ~kJsonText);
  }
  if (arguments_ == "null") arguments_ = "{}";
  if (!name_.empty()) Begin(arguments_, events);
  return true;
}

bool JsonCallReader::EndObject(std::string_view* json, AnswerEvents* events) {
  const bool has_sense = has_begun_ || (!name_.empty() && functions_ == nullptr);
  if (!has_sense) return false;
  Skip(json, At::kEnd);
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
