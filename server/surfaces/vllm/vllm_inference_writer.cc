#include "server/surfaces/vllm/vllm_inference_writer.h"

#include <algorithm>
#include <string>
#include <utility>

namespace quire {

namespace {

// Adds the most likely tokens, except the token itself. Their ranks are their places.
void AddCandidates(const AnswerToken& token, ::vllm::CandidateTokenInfo* info) {
  for (size_t i = 0; i < token.top.size(); ++i) {
    const TopToken& top = token.top[i];
    if (top.id == token.id) continue;
    ::vllm::CandidateTokenInfo::TokenInfo* candidate = info->add_tokens();
    candidate->set_id(static_cast<uint32_t>(top.id));
    candidate->set_logprob(top.logprob);
    candidate->set_rank(static_cast<uint32_t>(i + 1));
  }
}

// To a SequenceOutput or a PromptInfo, which have the same fields for them.
template <typename Message>
void AddLogprobs(const std::vector<AnswerToken>& tokens, bool wants_logprobs, bool wants_candidates,
                 Message* message) {
  for (const AnswerToken& token : tokens) {
    if (wants_logprobs) {
      message->add_logprobs(token.logprob.value_or(0));
      message->add_ranks(static_cast<uint32_t>(token.rank));
    }
    if (wants_candidates) AddCandidates(token, message->add_candidate_tokens());
  }
}

::vllm::PromptInfo MakePromptInfo(const VllmAnswerOptions& options, const Started& started) {
  ::vllm::PromptInfo info;
  info.set_num_prompt_tokens(static_cast<uint32_t>(started.prompt_tokens));
  // If the prompt was cut, only its end was computed.
  const size_t num_told = std::min<size_t>(options.prompt_ids.size(), started.prompt_tokens);
  info.mutable_token_ids()->Add(options.prompt_ids.end() - static_cast<ptrdiff_t>(num_told),
                                options.prompt_ids.end());
  AddLogprobs(started.prompt_logprobs, options.prompt_logprobs, options.prompt_candidates, &info);
  return info;
}

void AddDelta(const VllmAnswerOptions& options, const Delta& delta,
              ::vllm::SequenceOutput* output) {
  output->set_index(static_cast<uint32_t>(delta.index));
  if (options.text) output->mutable_text()->append(delta.text);
  output->set_num_tokens(output->num_tokens() + static_cast<uint32_t>(delta.token_ids.size()));
  if (options.token_ids) {
    output->mutable_token_ids()->Add(delta.token_ids.begin(), delta.token_ids.end());
  }
  AddLogprobs(delta.logprobs, options.logprobs, options.candidates, output);
}

::vllm::FinishInfo MakeFinishInfo(const VllmAnswerOptions& options, const Finished& finished) {
  ::vllm::FinishInfo info;
  info.set_num_output_tokens(static_cast<uint32_t>(finished.usage.completion_tokens));
  switch (finished.reason) {
    case FinishReason::kStop:
      info.set_finish_reason(::vllm::FinishInfo::STOP);
      break;
    case FinishReason::kLength:
      info.set_finish_reason(::vllm::FinishInfo::LENGTH);
      break;
    default:
      info.set_finish_reason(::vllm::FinishInfo::ABORTED);
  }
  if (const auto* text = std::get_if<std::string>(&finished.matched)) {
    info.set_stop_string(*text);
  } else if (const auto* token = std::get_if<TokenId>(&finished.matched)) {
    const bool is_own =
        std::binary_search(options.stop_token_ids.begin(), options.stop_token_ids.end(), *token);
    is_own ? info.set_stop_token_id(static_cast<uint32_t>(*token))
           : info.set_eos_token_id(static_cast<uint32_t>(*token));
  }
  return info;
}

}  // namespace

VllmAnswerOptions::VllmAnswerOptions(const ::vllm::GenerateRequest& request) {
  const ::vllm::ResponseOptions& options = request.response();
  text = !options.has_output_text() || options.output_text();
  token_ids = options.output_token_ids();
  logprobs = options.output_logprobs();
  candidates = options.has_output_candidates();
  prompt_logprobs = options.prompt_logprobs();
  prompt_candidates = options.has_prompt_candidates();
  if (options.prompt_token_ids()) {
    prompt_ids.assign(request.token_ids().ids().begin(), request.token_ids().ids().end());
  }
  const auto& stop_ids = request.stopping().stop_token_ids();
  stop_token_ids.assign(stop_ids.begin(), stop_ids.end());
  std::sort(stop_token_ids.begin(), stop_token_ids.end());
}

void VllmStreamWriter::Write(AnswerPart part, const std::function<void()>& on_ready) {
  ::vllm::GenerateResponse message;
  if (const auto* started = std::get_if<Started>(&part)) {
    if (std::exchange(has_prompt_info_, true)) {
      on_ready();
      return;
    }
    *message.mutable_prompt_info() = MakePromptInfo(options_, *started);
  } else if (const auto* delta = std::get_if<Delta>(&part)) {
    AddDelta(options_, *delta, message.mutable_outputs());
  } else {
    const auto& finished = std::get<Finished>(part);
    message.mutable_outputs()->set_index(static_cast<uint32_t>(finished.index));
    *message.mutable_outputs()->mutable_finish_info() = MakeFinishInfo(options_, finished);
  }
  call_->Send(message.SerializeAsString(), on_ready);
}

void VllmStreamWriter::End(const absl::Status& status, AccessEntry access) {
  call_->SetAccess(std::move(access));
  call_->Finish(status);
}

void VllmOnceWriter::Write(AnswerPart part, const std::function<void()>& on_ready) {
  if (const auto* started = std::get_if<Started>(&part)) {
    *answer_.mutable_prompt_info() = MakePromptInfo(options_, *started);
  } else if (const auto* delta = std::get_if<Delta>(&part)) {
    AddDelta(options_, *delta, answer_.mutable_outputs());
  } else {
    *answer_.mutable_outputs()->mutable_finish_info() =
        MakeFinishInfo(options_, std::get<Finished>(part));
  }
  on_ready();
}

void VllmOnceWriter::End(const absl::Status& status, AccessEntry access) {
  call_->SetAccess(std::move(access));
  if (status.ok()) {
    call_->FinishWith(answer_.SerializeAsString());
  } else {
    call_->Finish(status);
  }
}

}  // namespace quire
