// GenerateHandler: the way of a generate request into the engine, whatever the transport: check,
// tokenize, submit, hand over to the output thread. Any thread may start requests.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "server/auth/principal.h"
#include "server/observe/metrics/server_metrics.h"
#include "server/request/answer_size.h"
#include "server/request/cancel_token.h"
#include "server/request/generate/prompt_encoder.h"
#include "server/request/generation.h"
#include "server/request/generation_job.h"
#include "server/request/model_facts.h"
#include "server/request/output/answer_writer.h"
#include "server/request/output/output_pump.h"
#include "server/request/request_registry.h"
#include "server/request/request_seeds.h"
#include "server/trace/trace_exporter.h"

namespace quire {

class CallCost;
class ConstraintCompiler;
class Engine;
class ModelAnswers;
class WorkPool;

// The caller that makes requests with one call.
struct Caller {
  std::shared_ptr<const Principal> principal;
  std::shared_ptr<CancelToken> token;  // cancels all of them at any time
  TraceContext trace;                  // as TraceOf says
  absl::Time arrived;                  // when the whole request of the call was here
  // The request's id comes with the call, not with the request. Proxies and clients that try again
  // may send it more than once, so while the id is in use, another one is made from it.
  bool is_id_of_call = false;
  // The lease of the only request, if it was entered before it was read (Enter).
  std::shared_ptr<RequestRegistry::Lease> lease = nullptr;
  std::shared_ptr<CallCost> cost = nullptr;  // pays for work in the pool; null: nobody does
};

// One request of several.
struct ListedRequest {
  Generation asked;
  std::shared_ptr<CancelToken> token;  // cancels this one; the caller's token if it has no other
  std::unique_ptr<AnswerWriter> writer;
};

class GenerateHandler {
 public:
  // All parts must outlive the handler and every request it has started.
  struct Parts {
    Engine* engine;
    OutputPump* pump;
    RequestRegistry* registry;
    const PromptEncoder* encoder;
    const ModelAnswers* answers;
    ConstraintCompiler* constraints;  // null without a tokenizer
    WorkPool* pool;                   // compiles what is not known yet
    const ModelFacts* model;
    std::optional<uint64_t> seed;  // for requests that bring none
    ServerMetrics* metrics;
    TraceExporter* exporter = nullptr;  // null: nothing is recorded
  };
  explicit GenerateHandler(const Parts& parts) : parts_(parts), seeds_(parts.seed) {}

  // Whether the engine has room for this many continuations of `principal` now. It is asked twice,
  // so that refusing costs next to nothing: for any at all, before a message is even read, and for
  // as many as a call asks for, before its requests are made. RESOURCE_EXHAUSTED with retry advice,
  // UNAVAILABLE; INVALID_ARGUMENT for more than ever fits.
  absl::Status CheckRoom(const Principal& principal, int64_t num_continuations = 1) const;

  // The trace of the requests of a call whose caller sent `callers`.
  TraceContext TraceOf(const TraceContext& callers) const {
    return parts_.exporter != nullptr ? parts_.exporter->TraceOf(callers) : callers;
  }

  // Enters a request that waits before it is read, so that it can be ended by its id and counts
  // among its principal's requests. The same errors as RequestRegistry's.
  absl::StatusOr<std::shared_ptr<RequestRegistry::Lease>> Enter(const Caller& caller,
                                                                const std::string& request_id);

  // Ends a request, with this error, before it is made. It is counted, for `reason` or else for the
  // status's own, and traced like a request that Start refuses. Its id is free again.
  void Refuse(const Caller& caller, const absl::Status& status,
              std::optional<RefusalReason> reason = std::nullopt);

  // Why a request is refused whose check or entry ends with this error.
  static RefusalReason ReasonOfCheck(const absl::Status& status);

  // Starts a request: tokenizes its prompt on this thread (see ReadRequest in server/call/). A
  // constraint that is not known yet is compiled in the pool. The answer goes to `writer`, which is
  // ended exactly once, perhaps before this returns.
  void Start(Caller caller, Generation asked, std::unique_ptr<AnswerWriter> writer);

  // The same for a list of requests, which the engine takes together or not at all. An error that
  // keeps one of them from beginning goes to the writers of all.
  void StartAll(Caller caller, std::vector<ListedRequest> list);

 private:
  // A request on its way to the engine.
  struct Pending {
    std::shared_ptr<CancelToken> token;
    IdInUse id_in_use = IdInUse::kRefuse;
    Generation asked;
    absl::Time arrived;
    RecordedTrace trace;  // null: not recorded
    GenerationJob job;
    std::unique_ptr<AnswerWriter> writer;
    AccessEntry access;
    RequestRegistry::Lease lease;
  };
  // The requests of one call.
  struct Batch {
    std::shared_ptr<const Principal> principal;
    std::shared_ptr<CancelToken> token;
    std::shared_ptr<CallCost> cost;
    std::vector<Pending> requests;
    const std::shared_ptr<AnswerSize> answer_size = std::make_shared<AnswerSize>();
  };

  RecordedTrace RecordOf(const Caller& caller);  // null: not recorded
  void CountRefused(const absl::Status& status, std::optional<RefusalReason> reason,
                    const RecordedTrace& trace);
  absl::Status Check(const Principal& principal, Pending& pending);
  absl::Status CheckAll(Batch& batch);
  absl::Status Tokenize(Batch& batch);
  absl::Status AddReasoning(Pending& pending) const;
  bool FindConstraints(Batch& batch) const;
  absl::Status Constrain(Batch& batch);
  void Finish(Batch& batch);
  absl::Status Submit(Batch& batch);
  static absl::Status CheckPromptLogprobs(const Batch& batch);
  void HandOver(Batch& batch, size_t index, std::unique_ptr<AnswerBuilder> builder,
                std::shared_ptr<OutputStream> stream);
  void Refuse(Batch& batch, const absl::Status& status,
              std::optional<RefusalReason> reason = std::nullopt);

  const Parts parts_;
  RequestSeeds seeds_;
};

}  // namespace quire
