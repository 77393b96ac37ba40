#include "server/openai/openai_json.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/log/json_text.h"

namespace quire {

namespace {

// JSON has no infinity.
constexpr float kLeastLogprob = -9999.0f;

std::string Number(float logprob) {
  return absl::StrFormat("%.9g", std::max(logprob, kLeastLogprob));
}

void AppendItem(absl::string_view item, std::string* list) {
  absl::StrAppend(list, list->empty() ? "" : ", ", item);
}

std::string BytesJson(absl::string_view text) {
  std::string bytes;
  for (const char c : text) AppendItem(absl::StrCat(static_cast<unsigned char>(c)), &bytes);
  return absl::StrCat("[", bytes, "]");
}

template <typename Logprob>
std::string TokenJson(const Logprob& logprob) {
  return absl::StrCat("\"token\": ", JsonString(logprob.token()),
                      ", \"logprob\": ", Number(logprob.logprob()),
                      ", \"bytes\": ", BytesJson(logprob.token()));
}

}  // namespace

void LogprobJson::Add(const Logprobs& logprobs, bool is_chat, size_t* offset) {
  for (const v1::TokenLogprob& logprob : logprobs) {
    if (is_chat) {
      AddOfChat(logprob);
    } else {
      AddOfCompletion(logprob, *offset);
    }
    *offset += CountCharacters(logprob.token());
  }
}

void LogprobJson::AddOfChat(const v1::TokenLogprob& logprob) {
  std::string top;
  for (const v1::TopLogprob& one : logprob.top()) {
    AppendItem(absl::StrCat("{", TokenJson(one), "}"), &top);
  }
  AppendItem(absl::StrCat("{", TokenJson(logprob), ", \"top_logprobs\": [", top, "]}"), &content_);
}

void LogprobJson::AddOfCompletion(const v1::TokenLogprob& logprob, size_t offset) {
  AppendItem(JsonString(logprob.token()), &tokens_);
  AppendItem(absl::StrCat(offset), &offsets_);
  if (!logprob.has_logprob()) {  // the first token of a prompt
    AppendItem("null", &values_);
    AppendItem("null", &top_);
    return;
  }
  AppendItem(Number(logprob.logprob()), &values_);
  std::string top;
  for (const v1::TopLogprob& one : logprob.top()) {
    AppendItem(absl::StrCat(JsonString(one.token()), ": ", Number(one.logprob())), &top);
  }
  if (top.empty()) {
    top = absl::StrCat(JsonString(logprob.token()), ": ", Number(logprob.logprob()));
  }
  AppendItem(absl::StrCat("{", top, "}"), &top_);
}

void LogprobJson::Add(const LogprobJson& more) {
  for (std::string LogprobJson::*list :
       {&LogprobJson::content_, &LogprobJson::tokens_, &LogprobJson::values_, &LogprobJson::top_,
        &LogprobJson::offsets_}) {
    if (!(more.*list).empty()) AppendItem(more.*list, &(this->*list));
  }
}

std::string LogprobJson::ToText(bool is_chat) const {
  if (is_chat) return absl::StrCat("{\"content\": [", content_, "], \"refusal\": null}");
  return absl::StrCat("{\"tokens\": [", tokens_, "], \"token_logprobs\": [", values_,
                      "], \"top_logprobs\": [", top_, "], \"text_offset\": [", offsets_, "]}");
}

std::string UsageJson(int64_t prompt_tokens, int64_t cached_tokens, int64_t completion_tokens) {
  return absl::StrCat("{\"prompt_tokens\": ", prompt_tokens,
                      ", \"completion_tokens\": ", completion_tokens,
                      ", \"total_tokens\": ", prompt_tokens + completion_tokens,
                      ", \"prompt_tokens_details\": {\"cached_tokens\": ", cached_tokens, "}}");
}

absl::string_view FinishReasonJson(v1::FinishReason reason) {
  switch (reason) {
    case v1::FINISH_REASON_STOP:
      return "\"stop\"";
    case v1::FINISH_REASON_LENGTH:
      return "\"length\"";
    default:
      return "\"abort\"";
  }
}

std::string StopReasonJson(const v1::Finished& finished) {
  if (finished.matched_case() == v1::Finished::kMatchedStopString) {
    return JsonString(finished.matched_stop_string());
  }
  if (finished.matched_case() == v1::Finished::kMatchedTokenId) {
    return absl::StrCat(finished.matched_token_id());
  }
  return "null";
}

size_t CountCharacters(absl::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

}  // namespace quire
