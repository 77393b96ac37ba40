#include "server/text/answer/tool_call_parser.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "server/text/answer/gemma_call.h"
#include "server/text/answer/json_call.h"
#include "server/text/answer/named_call.h"
#include "server/text/answer/parameter_call.h"

namespace quire {

namespace {

// A Llama announces no call, so each object may be one.
constexpr char kObjectTag[] = "{";

std::vector<std::string> AllTags(ToolFormat format) {
  CallTags tags = TagsOf(format);
  if (!tags.end.empty()) tags.begin.push_back(tags.end);
  if (format == ToolFormat::kLlama3Json) tags.begin.emplace_back(kObjectTag);
  return tags.begin;
}

}  // namespace

// A Llama's answer may begin with a list of calls.
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
    case At::kObject:
      return TakeObject(text, events);
  }
}

void ToolCallParser::TakeText(std::string_view* text, AnswerEvents* events) {
  std::string before;
  const std::optional<size_t> tag = tags_.Find(text, &before);
  events->AddText(AnswerEvent::Kind::kContent, before);
  if (tag.has_value()) TakeTag(tags_.tag(*tag), events);
}

void ToolCallParser::TakeTag(const std::string& tag, AnswerEvents* events) {
  is_list_ = false;
  follows_ = false;
  has_fence_ = false;
  has_tag_ = tag != kObjectTag;
  if (!has_tag_) {
    call_ = OpenObject();
    at_ = At::kCall;
    std::string_view object = tag;
    TakeCall(&object, events);
  } else if (tag != end_tag_) {
    opening_ = tag;
    at_ = At::kOpening;
  } else if (std::exchange(awaits_end_, false)) {
    events->AddTag();
  } else {
    events->AddText(AnswerEvent::Kind::kContent, tag);
  }
}

void ToolCallParser::TakeOpening(std::string_view* text, AnswerEvents* events) {
  const char c = text->front();
  const bool takes_objects = format_ != ToolFormat::kQwen3Coder && format_ != ToolFormat::kGemma4;
  if (!fence_.empty() || (c == '`' && takes_objects && has_tag_ && !has_fence_)) {
    if (TakeFence(c, events)) text->remove_prefix(1);
    return;
  }
  const bool begins_list = c == '[' && takes_objects && !is_list_ && !follows_;
  if (IsJsonSpace(c) || begins_list) {
    is_list_ |= begins_list;
    opening_.push_back(c);
    text->remove_prefix(1);
    return;
  }
  call_ = Open(c);
  at_ = At::kCall;
  if (call_ == nullptr) return BackToText(events);
  opening_.clear();
}

// The line ```json. Returns whether the character was taken.
bool ToolCallParser::TakeFence(char c, AnswerEvents* events) {
  constexpr size_t kNumQuotes = 3;
  constexpr size_t kMaxBytes = 16;
  const bool has_quotes = fence_.size() >= kNumQuotes;
  if (has_quotes && (c == '\n' || c == '{' || c == '[')) {
    opening_.append(std::exchange(fence_, {}));
    has_fence_ = true;
    return false;
  }
  const bool is_of_fence =
      has_quotes ? (absl::ascii_isalnum(c) || c == ' ') && fence_.size() < kMaxBytes : c == '`';
  if (is_of_fence) {
    fence_.push_back(c);
  } else {
    BackToText(events);
  }
  return is_of_fence;
}

void ToolCallParser::BackToText(AnswerEvents* events) {
  at_ = At::kText;
  opening_.append(std::exchange(fence_, {}));
  events->AddText(AnswerEvent::Kind::kContent, std::exchange(opening_, {}));
}

std::unique_ptr<CallReader> ToolCallParser::OpenObject() {
  may_follow_ = true;
  const bool needs_check = format_ == ToolFormat::kLlama3Json && !has_tag_;
  return std::make_unique<JsonCallReader>(opening_, needs_check ? &functions_ : nullptr, end_tag_);
}

