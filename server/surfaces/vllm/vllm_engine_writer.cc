#include "server/surfaces/vllm/vllm_engine_writer.h"

#include <string>
#include <utility>

namespace quire {

namespace {

namespace vllm = ::vllm::grpc::engine;

void AddTop(const AnswerToken& token, vllm::TopLogProbs* top) {
  for (const TopToken& one : token.top) {
    top->add_values(one.logprob);
    top->add_token_ids(static_cast<uint32_t>(one.id));
  }
}

void AddLogprobs(const std::vector<AnswerToken>& tokens, bool wants_top,
                 vllm::OutputLogProbs* out) {
  for (const AnswerToken& token : tokens) {
    out->add_token_logprobs(token.logprob.value_or(0));
    out->add_token_ids(static_cast<uint32_t>(token.id));
    if (wants_top) AddTop(token, out->add_top_logprobs());
  }
}

void AddPromptLogprobs(const std::vector<AnswerToken>& tokens, bool wants_top,
                       vllm::InputLogProbs* out) {
  for (const AnswerToken& token : tokens) {
    vllm::InputTokenLogProb* value = out->add_token_logprobs();
    if (token.logprob.has_value()) value->set_value(*token.logprob);
    out->add_token_ids(static_cast<uint32_t>(token.id));
    if (wants_top) AddTop(token, out->add_top_logprobs());
  }
}

}  // namespace

VllmEngineWriter::VllmEngineWriter(GrpcCallRef call, const vllm::GenerateRequest& request)
    : call_(std::move(call)),
      streams_(request.stream()),
      wants_top_(request.sampling_params().logprobs() > 0),
      wants_prompt_top_(request.sampling_params().prompt_logprobs() > 0) {}

void VllmEngineWriter::Write(AnswerPart part, const std::function<void()>& on_ready) {
  if (const auto message = Convert(part); message.has_value()) {
    call_->Send(message->SerializeAsString(), on_ready);
  } else {
    on_ready();
  }
}

void VllmEngineWriter::End(const absl::Status& status, AccessEntry access) {
  call_->SetAccess(std::move(access));
  call_->Finish(status);
}

VllmEngineWriter::Output& VllmEngineWriter::OutputAt(int32_t index) {
  if (outputs_.size() <= static_cast<size_t>(index)) outputs_.resize(index + 1);
  return outputs_[index];
}

std::optional<vllm::GenerateResponse> VllmEngineWriter::Convert(const AnswerPart& part) {
  if (const auto* started = std::get_if<Started>(&part)) {
    TakeStart(*started);
    return std::nullopt;
  }
  if (const auto* finished = std::get_if<Finished>(&part)) return MakeComplete(*finished);
  const Delta& delta = std::get<Delta>(part);
  Output& output = OutputAt(delta.index);
  output.complete.mutable_output_ids()->Add(delta.token_ids.begin(), delta.token_ids.end());
  if (!streams_ && !delta.logprobs.empty()) {
    AddLogprobs(delta.logprobs, wants_top_, output.complete.mutable_output_logprobs());
  }
  // Text is the router's affair.
  if (!streams_ || delta.token_ids.empty()) return std::nullopt;
  return MakeChunk(delta, output);
}

void VllmEngineWriter::TakeStart(const Started& started) {
  vllm::GenerateComplete& complete = OutputAt(started.index).complete;
  complete.set_index(static_cast<uint32_t>(started.index));
  complete.set_prompt_tokens(static_cast<uint32_t>(started.prompt_tokens));
  complete.set_cached_tokens(static_cast<uint32_t>(started.cached_tokens));
  if (started.prompt_logprobs.empty()) return;
  AddPromptLogprobs(started.prompt_logprobs, wants_prompt_top_, &prompt_logprobs_.emplace());
}

vllm::GenerateResponse VllmEngineWriter::MakeChunk(const Delta& delta, Output& output) {
  vllm::GenerateResponse response;
  vllm::GenerateStreamChunk& chunk = *response.mutable_chunk();
  chunk.mutable_token_ids()->Add(delta.token_ids.begin(), delta.token_ids.end());
  chunk.set_prompt_tokens(output.complete.prompt_tokens());
  chunk.set_completion_tokens(static_cast<uint32_t>(delta.token_ids.size()));
  chunk.set_cached_tokens(output.complete.cached_tokens());
  chunk.set_index(static_cast<uint32_t>(delta.index));
  if (!delta.logprobs.empty()) {
    AddLogprobs(delta.logprobs, wants_top_, chunk.mutable_output_logprobs());
  }
  if (!std::exchange(output.has_chunk, true) && prompt_logprobs_) {
    *chunk.mutable_input_logprobs() = *prompt_logprobs_;
  }
  return response;
}

vllm::GenerateResponse VllmEngineWriter::MakeComplete(const Finished& finished) {
  vllm::GenerateResponse response;
  vllm::GenerateComplete& complete = *response.mutable_complete();
  Output& output = OutputAt(finished.index);
  complete = std::move(output.complete);
  if (!output.has_chunk && prompt_logprobs_) *complete.mutable_input_logprobs() = *prompt_logprobs_;
  complete.set_index(static_cast<uint32_t>(finished.index));
  complete.set_finish_reason(FinishReasonName(finished.reason));
  // As the usage says: what was drawn after a stop string is not counted.
  complete.set_prompt_tokens(static_cast<uint32_t>(finished.usage.prompt_tokens));
  complete.set_cached_tokens(static_cast<uint32_t>(finished.usage.cached_tokens));
  complete.set_completion_tokens(static_cast<uint32_t>(finished.usage.completion_tokens));
  if (const auto* token = std::get_if<TokenId>(&finished.matched)) {
    complete.set_matched_token_id(static_cast<uint32_t>(*token));
  } else if (const auto* text = std::get_if<std::string>(&finished.matched)) {
    complete.set_matched_stop_str(*text);
  }
  return response;
}

}  // namespace quire
