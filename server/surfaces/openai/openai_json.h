// The pieces of OpenAI's answers as JSON text. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/request/answer.h"

namespace quire {

struct LogprobStyle {
  bool is_chat = false;
  bool as_ids = false;       // tokens as "token_id:12"
  int64_t first_offset = 0;  // where the tokens' text begins, in characters
};

// The tokens of one continuation, or of a part of it.
class LogprobJson {
 public:
  void Add(const std::vector<AnswerToken>& tokens, const LogprobStyle& style);
  void Add(const LogprobJson& more);
  // The text so far has this many characters: no token begins after its end.
  void EndOffsetsAt(int64_t num_characters);
  std::string ToText(bool is_chat) const;
  // Only the list of a chat's tokens.
  std::string ContentList() const;

 private:
  void AddOfChat(const AnswerToken& token, bool as_ids);
  void AddOfCompletion(const AnswerToken& token, bool as_ids);

  // Members of lists, with a comma between them.
  std::string content_;  // of a chat's
  std::string tokens_, values_, top_;
  std::vector<int64_t> offsets_;
};

// A token as OpenAI writes it: its text, or "bytes:\xf0" if its bytes are no text by themselves.
std::string SpellBytes(absl::string_view bytes);

// vLLM's form: for each token of a prompt, an object of the tokens that were likely there, by token
// id.
std::string PromptLogprobsJson(const std::vector<AnswerToken>& tokens);

std::string TokenIdsJson(const std::vector<TokenId>& ids);

std::string UsageJson(int64_t prompt_tokens, int64_t cached_tokens, int64_t completion_tokens);

// The stop string or token id that ended the answer, or null.
std::string StopReasonJson(const Finished& finished);

}  // namespace quire
