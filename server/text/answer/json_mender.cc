#include "server/text/answer/json_mender.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/text/answer/call_reader.h"

namespace quire {

namespace {

// Python's json module gives up at some 1000.
constexpr size_t kMaxLevels = 128;

bool IsQuote(char c) { return c == '"' || c == '\''; }

bool OpensList(char c) { return c == '[' || c == '('; }

bool IsJsonNumber(std::string_view text) {
  const auto skip_digits = [&text] {
    size_t num = 0;
    while (num < text.size() && absl::ascii_isdigit(text[num])) ++num;
    text.remove_prefix(num);
    return num > 0;
  };
  if (text.starts_with('-')) text.remove_prefix(1);
  const bool is_zero = text.starts_with('0');
  if (is_zero) text.remove_prefix(1);
  if (!is_zero && !skip_digits()) return false;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    if (!skip_digits()) return false;
  }
  if (text.starts_with('e') || text.starts_with('E')) {
    text.remove_prefix(1);
    if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
    if (!skip_digits()) return false;
  }
  return text.empty();
}

// +5, 007, .5 and 5. as JSON has them.
std::string MendedNumber(std::string_view text) {
  std::string number = text.starts_with('-') ? "-" : "";
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  while (text.size() > 1 && text[0] == '0' && absl::ascii_isdigit(text[1])) text.remove_prefix(1);
  if (text.starts_with('.')) number.push_back('0');
  absl::StrAppend(&number, absl::string_view(text.data(), text.size()));
  if (number.ends_with('.')) number.push_back('0');
  return number;
}

// What a word is that the answer's end has cut off.
std::string CutWordToJson(std::string_view word) {
  std::string lower = absl::AsciiStrToLower(std::string(word));
  for (const auto& [whole, value] : {std::pair("true", "true"), std::pair("false", "false"),
                                     std::pair("null", "null"), std::pair("none", "null")}) {
    if (absl::StartsWith(whole, lower)) return value;
  }
  constexpr std::string_view kNoEnd = ".eE+-";
  std::string_view rest = word;
  while (!rest.empty() && kNoEnd.find(rest.back()) != std::string_view::npos) rest.remove_suffix(1);
  return IsJsonNumber(rest) ? std::string(rest) : WordToJson(word);
}

}  // namespace

