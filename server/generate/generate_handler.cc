#include "server/generate/generate_handler.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "engine/engine.h"
#include "kernels/base/clock.h"
#include "kernels/base/status_macros.h"
#include "server/generate/prompt_message.h"
#include "server/request/limits.h"
#include "server/request/parameters.h"
#include "server/request/request_fuel.h"
#include "server/request/retry_pushback.h"

namespace quire {

absl::Status GenerateHandler::CheckRoom(const Principal& principal) const {
  const absl::Status status = parts_.engine->CheckRoom(FlowOf(principal));
  if (!status.ok()) parts_.metrics->CountRefusal(RefusalOf(status.code()));
  return WithRetryPushback(status);
}

void GenerateHandler::Start(Caller caller, v1::GenerateRequest message, ResponseSink* sink) {
  auto pending = std::make_shared<Pending>();
  pending->principal = std::move(caller.principal);
  pending->token = std::move(caller.token);
  if (caller.is_id_of_call) pending->id_in_use = IdInUse::kMakeAnother;
  pending->message = std::move(message);
  pending->sink = sink;
  pending->arrived = MonotonicNow();
  if (parts_.exporter != nullptr) {
    pending->trace = parts_.exporter->Record(std::move(caller.trace), pending->arrived);
  }
  if (const absl::Status checked = Check(*pending); !checked.ok()) {
    // What a principal may have at a time is all that can be exhausted so early.
    Refuse(*pending, WithRetryPushback(checked),
           absl::IsResourceExhausted(checked) ? std::optional(RefusalReason::kPrincipalLimit)
                                              : std::nullopt);
    return;
  }
  pending->num_bytes = pending->message.ByteSizeLong();
  if (pending->num_bytes <= kMaxInlineBytes) {
    TokenizeAndSubmit(*pending);
    return;
  }
  parts_.work_pool->Add({.num_bytes = pending->message.SpaceUsedLong(),
                         .token = pending->token,
                         .cost = std::move(caller.cost),
                         .run = [this, pending](const absl::Status& status) {
                           if (status.ok()) {
                             TokenizeAndSubmit(*pending);
                           } else {
                             Refuse(*pending, status);
                           }
                         }});
}

absl::Status GenerateHandler::Check(Pending& pending) {
  if (pending.message.has_messages()) {
    RETURN_IF_ERROR(CheckMessages(pending.message.messages()));
  }
  ASSIGN_OR_RETURN(pending.job, ConvertParameters(pending.message, *parts_.model, seeds_.Next()));
  RETURN_IF_ERROR(ApplyPrincipal(*pending.principal, &pending.job));
  ASSIGN_OR_RETURN(pending.lease,
                   parts_.registry->Enter(*pending.principal, pending.job.client_id, pending.token,
                                          pending.arrived, pending.id_in_use));
  if (pending.trace != nullptr) {
    RequestTrace& trace = *pending.trace;
    trace.is_chat = pending.message.has_messages();
    trace.request_id = pending.lease.request_id();
    trace.model =
        pending.message.model().empty() ? parts_.model->served_names[0] : pending.message.model();
    trace.sampling = pending.job.request.sampling;
  }
  return absl::OkStatus();
}

void GenerateHandler::TokenizeAndSubmit(Pending& pending) {
  if (const absl::Status submitted = Submit(pending); !submitted.ok()) {
    Refuse(pending, WithRetryPushback(submitted));
  }
}

absl::Status GenerateHandler::Submit(Pending& pending) {
  if (pending.token->cancelled()) return absl::CancelledError("cancelled before it began");
  RequestFuel fuel(pending.num_bytes, pending.token.get());
  ASSIGN_OR_RETURN(std::vector<TokenId> prompt,
                   EncodePrompt(pending.message, *parts_.encoder, *parts_.model, &fuel));
  RETURN_IF_ERROR(SetPrompt(std::move(prompt), *parts_.model, &pending.job));

  pending.sink->TakePrompt(pending.job.request.prompt);
  pending.job.request.arrived = pending.arrived;
  if (pending.trace != nullptr) {
    pending.trace->max_tokens = pending.job.request.stop.max_tokens;
    pending.trace->num_prompt_tokens = static_cast<int64_t>(pending.job.request.prompt.size());
  }
  RunningRequest running;
  running.builder = std::make_unique<ResponseBuilder>(parts_.encoder->tokenizer(), pending.job,
                                                      pending.lease.request_id());
  ASSIGN_OR_RETURN(running.stream,
                   parts_.engine->Submit(std::move(pending.job.request), parts_.pump));
  spdlog::debug("request {} of {} is engine request {}", pending.lease.request_id(),
                pending.lease.principal(), running.stream->request_id());
  running.sink = pending.sink;
  running.lease = std::move(pending.lease);
  if (pending.trace != nullptr) {
    pending.trace->continuations.resize(running.stream->num_continuations());
    running.trace = std::move(pending.trace);
  }
  pending.token->Bind(
      [engine = parts_.engine, id = running.stream->request_id()] { engine->Cancel(id); });
  parts_.pump->Add(std::move(running));
  return absl::OkStatus();
}

void GenerateHandler::Refuse(Pending& pending, const absl::Status& status,
                             std::optional<RefusalReason> reason) {
  parts_.metrics->CountRefusal(reason.value_or(RefusalOf(status.code())));
  spdlog::debug("a request of {} ends before the engine has it: {}", pending.principal->name,
                absl::StatusCodeToString(status.code()));
  pending.lease = {};  // before the client can know that its id is free
  if (pending.trace != nullptr) {
    pending.trace->End(status.code(), MonotonicNow());
    pending.trace.reset();
  }
  pending.sink->End(status);
}

}  // namespace quire
