// The answer to a request, in the server's own form, which every surface writes in its own way. A
// token is its id and its bytes; the surface makes text of the bytes. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "kernels/base/types.h"
#include "scheduler/request.h"

namespace quire {

// A token that might have been taken.
struct TopToken {
  TokenId id;
  std::string bytes;
  float logprob;
};

// A token with its logprob.
struct AnswerToken {
  TokenId id = -1;
  std::string bytes = {};
  std::optional<float> logprob = {};  // the first token of a prompt has none
  int32_t rank = 0;                   // 1: the most likely
  std::vector<TopToken> top = {};     // the most likely first
  int64_t text_offset = 0;            // where it begins in the text, in characters
};

// The parts of an answer come in the order of each continuation: Started, Deltas, Finished.

struct Started {
  int32_t index = 0;  // of the continuation
  std::string request_id = {};
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // prompt tokens that were found in the prefix cache
  std::vector<AnswerToken> prompt_logprobs = {};  // of continuation 0
  std::vector<TokenId> prompt_token_ids = {};     // likewise, if asked for
};

struct Delta {
  int32_t index = 0;
  std::string text = {};  // may be empty while a character or a stop string may be incomplete
  std::vector<TokenId> token_ids = {};     // if asked for
  std::vector<AnswerToken> logprobs = {};  // likewise
};

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t completion_tokens = 0;  // up to the one that completed a stop string
};

struct Timings {
  double queue_ms = 0;    // accepted -> first scheduled
  double prefill_ms = 0;  // first scheduled -> first token
  double decode_ms = 0;   // first token -> last token
  int32_t preemptions = 0;
};

struct Finished {
  int32_t index = 0;
  FinishReason reason = FinishReason::kNone;  // kStop, kLength or kAbort
  // The end token, stop token or stop string that ended it.
  std::variant<std::monostate, TokenId, std::string> matched = {};
  Usage usage = {};
  Timings timings = {};
};

using AnswerPart = std::variant<Started, Delta, Finished>;

// About how many bytes a part takes in some form. Each token with a logprob and each alternative
// also takes its own bytes.
struct PartBytes {
  size_t part, token_id, token, top;
};
inline constexpr PartBytes kMemoryBytes = {sizeof(AnswerPart), sizeof(TokenId), sizeof(AnswerToken),
                                           sizeof(TopToken)};
inline constexpr PartBytes kMessageBytes = {4, 4, 24, 16};  // of protobuf
inline constexpr PartBytes kJsonBytes = {0, 6, 64, 64};

size_t NumBytes(const AnswerPart& part, const PartBytes& bytes);

// As OpenAI and vLLM write it: "stop", "length", "abort".
const char* FinishReasonName(FinishReason reason);

}  // namespace quire