std::string EscapedForJson(std::string_view text) {
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

std::string WordToJson(std::string_view word) {
  if (IsJsonNumber(word)) return std::string(word);
  std::string lower = absl::AsciiStrToLower(std::string(word));
  if (lower == "true" || lower == "false") return lower;
  for (const char* nothing : {"null", "none", "nil", "undefined", "nan", "inf", "infinity"}) {
    if (lower == nothing || lower == absl::StrCat("-", nothing)) return "null";
  }
  std::string number = MendedNumber(word);
  if (IsJsonNumber(number)) return number;
  return absl::StrCat("\"", EscapedForJson(word), "\"");
}

bool MendJson(std::string_view text, std::string* json) {
  JsonMender mender;
  size_t i = 0;
  while (i < text.size() && IsJsonSpace(text[i])) ++i;
  while (i < text.size() && !mender.is_done()) {
    if (!mender.Add(text[i], json)) return false;
    ++i;
  }
  if (json->empty()) return false;
  mender.Finish(json);
  return std::all_of(text.begin() + static_cast<ptrdiff_t>(i), text.end(), IsJsonSpace);
}

bool JsonMender::Add(char c, std::string* json) {
  if (is_done_) return false;
  switch (at_) {
    case At::kStart:
      return c == '{' || c == '[' ? Open(c, json) : End(json);
    case At::kKey:
    case At::kBareKey:
      return AddToKey(c, json);
    case At::kString:
      return AddToString(c, json);
    case At::kQuote:
      return AddAfterQuote(c, json);
    case At::kColon:
      return AddToColon(c, json);
    case At::kValue:
      return AddToValue(c, json);
    case At::kWord:
      return AddToWord(c, json);
    case At::kNext:
      break;
  }
  return AddToNext(c, json);
}

void JsonMender::Finish(std::string* json) {
  if (is_done_) return;
  is_done_ = true;
  if (at_ == At::kWord) {
    BeginValue(json);
    while (IsJsonSpace(word_.back())) word_.pop_back();
    json->append(CutWordToJson(word_));
  } else if (at_ == At::kValue && levels_.back().is_object()) {
    json->append(" null");
  } else if ((at_ == At::kString || at_ == At::kQuote) && !is_key_) {
    json->push_back('"');
  }
  while (!levels_.empty()) CloseLevel(json);
}

bool JsonMender::End(std::string* json) {
  Finish(json);
  return false;
}

bool JsonMender::IsCloser(char c) const {
  return c == '}' || c == ']' || (c == ')' && levels_.back().opened_by == '(');
}

bool JsonMender::AddToKey(char c, std::string* json) {
  if (at_ == At::kBareKey) {
    if (absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.' || c == '$') {
      key_.push_back(c);
      return true;
    }
    key_.push_back('"');
    at_ = At::kColon;
    return Add(c, json);
  }
  if (IsJsonSpace(c)) {
    pending_.push_back(c);
  } else if (c == ',') {
    AddComma();
  } else if (IsQuote(c)) {
    BeginString(c, /*is_key=*/true);
    is_bare_ = false;
  } else if (absl::ascii_isalpha(c) || c == '_' || c == '$') {
    key_ = absl::StrCat("\"", std::string(1, c));
    is_bare_ = true;
    at_ = At::kBareKey;
  } else {
    return IsCloser(c) ? Close(c, json) : End(json);
  }
  return true;
}

bool JsonMender::AddToString(char c, std::string* json) {
  std::string* const out = Target(json);
  if (!escape_.empty()) {
    AddToEscape(c, json);
  } else if (c == '\\') {
    escape_ = c;
  } else if (c == quote_) {
    at_ = At::kQuote;
  } else if (static_cast<unsigned char>(c) < 0x20) {
    absl::StrAppendFormat(out, "\\u%04x", static_cast<unsigned char>(c));
  } else {
    if (c == '"') out->push_back('\\');
    out->push_back(c);
  }
  return true;
}

void JsonMender::AddToEscape(char c, std::string* json) {
  std::string* const out = Target(json);
  constexpr size_t kWholeSize = 6;  // of a backslash, u and four digits
  constexpr std::string_view kKnown = "\"\\/bfnrt";
  const bool is_first = escape_.size() == 1;
  if (is_first ? c == 'u' : absl::ascii_isxdigit(c)) {
    escape_.push_back(c);
    if (escape_.size() == kWholeSize) {
      out->append(escape_);
      escape_.clear();
    }
  } else if (is_first && kKnown.find(c) != std::string_view::npos) {
    absl::StrAppend(out, escape_, std::string(1, c));
    escape_.clear();
  } else if (is_first && c == '\'') {
    out->push_back(c);
    escape_.clear();
  } else {
    absl::StrAppend(out, "\\", escape_);
    escape_.clear();
    AddToString(c, json);
  }
}

// A quote ends a string where JSON may go on after it; else it is one within the string that has no
// backslash.
bool JsonMender::AddAfterQuote(char c, std::string* json) {
  if (IsJsonSpace(c)) {
    spaces_.push_back(c);
    return true;
  }
  const std::string spaces = std::exchange(spaces_, {});
  const bool ends = c == ',' || c == ':' || c == '<' || IsCloser(c) || (is_key_ && c == '=') ||
                    (IsQuote(c) && !spaces.empty());
  if (ends) {
    Target(json)->push_back('"');
    (is_key_ ? key_ : pending_).append(spaces);
    at_ = is_key_ ? At::kColon : At::kNext;
    return Add(c, json);
  }
  Target(json)->append(quote_ == '"' ? "\\\"" : "'");
  at_ = At::kString;
  for (const char space : spaces) AddToString(space, json);
  return AddToString(c, json);
}

bool JsonMender::AddToColon(char c, std::string* json) {
  const bool is_colon = c == ':' || c == '=';
  const bool begins_value =
      IsQuote(c) || c == '{' || c == '[' || c == '-' || absl::ascii_isdigit(c);
  if (IsJsonSpace(c)) {
    key_.push_back(c);
    return true;
  }
  if (!is_colon && is_bare_) return End(json);
  if (is_colon || begins_value) {
    BeginMember(json);
    at_ = At::kValue;
    return is_colon || Add(c, json);
  }
  if (c != ',' && !IsCloser(c)) return End(json);
  BeginMember(json);
  json->append(" null");
  at_ = At::kNext;
  return Add(c, json);
}

bool JsonMender::AddToValue(char c, std::string* json) {
  const bool is_member = levels_.back().is_object();
  if (IsJsonSpace(c)) {
    pending_.push_back(c);
  } else if (c == '{' || OpensList(c)) {
    return Open(c, json);
  } else if (IsQuote(c)) {
    BeginValue(json);
    json->push_back('"');
    BeginString(c, /*is_key=*/false);
  } else if (c == ',' && !is_member) {
    AddComma();
  } else if (c == '<') {
    return End(json);
  } else if (c == ',' || IsCloser(c)) {
    if (!is_member) return Close(c, json);
    BeginValue(json);
    json->append("null");
    at_ = At::kNext;
    return Add(c, json);
  } else {
    word_ = c;
    at_ = At::kWord;
  }
  return true;
}

bool JsonMender::AddToWord(char c, std::string* json) {
  const bool is_quote_after_word = IsQuote(c) && IsJsonSpace(word_.back());
  const bool ends = c == ',' || c == '\n' || c == '<' || IsCloser(c) || is_quote_after_word;
  if (!ends) {
    word_.push_back(c);
    return true;
  }
  EndWord(json);
  return Add(c, json);
}

void JsonMender::EndWord(std::string* json) {
  BeginValue(json);
  size_t end = word_.size();
  while (IsJsonSpace(word_[end - 1])) --end;
  json->append(WordToJson(std::string_view(word_).substr(0, end)));
  pending_ = word_.substr(end);
  at_ = At::kNext;
}

bool JsonMender::AddToNext(char c, std::string* json) {
  const bool is_object = levels_.back().is_object();
  if (IsJsonSpace(c)) {
    pending_.push_back(c);
    return true;
  }
  if (IsCloser(c)) return Close(c, json);
  const bool begins_item = IsQuote(c) || (!is_object && (c == '{' || c == '['));
  if (c != ',' && !begins_item) return End(json);
  at_ = is_object ? At::kKey : At::kValue;
  return Add(c, json);
}

bool JsonMender::Open(char c, std::string* json) {
  if (levels_.size() == kMaxLevels) return End(json);
  if (!levels_.empty()) BeginValue(json);
  levels_.push_back({c});
  json->push_back(c == '{' ? '{' : '[');
  at_ = c == '{' ? At::kKey : At::kValue;
  return true;
}

// Closes what is open within, too.
bool JsonMender::Close(char c, std::string* json) {
  const bool is_object = c == '}';
  const auto fits = [is_object](const Level& level) { return level.is_object() == is_object; };
  if (std::none_of(levels_.begin(), levels_.end(), fits)) return End(json);
  for (const char space : std::exchange(pending_, {})) {
    if (space != ',') json->push_back(space);
  }
  has_comma_ = false;
  while (!fits(levels_.back())) CloseLevel(json);
  CloseLevel(json);
  is_done_ = levels_.empty();
  at_ = At::kNext;
  return true;
}

void JsonMender::CloseLevel(std::string* json) {
  json->push_back(levels_.back().is_object() ? '}' : ']');
  levels_.pop_back();
}

void JsonMender::BeginString(char quote, bool is_key) {
  quote_ = quote;
  is_key_ = is_key;
  if (is_key) key_ = '"';
  at_ = At::kString;
}

void JsonMender::AddComma() {
  if (has_comma_ || !levels_.back().has_items) return;
  pending_.push_back(',');
  has_comma_ = true;
}

void JsonMender::BeginItem(std::string* json) {
  if (levels_.back().has_items && !has_comma_) json->push_back(',');
  levels_.back().has_items = true;
  has_comma_ = false;
  json->append(std::exchange(pending_, {}));
}

void JsonMender::BeginMember(std::string* json) {
  BeginItem(json);
  absl::StrAppend(json, key_, ":");
}

void JsonMender::BeginValue(std::string* json) {
  if (levels_.back().is_object()) {
    json->append(std::exchange(pending_, {}));
  } else {
    BeginItem(json);
  }
}

}  // namespace quire
