#include "server/request/generate/generate_handler.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "engine/engine.h"
#include "kernels/base/clock.h"
#include "kernels/base/status_macros.h"
#include "server/grammar/constraint/constraint_compiler.h"
#include "server/request/field_error.h"
#include "server/request/generate/prompt.h"
#include "server/request/generate/work_pool.h"
#include "server/request/limits.h"
#include "server/request/parameters.h"
#include "server/request/request_fuel.h"
#include "server/request/retry_pushback.h"
#include "server/text/answer/model_answers.h"

namespace quire {

namespace {

std::string FieldOfConstraint(const Generation& asked) {
  return asked.constraint->field.empty() ? asked.names->constraint : asked.constraint->field;
}

}  // namespace

absl::Status GenerateHandler::CheckRoom(const Principal& principal,
                                        int64_t num_continuations) const {
  return WithRetryPushback(parts_.engine->CheckRoom(FlowOf(principal), num_continuations));
}

absl::StatusOr<std::shared_ptr<RequestRegistry::Lease>> GenerateHandler::Enter(
    const Caller& caller, const std::string& request_id) {
  ASSIGN_OR_RETURN(
      RequestRegistry::Lease lease,
      parts_.registry->Enter(*caller.principal, request_id, caller.token, caller.arrived));
  return std::make_shared<RequestRegistry::Lease>(std::move(lease));
}

// What a principal may have at a time is all that can be exhausted so early.
RefusalReason GenerateHandler::ReasonOfCheck(const absl::Status& status) {
  return absl::IsResourceExhausted(status) ? RefusalReason::kPrincipalLimit
                                           : RefusalOf(status.code());
}

void GenerateHandler::Refuse(const Caller& caller, const absl::Status& status,
                             std::optional<RefusalReason> reason) {
  if (caller.lease != nullptr) *caller.lease = {};
  CountRefused(status, reason, RecordOf(caller));
}

RecordedTrace GenerateHandler::RecordOf(const Caller& caller) {
  if (parts_.exporter == nullptr) return nullptr;
  return parts_.exporter->Record(caller.trace, caller.arrived);
}

void GenerateHandler::CountRefused(const absl::Status& status, std::optional<RefusalReason> reason,
                                   const RecordedTrace& trace) {
  parts_.metrics->CountRefusal(reason.value_or(RefusalOf(status.code())));
  if (trace != nullptr) trace->End(status.code(), MonotonicNow());
}

void GenerateHandler::Start(Caller caller, Generation asked, std::unique_ptr<AnswerWriter> writer) {
  std::vector<ListedRequest> list;
  list.push_back({std::move(asked), caller.token, std::move(writer)});
  StartAll(std::move(caller), std::move(list));
}

void GenerateHandler::StartAll(Caller caller, std::vector<ListedRequest> list) {
  auto held = std::make_shared<Batch>();
  Batch& batch = *held;
  batch.principal = std::move(caller.principal);
  batch.cost = std::move(caller.cost);
  batch.token = std::move(caller.token);
  batch.requests.reserve(list.size());
  for (ListedRequest& listed : list) {
    Pending& pending = batch.requests.emplace_back();
    pending.token = std::move(listed.token);
    if (caller.is_id_of_call) pending.id_in_use = IdInUse::kMakeAnother;
    pending.asked = std::move(listed.asked);
    pending.access.model = pending.asked.model;
    pending.writer = std::move(listed.writer);
    pending.arrived = caller.arrived;
    pending.trace = RecordOf(caller);
  }
  if (caller.lease != nullptr) batch.requests.front().lease = std::move(*caller.lease);
  if (const absl::Status checked = CheckAll(batch); !checked.ok()) {
    Refuse(batch, WithRetryPushback(checked), ReasonOfCheck(checked));
    return;
  }
  if (const absl::Status status = Tokenize(batch); !status.ok()) {
    Refuse(batch, WithRetryPushback(status));
    return;
  }
  if (FindConstraints(batch)) return Finish(batch);
  size_t num_bytes = 0;
  for (const Pending& pending : batch.requests) num_bytes += NumBytes(pending.asked.prompt);
  parts_.pool->Add({num_bytes, batch.token, batch.cost, [this, held](const absl::Status& status) {
                      if (status.ok()) {
                        Finish(*held);
                      } else {
                        Refuse(*held, status);
                      }
                    }});
}

void GenerateHandler::Finish(Batch& batch) {
  absl::Status status = Constrain(batch);
  if (status.ok()) status = Submit(batch);
  if (!status.ok()) Refuse(batch, WithRetryPushback(status));
}

// Nothing limits what comes before the answer: reasoning that a chat's prompt has begun, or that
// the answer may begin with.
absl::Status GenerateHandler::AddReasoning(Pending& pending) const {
  const Generation& asked = pending.asked;
  ConstraintSpec& spec = *pending.asked.constraint;
  if (!parts_.model->has_tokenizer) {
    return UnimplementedField(FieldOfConstraint(asked),
                              "needs the tokenizer, which --skip-tokenizer-init leaves out");
  }
  const ReasoningFormat& reasoning = parts_.answers->reasoning();
  const bool may_reason = asked.has_reasoning || std::holds_alternative<ChatPrompt>(asked.prompt);
  if (reasoning.is_none() || !may_reason) return absl::OkStatus();
  if (reasoning.in_channels) {
    return UnimplementedField(FieldOfConstraint(asked),
                              "is not supported for models that answer in channels (gpt-oss) yet; "
                              "leave it out");
  }
  if (parts_.answers->BeginsInReasoning(pending.job.request.prompt)) {
    spec.reasoning_close = reasoning.close;
  } else if (asked.has_reasoning) {
    spec.reasoning_open = reasoning.open;
    spec.reasoning_close = reasoning.close;
  }
  return absl::OkStatus();
}

// Gives the requests the constraints that are known. False if one must be compiled.
bool GenerateHandler::FindConstraints(Batch& batch) const {
  bool has_all = true;
  for (Pending& pending : batch.requests) {
    if (!pending.asked.constraint.has_value()) continue;
    pending.job.request.constraint = parts_.constraints->Find(*pending.asked.constraint);
    has_all = has_all && pending.job.request.constraint != nullptr;
  }
  return has_all;
}

absl::Status GenerateHandler::Constrain(Batch& batch) {
  for (Pending& pending : batch.requests) {
    if (!pending.asked.constraint.has_value() || pending.job.request.constraint != nullptr)
      continue;
    auto source = parts_.constraints->Compile(*pending.asked.constraint);
    if (absl::IsResourceExhausted(source.status())) {
      // Not the server's shortage: it would be too large later, too.
      return InvalidField(FieldOfConstraint(pending.asked), source.status().message());
    }
    if (!source.ok()) return InField(FieldOfConstraint(pending.asked), source.status());
    pending.job.request.constraint = *std::move(source);
  }
  return absl::OkStatus();
}

absl::Status GenerateHandler::CheckAll(Batch& batch) {
  for (Pending& pending : batch.requests) RETURN_IF_ERROR(Check(*batch.principal, pending));
  return absl::OkStatus();
}

absl::Status GenerateHandler::Check(const Principal& principal, Pending& pending) {
  const Generation& asked = pending.asked;
  const auto* chat = std::get_if<ChatPrompt>(&asked.prompt);
  if (chat != nullptr) RETURN_IF_ERROR(CheckMessages(*chat, *asked.names));
  ASSIGN_OR_RETURN(pending.job, ConvertParameters(asked, *parts_.model, seeds_.Next()));
  RETURN_IF_ERROR(ApplyPrincipal(principal, &pending.job));
  if (pending.lease.request_id().empty()) {
    ASSIGN_OR_RETURN(pending.lease,
                     parts_.registry->Enter(principal, pending.job.client_id, pending.token,
                                            pending.arrived, pending.id_in_use));
  }
  if (pending.trace != nullptr) {
    RequestTrace& trace = *pending.trace;
    trace.is_chat = chat != nullptr;
    trace.request_id = pending.lease.request_id();
    trace.model = asked.model.empty() ? parts_.model->served_names[0] : asked.model;
    trace.sampling = pending.job.request.sampling;
  }
  return absl::OkStatus();
}

absl::Status GenerateHandler::Tokenize(Batch& batch) {
  for (Pending& pending : batch.requests) {
    if (batch.token->cancelled() || pending.token->cancelled()) {
      return absl::CancelledError("cancelled before it began");
    }
    const Prompt& asked = pending.asked.prompt;
    RequestFuel fuel(NumBytes(asked), NumMessages(asked), batch.token.get());
    ASSIGN_OR_RETURN(std::vector<TokenId> prompt,
                     EncodePrompt(asked, pending.job, *parts_.encoder, *parts_.model, &fuel));
    RETURN_IF_ERROR(SetPrompt(std::move(prompt), *parts_.model, &pending.job));
    if (pending.asked.constraint.has_value()) RETURN_IF_ERROR(AddReasoning(pending));
  }
  return absl::OkStatus();
}

absl::Status GenerateHandler::Submit(Batch& batch) {
  std::vector<std::unique_ptr<AnswerBuilder>> builders;
  std::vector<Request> requests;
  RETURN_IF_ERROR(CheckPromptLogprobs(batch));
  for (Pending& pending : batch.requests) {
    pending.writer->TakePrompt(pending.job.request.prompt);
    pending.job.request.arrived = pending.arrived;
    if (pending.trace != nullptr) {
      pending.trace->max_tokens = pending.job.request.stop.max_tokens;
      pending.trace->num_prompt_tokens = static_cast<int64_t>(pending.job.request.prompt.size());
    }
    builders.push_back(std::make_unique<AnswerBuilder>(parts_.encoder->tokenizer(), pending.job,
                                                       pending.lease.request_id()));
    requests.push_back(std::move(pending.job.request));
  }
  ASSIGN_OR_RETURN(auto streams, parts_.engine->Submit(std::move(requests), parts_.pump));
  std::vector<std::shared_ptr<CancelToken>> tokens;
  for (size_t i = 0; i < streams.size(); ++i) {
    tokens.push_back(batch.requests[i].token);
    HandOver(batch, i, std::move(builders[i]), std::move(streams[i]));
  }
  if (tokens.size() == 1 && tokens[0] == batch.token) return absl::OkStatus();
  const auto each = [tokens = std::move(tokens)](void (CancelToken::*end)()) {
    for (const auto& token : tokens) ((*token).*end)();
  };
  batch.token->Bind([each] { each(&CancelToken::Cancel); },
                    [each] { each(&CancelToken::Abandon); });
  return absl::OkStatus();
}

// Refuses a batch whose answer is known to become too large, before it begins.
absl::Status GenerateHandler::CheckPromptLogprobs(const Batch& batch) {
  // Its id and value, at least.
  constexpr size_t kLogprobBytes = 8;
  size_t num_bytes = 0;
  for (const Pending& pending : batch.requests) {
    const Request& request = pending.job.request;
    const int64_t num_each = int64_t{1} + request.sampling.prompt_logprobs;
    num_bytes += static_cast<size_t>(num_each) * request.prompt.size() * kLogprobBytes;
  }
  return num_bytes <= kMaxAnswerBytes ? absl::OkStatus() : AnswerTooLarge();
}

// From here on the writer is the output thread's to end.
void GenerateHandler::HandOver(Batch& batch, size_t index, std::unique_ptr<AnswerBuilder> builder,
                               std::shared_ptr<OutputStream> stream) {
  Pending& pending = batch.requests[index];
  const RequestId id = stream->request_id();
  spdlog::debug("request {} of {} is engine request {}", pending.lease.request_id(),
                pending.lease.principal(), id);
  RunningRequest running;
  running.stream = std::move(stream);
  running.builder = std::move(builder);
  running.writer = std::move(pending.writer);
  running.access = std::move(pending.access);
  running.lease = std::move(pending.lease);
  running.answer_size = batch.answer_size;
  if (pending.trace != nullptr) {
    pending.trace->continuations.resize(running.stream->num_continuations());
    running.trace = std::move(pending.trace);
  }
  parts_.pump->Add(std::move(running));
  pending.token->Bind([engine = parts_.engine, id] { engine->Cancel(id); },
                      [engine = parts_.engine, pump = parts_.pump, id] {
                        engine->Cancel(id);
                        pump->Abandon(id);
                      });
}

void GenerateHandler::Refuse(Batch& batch, const absl::Status& status,
                             std::optional<RefusalReason> reason) {
  for (Pending& pending : batch.requests) {
    pending.lease = {};  // before the client can know that its id is free
    CountRefused(status, reason, std::exchange(pending.trace, nullptr));
  }
  spdlog::debug("{} request(s) of {} end before the engine has them: {}", batch.requests.size(),
                batch.principal->name, absl::StatusCodeToString(status.code()));
  for (Pending& pending : batch.requests) {
    pending.writer->End(status, std::move(pending.access));
    pending.writer.reset();
  }
}

}  // namespace quire
