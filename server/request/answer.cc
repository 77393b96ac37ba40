#include "server/request/answer.h"

namespace quire {

namespace {

size_t NumBytesOf(const std::vector<AnswerToken>& tokens, const PartBytes& bytes) {
  size_t num_bytes = 0;
  for (const AnswerToken& token : tokens) {
    num_bytes += bytes.token + token.bytes.size() + token.top.size() * bytes.top;
    for (const TopToken& top : token.top) num_bytes += top.bytes.size();
  }
  return num_bytes;
}

}  // namespace

size_t NumBytes(const AnswerPart& part, const PartBytes& bytes) {
  size_t num_bytes = bytes.part;
  if (const auto* started = std::get_if<Started>(&part)) {
    num_bytes += started->prompt_token_ids.size() * bytes.token_id;
    num_bytes += NumBytesOf(started->prompt_logprobs, bytes);
  } else if (const auto* delta = std::get_if<Delta>(&part)) {
    num_bytes += delta->text.size() + delta->token_ids.size() * bytes.token_id;
    num_bytes += NumBytesOf(delta->logprobs, bytes);
  }
  return num_bytes;
}

const char* FinishReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    default:
      return "abort";
  }
}

}  // namespace quire
