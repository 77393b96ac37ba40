#include "server/surfaces/grpc/answer_messages.h"

#include <string>
#include <string_view>
#include <vector>

#include "server/text/utf8.h"

namespace quire {

namespace {

using LogprobMessages = google::protobuf::RepeatedPtrField<v1::TokenLogprob>;

std::string TextOf(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const Utf8Prefix prefix = ClassifyUtf8Prefix(bytes);
    if (prefix.kind == Utf8Start::kCharacter) {
      text.append(bytes.substr(0, prefix.num_bytes));
    } else {
      AppendUtf8(kReplacementCharacter, &text);
    }
    bytes.remove_prefix(prefix.num_bytes);
  }
  return text;
}

// To a TokenLogprob or a TopLogprob.
template <typename Message>
void SetToken(TokenId id, std::string bytes, Message* message) {
  message->set_token_id(static_cast<uint32_t>(id));
  message->set_token(TextOf(bytes));
  message->set_token_bytes(std::move(bytes));
}

void AddTokens(std::vector<AnswerToken> tokens, LogprobMessages* messages) {
  for (AnswerToken& token : tokens) {
    v1::TokenLogprob* message = messages->Add();
    SetToken(token.id, std::move(token.bytes), message);
    message->set_text_offset(token.text_offset);
    message->set_rank(token.rank);
    if (token.logprob.has_value()) message->set_logprob(*token.logprob);
    for (TopToken& top : token.top) {
      v1::TopLogprob* alternative = message->add_top();
      SetToken(top.id, std::move(top.bytes), alternative);
      alternative->set_logprob(top.logprob);
    }
  }
}

v1::FinishReason ToMessage(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return v1::FINISH_REASON_STOP;
    case FinishReason::kLength:
      return v1::FINISH_REASON_LENGTH;
    case FinishReason::kAbort:
      return v1::FINISH_REASON_ABORT;
    case FinishReason::kNone:
    case FinishReason::kError:
      return v1::FINISH_REASON_UNSPECIFIED;
  }
  return v1::FINISH_REASON_UNSPECIFIED;
}

v1::Finished ToMessage(Finished finished) {
  v1::Finished message;
  message.set_index(finished.index);
  message.set_finish_reason(ToMessage(finished.reason));
  if (const auto* token = std::get_if<TokenId>(&finished.matched)) {
    message.set_matched_token_id(static_cast<uint32_t>(*token));
  } else if (auto* text = std::get_if<std::string>(&finished.matched)) {
    message.set_matched_stop_string(std::move(*text));
  }
  v1::Usage* usage = message.mutable_usage();
  usage->set_prompt_tokens(finished.usage.prompt_tokens);
  usage->set_cached_tokens(finished.usage.cached_tokens);
  usage->set_completion_tokens(finished.usage.completion_tokens);
  v1::Timings* timings = message.mutable_timings();
  timings->set_queue_ms(finished.timings.queue_ms);
  timings->set_prefill_ms(finished.timings.prefill_ms);
  timings->set_decode_ms(finished.timings.decode_ms);
  timings->set_preemptions(finished.timings.preemptions);
  return message;
}

}  // namespace

v1::GenerateResponse ToMessage(AnswerPart part) {
  v1::GenerateResponse response;
  if (auto* started = std::get_if<Started>(&part)) {
    v1::Started* message = response.mutable_started();
    message->set_index(started->index);
    message->set_request_id(std::move(started->request_id));
    message->set_prompt_tokens(started->prompt_tokens);
    message->set_cached_tokens(started->cached_tokens);
    AddTokens(std::move(started->prompt_logprobs), message->mutable_prompt_logprobs());
    message->mutable_prompt_token_ids()->Add(started->prompt_token_ids.begin(),
                                             started->prompt_token_ids.end());
  } else if (auto* delta = std::get_if<Delta>(&part)) {
    v1::Delta* message = response.mutable_delta();
    message->set_index(delta->index);
    message->set_text(std::move(delta->text));
    message->mutable_token_ids()->Add(delta->token_ids.begin(), delta->token_ids.end());
    AddTokens(std::move(delta->logprobs), message->mutable_logprobs());
  } else {
    *response.mutable_finished() = ToMessage(std::move(std::get<Finished>(part)));
  }
  return response;
}

v1::Choice& AnswerCollector::ChoiceAt(int32_t index) {
  while (answer_.choices_size() <= index) {
    const int32_t next = answer_.choices_size();
    answer_.add_choices()->set_index(next);
  }
  return *answer_.mutable_choices(index);
}

void AnswerCollector::Add(AnswerPart part) {
  if (auto* started = std::get_if<Started>(&part)) {
    answer_.set_request_id(std::move(started->request_id));
    AddTokens(std::move(started->prompt_logprobs), answer_.mutable_prompt_logprobs());
    answer_.mutable_prompt_token_ids()->Add(started->prompt_token_ids.begin(),
                                            started->prompt_token_ids.end());
  } else if (auto* delta = std::get_if<Delta>(&part)) {
    v1::Choice& choice = ChoiceAt(delta->index);
    choice.mutable_text()->append(delta->text);
    choice.mutable_token_ids()->Add(delta->token_ids.begin(), delta->token_ids.end());
    AddTokens(std::move(delta->logprobs), choice.mutable_logprobs());
  } else {
    auto& finished = std::get<Finished>(part);
    v1::Choice& choice = ChoiceAt(finished.index);
    *choice.mutable_finished() = ToMessage(std::move(finished));
  }
}

}  // namespace quire