std::unique_ptr<CallReader> ToolCallParser::Open(char next) {
  may_follow_ = false;
  switch (format_) {
    case ToolFormat::kHermes:
      return OpenObject();
    case ToolFormat::kGemma4:
      return std::make_unique<GemmaCallReader>(opening_);
    case ToolFormat::kQwen3Coder:
      return std::make_unique<ParameterCallReader>(opening_, functions_);
    case ToolFormat::kLlama3Json:
      return next == '{' || has_tag_ ? OpenObject() : nullptr;
    case ToolFormat::kMistral:
      if (next == '{' || is_list_ || follows_) return OpenObject();
      return std::make_unique<NamedCallReader>(opening_);
    case ToolFormat::kHarmony:  // HarmonyParser's
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
  at_ = is_done && may_follow_ ? At::kNext : At::kText;
  if (!is_done) AddNoCall(call->TakeRaw(), events);
  Append(call->TakeRest(), events);  // no call by itself
}

void ToolCallParser::AddNoCall(const std::string& raw, AnswerEvents* events) {
  events->AddText(AnswerEvent::Kind::kContent, raw);
  if (format_ != ToolFormat::kLlama3Json) return;
  const auto num_opened = std::count(raw.begin(), raw.end(), '{');
  const auto num_closed = std::count(raw.begin(), raw.end(), '}');
  if (num_opened <= num_closed || raw.find("\n\n") != std::string::npos) return;
  num_open_ = static_cast<size_t>(num_opened - num_closed);
  num_line_breaks_ = 0;
  at_ = At::kObject;
}

// Text within an object that is no call is no call either, unless the object never ends.
void ToolCallParser::TakeObject(std::string_view* text, AnswerEvents* events) {
  size_t num_taken = 0;
  while (num_taken < text->size() && num_open_ > 0 && num_line_breaks_ < 2) {
    const char c = (*text)[num_taken++];
    if (c == '{') ++num_open_;
    if (c == '}') --num_open_;
    num_line_breaks_ = c == '\n' ? num_line_breaks_ + 1 : 0;
  }
  events->AddText(AnswerEvent::Kind::kContent, text->substr(0, num_taken));
  text->remove_prefix(num_taken);
  if (num_open_ == 0 || num_line_breaks_ == 2) at_ = At::kText;
}

void ToolCallParser::TakeNext(std::string_view* text, AnswerEvents* events) {
  const char c = text->front();
  if (!fence_.empty() || (c == '`' && has_fence_)) {
    if (c != '`') return BackToText(events);
    fence_.push_back(c);
    text->remove_prefix(1);
    if (fence_ != "```") return;
    fence_.clear();
    has_fence_ = false;
    return;
  }
  if (IsJsonSpace(c) || c == ',' || c == ';') {
    opening_.push_back(c);
    text->remove_prefix(1);
    return;
  }
  if (c == '{') {
    follows_ = true;
    has_tag_ = false;
    at_ = At::kOpening;
  } else if (c == ']' && is_list_) {
    is_list_ = false;
    opening_.clear();
    text->remove_prefix(1);
  } else {
    BackToText(events);
  }
}

void ToolCallParser::Finish(AnswerEvents* events) {
  std::string rest = opening_ + fence_ + tags_.TakeHeld();
  if (call_ != nullptr) {
    call_->Finish(events);
    rest = call_->TakeRaw() + call_->TakeRest();
  }
  if (!awaits_end_ || !IsOfTag(rest)) events->AddText(AnswerEvent::Kind::kContent, rest);
}

// Some models end a call with the tag that begins one; and an answer may end within the tag.
bool ToolCallParser::IsOfTag(std::string_view text) const {
  while (!text.empty() && IsJsonSpace(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsJsonSpace(text.back())) text.remove_suffix(1);
  const std::vector<std::string> begin = TagsOf(format_).begin;
  return std::find(begin.begin(), begin.end(), text) != begin.end() ||
         (text.size() > 1 && end_tag_.starts_with(text));
}

}  // namespace quire
