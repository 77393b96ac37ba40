#include "server/surfaces/vllm/vllm_inference_sink.h"

#include <algorithm>
#include <string>
#include <utility>

#include "server/request/output/access_tokens.h"
#include "server/surfaces/vllm/vllm_inference_request.h"

namespace quire {

namespace {

using LogprobMessages = google::protobuf::RepeatedPtrField<v1::TokenLogprob>;

// Of the most likely tokens, whose ranks are their places, those that are not there.
void AddCandidates(const v1::TokenLogprob& logprob, ::vllm::CandidateTokenInfo* info) {
  for (int i = 0; i < logprob.top_size(); ++i) {
    const v1::TopLogprob& top = logprob.top(i);
    if (top.token_id() == logprob.token_id()) continue;
    ::vllm::CandidateTokenInfo::TokenInfo* token = info->add_tokens();
    token->set_id(top.token_id());
    token->set_logprob(top.logprob());
    token->set_rank(static_cast<uint32_t>(i + 1));
  }
}

// To a SequenceOutput or a PromptInfo, which have the same fields for them.
template <typename Message>
void AddLogprobs(const LogprobMessages& logprobs, bool wants_logprobs, bool wants_candidates,
                 Message* message) {
  for (const v1::TokenLogprob& logprob : logprobs) {
    if (wants_logprobs) {
      message->add_logprobs(logprob.logprob());
      message->add_ranks(static_cast<uint32_t>(logprob.rank()));
    }
    if (wants_candidates) AddCandidates(logprob, message->add_candidate_tokens());
  }
}

::vllm::PromptInfo MakePromptInfo(const VllmAnswerOptions& options, const v1::Started& started) {
  ::vllm::PromptInfo info;
  info.set_num_prompt_tokens(static_cast<uint32_t>(started.prompt_tokens()));
  // Of a prompt that was cut only the end was computed.
  const size_t num_told = std::min<size_t>(options.prompt_ids.size(), started.prompt_tokens());
  info.mutable_token_ids()->Add(options.prompt_ids.end() - static_cast<ptrdiff_t>(num_told),
                                options.prompt_ids.end());
  AddLogprobs(started.prompt_logprobs(), options.prompt_logprobs, options.prompt_candidates, &info);
  return info;
}

void AddDelta(const VllmAnswerOptions& options, const v1::Delta& delta,
              ::vllm::SequenceOutput* output) {
  output->set_index(static_cast<uint32_t>(delta.index()));
  if (options.text) output->mutable_text()->append(delta.text());
  output->set_num_tokens(output->num_tokens() + static_cast<uint32_t>(delta.token_ids_size()));
  if (options.token_ids) output->mutable_token_ids()->MergeFrom(delta.token_ids());
  AddLogprobs(delta.logprobs(), options.logprobs, options.candidates, output);
}

::vllm::FinishInfo MakeFinishInfo(const VllmAnswerOptions& options, const v1::Finished& finished) {
  ::vllm::FinishInfo info;
  info.set_num_output_tokens(static_cast<uint32_t>(finished.usage().completion_tokens()));
  switch (finished.finish_reason()) {
    case v1::FINISH_REASON_STOP:
      info.set_finish_reason(::vllm::FinishInfo::STOP);
      break;
    case v1::FINISH_REASON_LENGTH:
      info.set_finish_reason(::vllm::FinishInfo::LENGTH);
      break;
    default:
      info.set_finish_reason(::vllm::FinishInfo::ABORTED);
  }
  if (finished.matched_case() == v1::Finished::kMatchedStopString) {
    info.set_stop_string(finished.matched_stop_string());
  } else if (finished.matched_case() == v1::Finished::kMatchedTokenId) {
    const bool is_own = std::binary_search(
        options.stop_token_ids.begin(), options.stop_token_ids.end(), finished.matched_token_id());
    is_own ? info.set_stop_token_id(finished.matched_token_id())
           : info.set_eos_token_id(finished.matched_token_id());
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

void VllmStreamSink::Forward(const v1::GenerateResponse& response,
                             const std::function<void()>& on_sent) {
  NoteResponse(response, &access_);
  ::vllm::GenerateResponse message;
  switch (response.event_case()) {
    case v1::GenerateResponse::kStarted:
      if (std::exchange(has_prompt_info_, true)) break;
      *message.mutable_prompt_info() = MakePromptInfo(options_, response.started());
      break;
    case v1::GenerateResponse::kDelta:
      AddDelta(options_, response.delta(), message.mutable_outputs());
      break;
    case v1::GenerateResponse::kFinished:
      message.mutable_outputs()->set_index(static_cast<uint32_t>(response.finished().index()));
      *message.mutable_outputs()->mutable_finish_info() =
          MakeFinishInfo(options_, response.finished());
      break;
    case v1::GenerateResponse::EVENT_NOT_SET:
      break;
  }
  if (message.has_prompt_info() || message.has_outputs()) {
    call_->Send(message.SerializeAsString(), on_sent);
  } else if (on_sent) {
    on_sent();
  }
}

void VllmStreamSink::Send(v1::GenerateResponse response) { Forward(response, on_ready_); }

void VllmStreamSink::SendLast(v1::GenerateResponse response) {
  Forward(response, nullptr);
  End(absl::OkStatus());
}

void VllmStreamSink::End(const absl::Status& status) {
  call_->SetAccess(std::move(access_));
  call_->Finish(InVllmInferenceTerms(status));
  delete this;
}

void VllmOnceSink::Take(const v1::GenerateResponse& response) {
  NoteResponse(response, &access_);
  if (response.has_started()) {
    *answer_.mutable_prompt_info() = MakePromptInfo(options_, response.started());
  } else if (response.has_delta()) {
    AddDelta(options_, response.delta(), answer_.mutable_outputs());
  } else if (response.has_finished()) {
    *answer_.mutable_outputs()->mutable_finish_info() =
        MakeFinishInfo(options_, response.finished());
  }
}

void VllmOnceSink::Send(v1::GenerateResponse response) {
  Take(response);
  on_ready_();
}

void VllmOnceSink::SendLast(v1::GenerateResponse response) {
  Take(response);
  End(absl::OkStatus());
}

void VllmOnceSink::End(const absl::Status& status) {
  call_->SetAccess(std::move(access_));
  if (status.ok()) {
    call_->FinishWith(answer_.SerializeAsString());
  } else {
    call_->Finish(InVllmInferenceTerms(status));
  }
  delete this;
}

}  // namespace quire
