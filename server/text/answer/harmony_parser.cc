#include "server/text/answer/harmony_parser.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace quire {

namespace {

constexpr std::string_view kAnalysis = "analysis";

// The tags that end a message within its text: an end tag, or the beginning of a next message when
// the end tag is missing.
std::vector<std::string> BodyTags() {
  const std::string next(harmony::kNextMessage);
  return {std::string(harmony::kEnd), std::string(harmony::kCall), std::string(harmony::kReturn),
          absl::StrCat(next, std::string(harmony::kChannel)), next + " to="};
}
constexpr size_t kNumEndTags = 3;  // of those

}  // namespace

HarmonyParser::HarmonyParser(const Options& options, const ToolFunctions& functions)
    : options_(options), functions_(functions), tags_(BodyTags()) {
  if (!options.in_reasoning) return;
  at_ = At::kBody;
  if (options.finds_reasoning) kind_ = AnswerEvent::Kind::kReasoning;
}

void HarmonyParser::Append(std::string_view text, AnswerEvents* events) {
  while (!text.empty()) {
    switch (at_) {
      case At::kHeader:
        TakeHeader(&text, events);
        break;
      case At::kBody:
        TakeBody(&text, events);
        break;
      case At::kEnd:
        TakeEnd(&text, events);
        break;
    }
  }
}

void HarmonyParser::BeginHeader() {
  header_ = HarmonyHeader(/*follows_start=*/true);
  at_ = At::kHeader;
}

void HarmonyParser::TakeHeader(std::string_view* text, AnswerEvents* events) {
  const HarmonyHeader::State state = header_.Take(text->front());
  text->remove_prefix(1);
  if (state == HarmonyHeader::State::kReading) return;
  BeginBody();
  if (state == HarmonyHeader::State::kEmpty) at_ = At::kEnd;
  const std::string rest = header_.rest();
  Append(rest, events);
}

void HarmonyParser::BeginBody() {
  at_ = At::kBody;
  const bool is_reasoning = header_.channel() == kAnalysis && options_.finds_reasoning;
  kind_ = is_reasoning ? AnswerEvent::Kind::kReasoning : AnswerEvent::Kind::kContent;
  begins_text_ = true;
  if (options_.finds_calls) function_ = FunctionOf(header_.recipient());
  body_ = function_.empty() ? Body::kText : Body::kBeforeArguments;
}

std::string HarmonyParser::FunctionOf(const std::string& recipient) const {
  const bool is_of_functions = recipient.starts_with(harmony::kFunctions);
  if (!is_of_functions && !functions_.contains(recipient)) return "";
  const std::string name = recipient.substr(is_of_functions ? harmony::kFunctions.size() : 0);
  return name.size() > kMaxFunctionNameBytes ? "" : name;
}

void HarmonyParser::TakeBody(std::string_view* text, AnswerEvents* events) {
  std::string before;
  const std::optional<size_t> tag = tags_.Find(text, &before);
  AddBody(before, events);
  if (!tag.has_value()) return;
  const std::string& found = tags_.tag(*tag);
  if (*tag < kNumEndTags) {
    end_ = found;
    at_ = At::kEnd;
    return;
  }
  EndMessage(events);
  BeginHeader();
  Append(std::string_view(found).substr(harmony::kNextMessage.size()), events);
}

// If neither a message nor the answer's end follows, the text only spells the tag.
void HarmonyParser::TakeEnd(std::string_view* text, AnswerEvents* events) {
  const char c = text->front();
  text->remove_prefix(1);
  if (next_.empty() && IsJsonSpace(c)) {
    end_.push_back(c);
    return;
  }
  next_.push_back(c);
  if (next_ == harmony::kNextMessage) {
    next_.clear();
    EndMessage(events);
    BeginHeader();
  } else if (!harmony::kNextMessage.starts_with(next_)) {
    at_ = At::kBody;
    AddBody(std::exchange(end_, {}), events);
    const std::string next = std::exchange(next_, {});
    Append(next, events);
  }
}

void HarmonyParser::AddBody(std::string_view text, AnswerEvents* events) {
  if (body_ == Body::kBeforeArguments) TakeSpaces(&text, events);
  if (body_ == Body::kArguments) TakeArguments(&text, events);
  AddText(text, events);
}

// Takes white space before the arguments. Text that does not begin like arguments stays text.
void HarmonyParser::TakeSpaces(std::string_view* text, AnswerEvents* events) {
  while (!text->empty() && IsJsonSpace(text->front())) {
    spaces_.push_back(text->front());
    text->remove_prefix(1);
  }
  if (text->empty()) return;
  if (text->front() == '{') {
    BeginCall(events);
  } else {
    body_ = Body::kText;
    AddText(std::exchange(spaces_, {}), events);
  }
}

void HarmonyParser::BeginCall(AnswerEvents* events) {
  events->BeginCall(function_);
  last_kind_.reset();
  spaces_.clear();
  body_ = Body::kArguments;
}

void HarmonyParser::TakeArguments(std::string_view* text, AnswerEvents* events) {
  std::string json;
  while (!text->empty() && !arguments_.is_done() && arguments_.Add(text->front(), &json)) {
    text->remove_prefix(1);
  }
  events->AddArguments(json);
  if (arguments_.is_done()) body_ = Body::kText;
}

void HarmonyParser::AddText(std::string_view text, AnswerEvents* events) {
  if (text.empty()) return;
  if (begins_text_ && last_kind_ == kind_) events->AddText(kind_, "\n");
  begins_text_ = false;
  last_kind_ = kind_;
  events->AddText(kind_, text);
}

// A message for a function is a call, whatever it says.
void HarmonyParser::EndMessage(AnswerEvents* events) {
  if (body_ == Body::kBeforeArguments) {
    BeginCall(events);
    events->AddArguments("{}");
  } else if (body_ == Body::kArguments) {
    std::string json;
    arguments_.Finish(&json);
    events->AddArguments(json);
  }
  events->EndText();
  body_ = Body::kText;
  function_.clear();
  arguments_ = JsonMender();
  end_.clear();
}

void HarmonyParser::Finish(AnswerEvents* events) {
  if (at_ == At::kHeader) {
    header_.Finish();
    BeginBody();
    body_ = Body::kText;
    AddText(header_.rest(), events);
  } else if (at_ == At::kBody) {
    AddBody(tags_.TakeHeld(), events);
  }
  EndMessage(events);
}

}  // namespace quire
