#include "server/surfaces/openai/openai_json.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/observe/log/json_text.h"
#include "server/text/utf8.h"

namespace quire {

namespace {

// JSON has no infinity, nor what is no number.
constexpr float kLeastLogprob = -9999.0f;

std::string Number(float logprob) {
  return absl::StrFormat("%.9g", logprob >= kLeastLogprob ? logprob : kLeastLogprob);
}

void AppendItem(absl::string_view item, std::string* list) {
  absl::StrAppend(list, list->empty() ? "" : ", ", item);
}

std::string BytesJson(absl::string_view bytes) {
  std::string numbers;
  for (const char c : bytes) AppendItem(absl::StrCat(static_cast<unsigned char>(c)), &numbers);
  return absl::StrCat("[", numbers, "]");
}

std::string SpellId(uint32_t id) { return absl::StrCat("token_id:", id); }

template <typename Logprob>
std::string Spell(const Logprob& logprob, bool as_id) {
  return as_id ? SpellId(logprob.token_id()) : SpellBytes(logprob.token_bytes());
}

template <typename Logprob>
std::string TokenJson(const Logprob& logprob, bool as_id) {
  return absl::StrCat("\"token\": ", JsonString(Spell(logprob, as_id)),
                      ", \"logprob\": ", Number(logprob.logprob()),
                      ", \"bytes\": ", BytesJson(logprob.token_bytes()));
}

template <typename Logprob>
std::string RankedJson(const Logprob& logprob, int rank) {
  return absl::StrCat("\"", logprob.token_id(), "\": {\"logprob\": ", Number(logprob.logprob()),
                      ", \"rank\": ", rank,
                      ", \"decoded_token\": ", JsonString(SpellBytes(logprob.token_bytes())), "}");
}

// As OpenAI's, the token that was taken is among the likely ones, if need be as one more. A name
// comes once in an object: of tokens that are spelled alike the likeliest has the spelling, the
// others their ids.
std::string TopOfCompletion(const v1::TokenLogprob& logprob, bool as_ids) {
  std::string members;
  absl::flat_hash_set<std::string> names;
  const auto add = [&](const auto& one) {
    std::string name = Spell(one, as_ids);
    if (!names.insert(name).second) name = SpellId(one.token_id());
    AppendItem(absl::StrCat(JsonString(name), ": ", Number(one.logprob())), &members);
  };
  bool has_own = false;
  for (const v1::TopLogprob& one : logprob.top()) {  // likeliest first
    add(one);
    has_own |= one.token_id() == logprob.token_id();
  }
  if (!has_own) add(logprob);
  return absl::StrCat("{", members, "}");
}

}  // namespace

std::string SpellBytes(absl::string_view bytes) {
  std::string_view rest(bytes.data(), bytes.size());
  if (IsValidUtf8(rest)) return std::string(rest);
  std::string spelled = "bytes:";
  while (!rest.empty()) {
    const Utf8Prefix prefix = ClassifyUtf8Prefix(rest);
    const std::string_view part = rest.substr(0, prefix.num_bytes);
    if (prefix.kind == Utf8Start::kCharacter) {
      spelled += part;
    } else {
      for (const char c : part) {
        absl::StrAppendFormat(&spelled, "\\x%02x", static_cast<unsigned char>(c));
      }
    }
    rest.remove_prefix(prefix.num_bytes);
  }
  return spelled;
}

void LogprobJson::Add(const Logprobs& logprobs, const LogprobStyle& style) {
  for (const v1::TokenLogprob& logprob : logprobs) {
    if (style.is_chat) {
      AddOfChat(logprob, style.as_ids);
    } else {
      AddOfCompletion(logprob, style.as_ids);
      offsets_.push_back(style.first_offset + logprob.text_offset());
    }
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

void LogprobJson::AddOfCompletion(const v1::TokenLogprob& logprob, bool as_ids) {
  AppendItem(JsonString(Spell(logprob, as_ids)), &tokens_);
  if (!logprob.has_logprob()) {  // the first token of a prompt
    AppendItem("null", &values_);
    AppendItem("null", &top_);
    return;
  }
  AppendItem(Number(logprob.logprob()), &values_);
  AppendItem(TopOfCompletion(logprob, as_ids), &top_);
}

void LogprobJson::Add(const LogprobJson& more) {
  for (std::string LogprobJson::*list :
       {&LogprobJson::content_, &LogprobJson::tokens_, &LogprobJson::values_, &LogprobJson::top_}) {
    if (!(more.*list).empty()) AppendItem(more.*list, &(this->*list));
  }
  offsets_.insert(offsets_.end(), more.offsets_.begin(), more.offsets_.end());
}

void LogprobJson::EndOffsetsAt(int64_t num_characters) {
  for (int64_t& offset : offsets_) offset = std::min(offset, num_characters);
}

std::string LogprobJson::ToText(bool is_chat) const {
  if (is_chat) return absl::StrCat("{\"content\": ", ContentList(), ", \"refusal\": null}");
  return absl::StrCat("{\"tokens\": [", tokens_, "], \"token_logprobs\": [", values_,
                      "], \"top_logprobs\": [", top_, "], \"text_offset\": [",
                      absl::StrJoin(offsets_, ", "), "]}");
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
