#include "server/surfaces/openai/openai_json.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/text/json_text.h"
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

std::string SpellId(TokenId id) { return absl::StrCat("token_id:", id); }

// Spells an AnswerToken or a TopToken.
template <typename Token>
std::string Spell(const Token& token, bool as_id) {
  return as_id ? SpellId(token.id) : SpellBytes(token.bytes);
}
float LogprobOf(const TopToken& token) { return token.logprob; }
float LogprobOf(const AnswerToken& token) { return token.logprob.value_or(0); }

template <typename Token>
std::string TokenJson(const Token& token, bool as_id) {
  return absl::StrCat("\"token\": ", JsonString(Spell(token, as_id)),
                      ", \"logprob\": ", Number(LogprobOf(token)),
                      ", \"bytes\": ", BytesJson(token.bytes));
}

template <typename Token>
std::string RankedJson(const Token& token, size_t rank) {
  return absl::StrCat("\"", token.id, "\": {\"logprob\": ", Number(LogprobOf(token)),
                      ", \"rank\": ", rank,
                      ", \"decoded_token\": ", JsonString(SpellBytes(token.bytes)), "}");
}

// As OpenAI's, the token that was taken is among the likely ones, if need be as one more. A name
// comes once in an object: of tokens that are spelled alike the likeliest has the spelling, the
// others their ids.
std::string TopOfCompletion(const AnswerToken& token, bool as_ids) {
  std::string members;
  absl::flat_hash_set<std::string> names;
  const auto add = [&](const auto& one) {
    std::string name = Spell(one, as_ids);
    if (!names.insert(name).second) name = SpellId(one.id);
    AppendItem(absl::StrCat(JsonString(name), ": ", Number(LogprobOf(one))), &members);
  };
  bool has_own = false;
  for (const TopToken& one : token.top) {  // likeliest first
    add(one);
    has_own |= one.id == token.id;
  }
  if (!has_own) add(token);
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

void LogprobJson::Add(const std::vector<AnswerToken>& tokens, const LogprobStyle& style) {
  for (const AnswerToken& token : tokens) {
    if (style.is_chat) {
      AddOfChat(token, style.as_ids);
    } else {
      AddOfCompletion(token, style.as_ids);
      offsets_.push_back(style.first_offset + token.text_offset);
    }
  }
}

void LogprobJson::AddOfChat(const AnswerToken& token, bool as_ids) {
  std::string top;
  for (const TopToken& one : token.top) {
    AppendItem(absl::StrCat("{", TokenJson(one, as_ids), "}"), &top);
  }
  AppendItem(absl::StrCat("{", TokenJson(token, as_ids), ", \"top_logprobs\": [", top, "]}"),
             &content_);
}

void LogprobJson::AddOfCompletion(const AnswerToken& token, bool as_ids) {
  AppendItem(JsonString(Spell(token, as_ids)), &tokens_);
  if (!token.logprob.has_value()) {  // the first token of a prompt
    AppendItem("null", &values_);
    AppendItem("null", &top_);
    return;
  }
  AppendItem(Number(*token.logprob), &values_);
  AppendItem(TopOfCompletion(token, as_ids), &top_);
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

std::string PromptLogprobsJson(const std::vector<AnswerToken>& tokens) {
  std::string list;
  for (const AnswerToken& token : tokens) {
    if (!token.logprob.has_value()) {
      AppendItem("null", &list);
      continue;
    }
    std::string ranked = RankedJson(token, token.rank);
    for (size_t i = 0; i < token.top.size(); ++i) {
      if (token.top[i].id == token.id) continue;
      AppendItem(RankedJson(token.top[i], i + 1), &ranked);
    }
    AppendItem(absl::StrCat("{", ranked, "}"), &list);
  }
  return absl::StrCat("[", list, "]");
}

std::string TokenIdsJson(const std::vector<TokenId>& ids) {
  return absl::StrCat("[", absl::StrJoin(ids, ", "), "]");
}

std::string UsageJson(int64_t prompt_tokens, int64_t cached_tokens, int64_t completion_tokens) {
  return absl::StrCat("{\"prompt_tokens\": ", prompt_tokens,
                      ", \"completion_tokens\": ", completion_tokens,
                      ", \"total_tokens\": ", prompt_tokens + completion_tokens,
                      ", \"prompt_tokens_details\": {\"cached_tokens\": ", cached_tokens, "}}");
}

std::string StopReasonJson(const Finished& finished) {
  if (const auto* text = std::get_if<std::string>(&finished.matched)) return JsonString(*text);
  if (const auto* token = std::get_if<TokenId>(&finished.matched)) return absl::StrCat(*token);
  return "null";
}

}  // namespace quire
