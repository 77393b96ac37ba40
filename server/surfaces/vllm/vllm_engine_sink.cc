#include "server/surfaces/vllm/vllm_engine_sink.h"

#include <string>
#include <utility>

#include "server/request/output/access_tokens.h"
#include "server/surfaces/vllm/vllm_engine_request.h"

namespace quire {

namespace {

namespace vllm = ::vllm::grpc::engine;

using LogprobMessages = google::protobuf::RepeatedPtrField<v1::TokenLogprob>;

void AddTop(const v1::TokenLogprob& logprob, vllm::TopLogProbs* top) {
  for (const v1::TopLogprob& one : logprob.top()) {
    top->add_values(one.logprob());
    top->add_token_ids(one.token_id());
  }
}

void AddLogprobs(const LogprobMessages& logprobs, bool wants_top, vllm::OutputLogProbs* out) {
  for (const v1::TokenLogprob& logprob : logprobs) {
    out->add_token_logprobs(logprob.logprob());
    out->add_token_ids(logprob.token_id());
    if (wants_top) AddTop(logprob, out->add_top_logprobs());
  }
}

void AddPromptLogprobs(const LogprobMessages& logprobs, bool wants_top, vllm::InputLogProbs* out) {
  for (const v1::TokenLogprob& logprob : logprobs) {
    vllm::InputTokenLogProb* value = out->add_token_logprobs();
    if (logprob.has_logprob()) value->set_value(logprob.logprob());
    out->add_token_ids(logprob.token_id());
    if (wants_top) AddTop(logprob, out->add_top_logprobs());
  }
}

}  // namespace

VllmEngineSink::VllmEngineSink(GrpcCallRef call, const vllm::GenerateRequest& request)
    : call_(std::move(call)),
      streams_(request.stream()),
      wants_top_(request.sampling_params().logprobs() > 0),
      wants_prompt_top_(request.sampling_params().prompt_logprobs() > 0) {}

void VllmEngineSink::Send(v1::GenerateResponse response) {
  NoteResponse(response, &access_);
  if (const auto message = Convert(response); message.has_value()) {
    call_->Send(message->SerializeAsString(), on_ready_);
  } else {
    on_ready_();
  }
}

void VllmEngineSink::SendLast(v1::GenerateResponse response) {
  NoteResponse(response, &access_);
  if (const auto message = Convert(response); message.has_value()) {
    call_->Send(message->SerializeAsString(), nullptr);
  }
  End(absl::OkStatus());
}

void VllmEngineSink::End(const absl::Status& status) {
  call_->SetAccess(std::move(access_));
  call_->Finish(InVllmEngineTerms(status));
  delete this;
}

VllmEngineSink::Output& VllmEngineSink::OutputAt(int32_t index) {
  if (outputs_.size() <= static_cast<size_t>(index)) outputs_.resize(index + 1);
  return outputs_[index];
}

std::optional<vllm::GenerateResponse> VllmEngineSink::Convert(
    const v1::GenerateResponse& response) {
  switch (response.event_case()) {
    case v1::GenerateResponse::kStarted:
      TakeStart(response.started());
      return std::nullopt;
    case v1::GenerateResponse::kDelta: {
      const v1::Delta& delta = response.delta();
      Output& output = OutputAt(delta.index());
      output.complete.mutable_output_ids()->MergeFrom(delta.token_ids());
      if (!streams_ && !delta.logprobs().empty()) {
        AddLogprobs(delta.logprobs(), wants_top_, output.complete.mutable_output_logprobs());
      }
      // Text is the router's affair.
      if (!streams_ || delta.token_ids().empty()) return std::nullopt;
      return MakeChunk(delta, output);
    }
    case v1::GenerateResponse::kFinished:
      return MakeComplete(response.finished());
    case v1::GenerateResponse::EVENT_NOT_SET:
      break;
  }
  return std::nullopt;
}

void VllmEngineSink::TakeStart(const v1::Started& started) {
  vllm::GenerateComplete& complete = OutputAt(started.index()).complete;
  complete.set_index(static_cast<uint32_t>(started.index()));
  complete.set_prompt_tokens(static_cast<uint32_t>(started.prompt_tokens()));
  complete.set_cached_tokens(static_cast<uint32_t>(started.cached_tokens()));
  if (started.prompt_logprobs().empty()) return;
  AddPromptLogprobs(started.prompt_logprobs(), wants_prompt_top_, &prompt_logprobs_.emplace());
}

vllm::GenerateResponse VllmEngineSink::MakeChunk(const v1::Delta& delta, Output& output) {
  vllm::GenerateResponse response;
  vllm::GenerateStreamChunk& chunk = *response.mutable_chunk();
  *chunk.mutable_token_ids() = delta.token_ids();
  chunk.set_prompt_tokens(output.complete.prompt_tokens());
  chunk.set_completion_tokens(static_cast<uint32_t>(delta.token_ids_size()));
  chunk.set_cached_tokens(output.complete.cached_tokens());
  chunk.set_index(static_cast<uint32_t>(delta.index()));
  if (!delta.logprobs().empty()) {
    AddLogprobs(delta.logprobs(), wants_top_, chunk.mutable_output_logprobs());
  }
  if (!std::exchange(output.has_chunk, true) && prompt_logprobs_) {
    *chunk.mutable_input_logprobs() = *prompt_logprobs_;
  }
  return response;
}

vllm::GenerateResponse VllmEngineSink::MakeComplete(const v1::Finished& finished) {
  vllm::GenerateResponse response;
  vllm::GenerateComplete& complete = *response.mutable_complete();
  Output& output = OutputAt(finished.index());
  complete = std::move(output.complete);
  if (!output.has_chunk && prompt_logprobs_) *complete.mutable_input_logprobs() = *prompt_logprobs_;
  complete.set_index(static_cast<uint32_t>(finished.index()));
  complete.set_finish_reason(FinishReasonName(finished.finish_reason()));
  // As the usage says: what was drawn after a stop string is not counted.
  complete.set_prompt_tokens(static_cast<uint32_t>(finished.usage().prompt_tokens()));
  complete.set_cached_tokens(static_cast<uint32_t>(finished.usage().cached_tokens()));
  complete.set_completion_tokens(static_cast<uint32_t>(finished.usage().completion_tokens()));
  if (finished.matched_case() == v1::Finished::kMatchedTokenId) {
    complete.set_matched_token_id(finished.matched_token_id());
  } else if (finished.matched_case() == v1::Finished::kMatchedStopString) {
    complete.set_matched_stop_str(finished.matched_stop_string());
  }
  return response;
}

}  // namespace quire
