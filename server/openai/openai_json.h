// The pieces of OpenAI's answers as JSON text. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "quire/v1/inference.pb.h"

namespace quire {

struct LogprobStyle {
  bool is_chat = false;
  bool as_ids = false;  // tokens as "token_id:12"
};

// The tokens of one continuation, or of a part of it.
class LogprobJson {
 public:
  using Logprobs = google::protobuf::RepeatedPtrField<v1::TokenLogprob>;

  // `*offset` is where the tokens' text begins, in characters; it moves on.
  void Add(const Logprobs& logprobs, const LogprobStyle& style, size_t* offset);
  void Add(const LogprobJson& more);
  std::string ToText(bool is_chat) const;
  // The list of a chat's, alone.
  std::string ContentList() const;

 private:
  void AddOfChat(const v1::TokenLogprob& logprob, bool as_ids);
  void AddOfCompletion(const v1::TokenLogprob& logprob, bool as_ids, size_t offset);

  // Members of lists, with a comma between them.
  std::string content_;  // of a chat's
  std::string tokens_, values_, top_, offsets_;
};

// vLLM's: of each token of a prompt an object of what was likely there, by token id.
std::string PromptLogprobsJson(const LogprobJson::Logprobs& logprobs);

std::string TokenIdsJson(const google::protobuf::RepeatedField<uint32_t>& ids);

std::string UsageJson(int64_t prompt_tokens, int64_t cached_tokens, int64_t completion_tokens);

// The stop string or token id that ended it, or null.
std::string StopReasonJson(const v1::Finished& finished);

// How many characters the text has.
size_t CountCharacters(absl::string_view text);

// How much of an answer's JSON this response becomes, roughly.
size_t JsonBytes(const v1::GenerateResponse& response);

}  // namespace quire
