#include "server/request/answer.h"

namespace quire {

namespace {

size_t NumBytes(const std::vector<AnswerToken>& tokens) {
  size_t num_bytes = 0;
  for (const AnswerToken& token : tokens) {
    num_bytes += sizeof(token) + token.bytes.size() + token.top.size() * sizeof(TopToken);
    for (const TopToken& top : token.top) num_bytes += top.bytes.size();
  }
  return num_bytes;
}

}  // namespace

size_t NumBytes(const AnswerPart& part) {
  size_t num_bytes = sizeof(part);
  if (const auto* started = std::get_if<Started>(&part)) {
    num_bytes += started->prompt_token_ids.size() * sizeof(TokenId);
    num_bytes += NumBytes(started->prompt_logprobs);
  } else if (const auto* delta = std::get_if<Delta>(&part)) {
    num_bytes += delta->text.size() + delta->token_ids.size() * sizeof(TokenId);
    num_bytes += NumBytes(delta->logprobs);
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
