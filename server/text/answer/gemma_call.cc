#include "server/text/answer/gemma_call.h"

#include "absl/strings/ascii.h"

namespace quire {

namespace {

constexpr std::string_view kPrefix = "call";  // with a colon

}  // namespace

GemmaCallReader::GemmaCallReader(std::string tag)
    : CallReader(std::move(tag)),
      tags_({std::string(kQuote), std::string(kBeginTag), std::string(kEndTag)}) {}

CallReader::State GemmaCallReader::Take(std::string_view* text, AnswerEvents* events) {
  while (!text->empty() && !has_begun_) {
    const char c = text->front();
    if (c == '{' && !name_.empty()) {
      raw_.clear();
      events->BeginCall(name_);
      has_begun_ = true;
    } else if (TakeHead(c)) {
      text->remove_prefix(1);
    } else {
      return State::kBroken;
    }
  }
  std::string json;
  bool goes_on = true;
  while (!text->empty() && goes_on) goes_on = TakeArguments(text, &json);
  events->AddArguments(json);
  return goes_on ? State::kReading : State::kDone;
}

bool GemmaCallReader::TakeHead(char c) {
  if (IsJsonSpace(c)) {
    name_ends_ = !name_.empty();
  } else if (c == ':' && name_ == kPrefix) {
    name_.clear();
    name_ends_ = false;
  } else {
    const bool is_of_name = absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.';
    if (!is_of_name || name_ends_ || name_.size() == kMaxFunctionNameBytes) return false;
    name_.push_back(c);
  }
  raw_.push_back(c);
  return true;
}

// Takes one character; false where the arguments have ended. Then this character, and the text that
// was held back before it, may belong to the text that follows.
bool GemmaCallReader::TakeArguments(std::string_view* text, std::string* json) {
  std::string_view next = text->substr(0, 1);
  text->remove_prefix(1);
  std::string before;
  const std::optional<size_t> tag = tags_.Find(&next, &before);
  for (size_t i = 0; i < before.size(); ++i) {
    const bool is_taken = Add(before[i], json);
    if (is_taken && !arguments_.is_done()) continue;
    mark_ = before.substr(is_taken ? i + 1 : i) +
            (tag.has_value() ? tags_.tag(*tag) : tags_.TakeHeld());
    return false;
  }
  if (!tag.has_value() || AddTag(tags_.tag(*tag), json)) return true;
  arguments_.Finish(json);
  mark_ = tags_.tag(*tag);
  return false;
}

bool GemmaCallReader::AddTag(std::string_view tag, std::string* json) {
  if (tag == kQuote) return AddQuote(json);
  if (tag != kBeginTag || !is_in_text_) return false;
  for (const char c : tag) AddToText(c, json);
  return true;
}

bool GemmaCallReader::AddQuote(std::string* json) {
  if (is_in_text_) {
    is_in_text_ = false;
    is_after_text_ = !is_key_;
    return arguments_.Add('"', json);
  }
  if (is_in_key_ && !AddToKey(':', json)) return false;
  if (is_after_text_ && !AddAfterText('"', json)) return false;
  is_in_text_ = true;
  is_key_ = arguments_.is_before_key();
  return arguments_.Add('"', json);
}

bool GemmaCallReader::Add(char c, std::string* json) {
  constexpr std::string_view kNoKey = "\"',:={}[]()";
  if (is_in_text_) return AddToText(c, json);
  if (is_in_key_) return AddToKey(c, json);
  if (is_after_text_) {
    if (IsJsonSpace(c)) return true;
    if (!AddAfterText(c, json)) return false;
  }
  is_in_key_ =
      arguments_.is_before_key() && !IsJsonSpace(c) && kNoKey.find(c) == std::string_view::npos;
  if (!is_in_key_) return arguments_.Add(c, json);
  return arguments_.Add('"', json) && AddToText(c, json);
}

bool GemmaCallReader::AddToKey(char c, std::string* json) {
  constexpr std::string_view kEnd = ":=,}]";
  if (IsJsonSpace(c)) {
    spaces_.push_back(c);
    return true;
  }
  const std::string spaces = std::exchange(spaces_, {});
  is_in_key_ = kEnd.find(c) == std::string_view::npos;
  if (!is_in_key_) return arguments_.Add('"', json) && arguments_.Add(c, json);
  for (const char space : spaces) AddToText(space, json);
  return AddToText(c, json);
}

bool GemmaCallReader::AddToText(char c, std::string* json) {
  const bool is_mark = c == '"' || c == '\\';
  return (!is_mark || arguments_.Add('\\', json)) && arguments_.Add(c, json);
}

// The text has ended, whatever comes.
bool GemmaCallReader::AddAfterText(char c, std::string* json) {
  is_after_text_ = false;
  return c == ',' || c == '}' || c == ']' || arguments_.Add(',', json);
}

void GemmaCallReader::Finish(AnswerEvents* events) {
  if (!has_begun_) return;
  std::string json;
  // More of a tag than its first character is more likely that than the text's.
  const std::string held = tags_.TakeHeld();
  if (is_in_text_ && held.size() == 1) AddToText(held.front(), &json);
  arguments_.Finish(&json);
  events->AddArguments(json);
}

}  // namespace quire
