#include "server/openai/openai_json.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
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
std::string Spell(const Logprob& logprob, bool as_id) {
  return JsonString(as_id ? absl::StrCat("token_id:", logprob.token_id()) : logprob.token());
}

template <typename Logprob>
std::string TokenJson(const Logprob& logprob, bool as_id) {
  return absl::StrCat("\"token\": ", Spell(logprob, as_id),
                      ", \"logprob\": ", Number(logprob.logprob()),
                      ", \"bytes\": ", BytesJson(logprob.token()));
}

template <typename Logprob>
std::string RankedJson(const Logprob& logprob, int rank) {
  return absl::StrCat("\"", logprob.token_id(), "\": {\"logprob\": ", Number(logprob.logprob()),
                      ", \"rank\": ", rank, ", \"decoded_token\": ", JsonString(logprob.token()),
                      "}");
}

}  // namespace

void LogprobJson::Add(const Logprobs& logprobs, const LogprobStyle& style, size_t* offset) {
  for (const v1::TokenLogprob& logprob : logprobs) {
    if (style.is_chat) {
      AddOfChat(logprob, style.as_ids);
    } else {
      AddOfCompletion(logprob, style.as_ids, *offset);
    }
    *offset += CountCharacters(logprob.token());
  }
}

void LogprobJson::AddOfChat(const v1::TokenLogprob& logprob, bool as_ids) {
  std::string top;
  for (const v1::TopLogprob& one : logprob.top()) {
    AppendItem(absl::StrCat("{", TokenJson(one, as_ids), "}"), &top);
  }
  AppendItem(absl::StrCat("{", TokenJson(logprob, as_ids), ", \"top_logprobs\": [", top, "]}"),
             &content_);
}

void LogprobJson::AddOfCompletion(const v1::TokenLogprob& logprob, bool as_ids, size_t offset) {
  AppendItem(Spell(logprob, as_ids), &tokens_);
  AppendItem(absl::StrCat(offset), &offsets_);
  if (!logprob.has_logprob()) {  // the first token of a prompt
    AppendItem("null", &values_);
    AppendItem("null", &top_);
    return;
  }
  AppendItem(Number(logprob.logprob()), &values_);
  std::string top;
  for (const v1::TopLogprob& one : logprob.top()) {
    AppendItem(absl::StrCat(Spell(one, as_ids), ": ", Number(one.logprob())), &top);
  }
  if (top.empty()) {
    top = absl::StrCat(Spell(logprob, as_ids), ": ", Number(logprob.logprob()));
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
  if (is_chat) return absl::StrCat("{\"content\": ", ContentList(), ", \"refusal\": null}");
  return absl::StrCat("{\"tokens\": [", tokens_, "], \"token_logprobs\": [", values_,
                      "], \"top_logprobs\": [", top_, "], \"text_offset\": [", offsets_, "]}");
}

std::string LogprobJson::ContentList() const { return absl::StrCat("[", content_, "]"); }

std::string PromptLogprobsJson(const LogprobJson::Logprobs& logprobs) {
  std::string list;
  for (const v1::TokenLogprob& logprob : logprobs) {
    if (!logprob.has_logprob()) {
      AppendItem("null", &list);
      continue;
    }
    std::string ranked = RankedJson(logprob, logprob.rank());
    for (int i = 0; i < logprob.top_size(); ++i) {
      if (logprob.top(i).token_id() == logprob.token_id()) continue;
      AppendItem(RankedJson(logprob.top(i), i + 1), &ranked);
    }
    AppendItem(absl::StrCat("{", ranked, "}"), &list);
  }
  return absl::StrCat("[", list, "]");
}

std::string TokenIdsJson(const google::protobuf::RepeatedField<uint32_t>& ids) {
  return absl::StrCat("[", absl::StrJoin(ids, ", "), "]");
}

std::string UsageJson(int64_t prompt_tokens, int64_t cached_tokens, int64_t completion_tokens) {
  return absl::StrCat("{\"prompt_tokens\": ", prompt_tokens,
                      ", \"completion_tokens\": ", completion_tokens,
                      ", \"total_tokens\": ", prompt_tokens + completion_tokens,
                      ", \"prompt_tokens_details\": {\"cached_tokens\": ", cached_tokens, "}}");
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

size_t JsonBytes(const v1::GenerateResponse& response) {
  constexpr size_t kLogprobBytes = 64, kIdBytes = 6;
  const auto of_logprobs = [](const auto& logprobs) {
    size_t num = 0;
    for (const v1::TokenLogprob& logprob : logprobs) {
      num += 1 + static_cast<size_t>(logprob.top_size());
    }
    return num * kLogprobBytes;
  };
  const v1::Delta& delta = response.delta();
  return delta.text().size() + static_cast<size_t>(delta.token_ids_size()) * kIdBytes +
         of_logprobs(delta.logprobs()) + of_logprobs(response.started().prompt_logprobs());
}

}  // namespace quire
